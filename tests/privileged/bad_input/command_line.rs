//! Flags, users, tiers and commands.

use std::fs;

use anyhow::{Result, ensure};
use guard_tests::refused::{PATIENCE, Stage, Status, USER, text};

const CANNOT_PARSE: &str = "cannot understand the command line";
const HELP: &str = "add `--help` to the command to see what it takes";
const OTHER_ACCOUNT: &str = "name another account, or use `dynamic` for a uid of its own";

/// Refused before anything of ours was made.
fn refused_early(
    stage: &Stage,
    run: &guard_tests::agent::AgentBuilder,
    status: Status,
    words: [&str; 3],
) -> Result<()> {
    stage.refused(run, status, words)?;
    ensure!(!stage.bench.state().exists(), "a state directory was made");
    ensure!(!stage.bench.audit().exists(), "an audit directory was made");
    Ok(())
}

#[test]
fn unknown_flag() -> Result<()> {
    let stage = Stage::new("flag")?;
    let words = [CANNOT_PARSE, "unexpected argument `--bogus` found", HELP];
    refused_early(&stage, &stage.run().flag("--bogus"), Status::Usage, words)?;
    let fix = format!("a similar argument exists: `--root`; {HELP}");
    let words = [CANNOT_PARSE, "unexpected argument `--rot` found", &fix];
    refused_early(&stage, &stage.run().flag("--rot=/x"), Status::Usage, words)
}

#[test]
fn unknown_values() -> Result<()> {
    let stage = Stage::new("values")?;
    for (flag, value, why) in [
        (
            "--view",
            "other",
            "invalid value `other` for `--view <VIEW>` [possible values: private, host]",
        ),
        (
            "--tier",
            "T9",
            "invalid value `T9` for `--tier <TIER>` [possible values: T1, T2, T3]",
        ),
        (
            "--runtime",
            "perl",
            "invalid value `perl` for `--runtime <KIND>` [possible values: auto, node, python, static]",
        ),
    ] {
        let run = stage.run().option(flag, value);
        refused_early(&stage, &run, Status::Usage, [CANNOT_PARSE, why, HELP])?;
    }
    // A value that would be two lines, or move the cursor.
    let run = stage.run().option("--view", "a\nerror: forged\u{202e}");
    let why = "invalid value `a error: forged\\u{202e}` for `--view <VIEW>` [possible values: private, host]";
    refused_early(&stage, &run, Status::Usage, [CANNOT_PARSE, why, HELP])
}

#[test]
fn users_that_cannot_be() -> Result<()> {
    let stage = Stage::new("users")?;
    let root = "it is root, and no sandbox runs as root";
    let unknown = "`/etc/passwd` has no such account (directory services are not asked)";
    let local = "name a local account, or use `dynamic` for a uid of its own";
    for (user, why, fix) in [
        ("root", root, OTHER_ACCOUNT),
        ("0", root, OTHER_ACCOUNT),
        ("no-such-user", unknown, local),
        ("3999999999", unknown, local),
        (
            "99999999999",
            "a uid has 32 bits",
            "name an account: `--user NAME`, or `--user dynamic`",
        ),
        (
            "nobody",
            "uid 65534 stands for files of nobody in particular, on this machine and over the network",
            OTHER_ACCOUNT,
        ),
    ] {
        let what = format!("cannot run the server as `{user}`");
        refused_early(&stage, &stage.run().user(user), Status::Usage, [&what, why, fix])?;
    }
    Ok(())
}

#[test]
fn tiers_that_are_not_to_be_had() -> Result<()> {
    let stage = Stage::new("tier")?;
    let why = "it is the tier of ordinary users, and this is root";
    let fix = "start it as the user the server is to run as, or leave `--tier` out";
    let lines = ["cannot enforce at tier T3", why, fix];
    refused_early(
        &stage,
        &stage.run().option("--tier", "T3"),
        Status::NotEnforced,
        lines,
    )
}

#[test]
fn no_command() -> Result<()> {
    let stage = Stage::new("none")?;
    let words = [
        "nothing to run",
        "neither a command nor `--policy` is given",
        "put the server's command after `--`: `guard-agent run --root /srv/docs:r -- node server.js`",
    ];
    refused_early(&stage, &stage.plain(), Status::Usage, words)
}

#[test]
fn commands_that_are_none() -> Result<()> {
    let stage = Stage::new("command")?;
    let (plain, place) = (stage.path("plain"), stage.directory("place")?);
    fs::write(&plain, "#!/bin/sh\n")?;
    let missing = stage.path("missing");
    let run = |command: &str| {
        stage
            .plain()
            .outer_env("PATH", "/usr/bin:/bin")
            .command([command])
    };

    let told = "`no-such-command` is in no directory of `PATH` (/usr/bin:/bin)";
    let words = [
        "cannot start `no-such-command`",
        told,
        "install it, extend `PATH`, or name it by its full path",
    ];
    refused_early(&stage, &run("no-such-command"), Status::Usage, words)?;

    let what = format!("cannot start `{}`", text(&missing));
    let why = format!("`{}` does not exist", text(&missing));
    let words = [what.as_str(), &why, "check the spelling, or install it"];
    refused_early(&stage, &run(&text(&missing)), Status::Usage, words)?;

    let what = format!("cannot start `{}`", text(&plain));
    let why = format!("`{}` is not executable for uid 5", text(&plain));
    let fix = format!(
        "make it executable (`chmod +x {}`), or name its interpreter in front of it",
        text(&plain)
    );
    let by_user = run(&text(&plain)).user(USER);
    refused_early(&stage, &by_user, Status::Usage, [&what, &why, &fix])?;

    let what = format!("cannot start `{}`", text(&place));
    let why = format!("`{}` is a directory", text(&place));
    let words = [what.as_str(), &why, "name the program file itself"];
    refused_early(&stage, &run(&text(&place)), Status::Usage, words)
}

/// A directory of `PATH` that the server's user may not search is not the end of the search, and is named when
/// it could have been.
#[test]
fn a_closed_directory_of_path() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::new("path")?;
    let closed = stage.directory("closed")?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
    let path = format!("{}:/usr/bin", text(&closed));
    let run = stage
        .plain()
        .user(USER)
        .outer_env("PATH", &path)
        .command(["no-such-command"]);
    let why = format!(
        "no directory of `PATH` that can be searched has `no-such-command`, and component `{}` is mode 0700 of uid 0, so uid 5 cannot pass it",
        text(&closed)
    );
    let fix = format!(
        "if it lies there: name a user that can with `--user`, install it where uid 5 can reach it (`/opt`, `/usr/local`), or open `{}` to it",
        text(&closed)
    );
    refused_early(
        &stage,
        &run,
        Status::Usage,
        ["cannot start `no-such-command`", &why, &fix],
    )?;
    let works = stage
        .run()
        .user(USER)
        .outer_env("PATH", &path)
        .command(["touch".into(), stage.marker().into_os_string()]);
    let finished = works.run("", PATIENCE)?;
    ensure!(
        finished.status.success() && stage.marker().exists(),
        "{}",
        finished.stderr
    );
    Ok(())
}

/// Too long for the link: refused before the warden hears of it. What still fits runs.
#[test]
fn too_many_arguments() -> Result<()> {
    let stage = Stage::new("long")?;
    let long = "a".repeat(100_000);
    let mut command: Vec<std::ffi::OsString> = stage.touch().into();
    command.extend([(); 3].map(|()| (&long).into()));
    let finished = stage.run().command(command).run("", PATIENCE)?;
    let mut lines = finished.stderr.lines();
    ensure!(
        lines.next() == Some("error: cannot launch this command"),
        "{}",
        finished.stderr
    );
    let why = lines.next().unwrap_or_default();
    ensure!(
        why.starts_with("  why: message of ") && why.ends_with(" bytes is larger than the 262144 allowed"),
        "{}",
        finished.stderr
    );
    ensure!(
        lines.eq(["  fix: shorten its arguments or its environment"]),
        "{}",
        finished.stderr
    );
    stage.ended(&finished, Status::Usage)?;
    let mut command: Vec<std::ffi::OsString> = stage.touch().into();
    command.push(format!("{}/{}", text(&stage.path("mark")), "b/".repeat(50_000)).into());
    let finished = stage.run().command(command).run("", PATIENCE)?;
    // `touch` refuses the second name; that it could shows that 100 KB passed.
    ensure!(
        finished.stderr.contains("File name too long"),
        "{}",
        finished.stderr
    );
    ensure!(stage.marker().exists(), "the first name was not touched");
    Ok(())
}
