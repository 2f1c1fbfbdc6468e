//! Roots that are none.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::refused::{PATIENCE, Stage, Status, USER, text};

fn refused(stage: &Stage, path: &Path, rights: &str, why: &str, fix: &str) -> Result<()> {
    let what = format!("cannot use root `{}`", text(path));
    stage.refused(&stage.run().root(path, rights), Status::Usage, [&what, why, fix])
}

#[test]
fn missing() -> Result<()> {
    let stage = Stage::new("missing")?;
    let path = stage.path("gone/deep");
    let why = format!("`{}` does not exist", text(&stage.path("gone")));
    refused(&stage, &path, "r", &why, "create it, or correct the path")
}

#[test]
fn symbolic_link() -> Result<()> {
    let stage = Stage::new("link")?;
    let target = stage.directory("target")?;
    let (link, nowhere) = (stage.path("link"), stage.path("nowhere"));
    symlink(&target, &link)?;
    symlink("gone", &nowhere)?;
    let why = format!("it is a symbolic link to `{}`", text(&target));
    refused(
        &stage,
        &link,
        "r",
        &why,
        &format!("name `{}` itself", text(&target)),
    )?;
    let why = format!(
        "it is a symbolic link that leads nowhere: `{}`: no such file or directory",
        text(&stage.path("gone"))
    );
    refused(
        &stage,
        &nowhere,
        "r",
        &why,
        "name a directory or file that exists",
    )
}

#[test]
fn narrower_inside_wider() -> Result<()> {
    let stage = Stage::new("nested")?;
    let (outer, inner) = (stage.directory("outer")?, stage.directory("outer/inner")?);
    let what = format!("cannot use root `{}:r`", text(&inner));
    let why = format!(
        "it lies in root `{}:rw`, whose rights hold beneath it and would not be narrowed",
        text(&outer)
    );
    let fix = format!(
        "give it at least `rw`, or name the parts of `{}` that need their rights",
        text(&outer)
    );
    for run in [
        stage.run().root(&outer, "rw").root(&inner, "r"),
        stage.run().root(&inner, "r").root(&outer, "rw"),
    ] {
        stage.refused(&run, Status::Usage, [&what, &why, &fix])?;
    }
    let what = format!("cannot use root `{}`", text(&outer));
    let both = format!("`{0}:r` and as `{0}:rw`", text(&outer));
    let why = format!(
        "the same directory or file is given as `{0}:rw` and as `{0}:r`",
        text(&outer)
    );
    let finished = stage
        .run()
        .root(&outer, "r")
        .root(&outer, "rw")
        .run("", PATIENCE)?;
    ensure!(
        finished.stderr.contains(&what)
            && (finished.stderr.contains(&both) || finished.stderr.contains(&why)),
        "{}",
        finished.stderr
    );
    stage.ended(&finished, Status::Usage)
}

/// Also through another name: a link on the way, a bind mount.
#[test]
fn holds_what_is_ours() -> Result<()> {
    let stage = Stage::new("ours")?;
    let top = stage.directory("top")?;
    for name in ["state", "audit"] {
        let dir = stage.directory(&format!("top/{name}"))?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
    let policy = top.join("policy.toml");
    let run = |audit: &str, state: &str| {
        guard_tests::agent::AgentBuilder::bare()
            .option("--audit", stage.path(audit))
            .option("--state", stage.path(state))
            .command(stage.touch())
    };
    let smaller = "name a smaller root, or move the other elsewhere";
    let audit = (
        "the audit directory",
        "a server must not reach the record of what it does",
    );
    let state = (
        "the state directory",
        "a server must not reach the sockets and state of its guard",
    );
    let cases = [
        (run("top/audit", "s"), "top", "it holds", audit, "top/audit"),
        (run("a", "top/state"), "top", "it holds", state, "top/state"),
        (run("top/new", "s"), "top", "it would hold", audit, "top/new"),
        (run("top/audit", "s"), "top/audit", "it is", audit, "top/audit"),
        (run("top", "s"), "top/audit", "it lies in", audit, "top"),
    ];
    for (run, root, relation, (name, danger), place) in cases {
        let what = format!("cannot use root `{}`", text(&stage.path(root)));
        let why = format!("{relation} {name} `{}`: {danger}", text(&stage.path(place)));
        stage.refused(
            &run.root(&stage.path(root), "r"),
            Status::Usage,
            [&what, &why, smaller],
        )?;
    }
    // The policy that describes it.
    fs::write(
        &policy,
        format!(
            "[server.s]\ncommand = [\"/usr/bin/touch\", \"{}\"]\nroots = [{{ path = \"{}\" }}]\n",
            text(&stage.marker()),
            text(&top)
        ),
    )?;
    let what = format!("cannot use root `{}`", text(&top));
    let why = format!(
        "it holds the policy `{}`: a server must not reach the rules it runs under",
        text(&policy)
    );
    stage.refused(
        &stage.plain().option("--policy", &policy),
        Status::Usage,
        [&what, &why, smaller],
    )
}

#[test]
fn behind_a_bind_mount() -> Result<()> {
    let stage = Stage::new("bind")?;
    let (top, elsewhere) = (stage.directory("top")?, stage.directory("top/elsewhere")?);
    let audit = stage.bench.audit();
    fs::create_dir(&audit)?;
    fs::set_permissions(&audit, fs::Permissions::from_mode(0o700))?;
    let setup = format!("mount --bind {} {}", text(&audit), text(&elsewhere));
    let run = stage
        .run()
        .root(&top, "r")
        .around(guard_tests::refused::with_mounts(&setup));
    let what = format!("cannot use root `{}`", text(&top));
    let why = format!(
        "it holds the audit directory `{}`: a server must not reach the record of what it does",
        text(&audit)
    );
    let fix = "name a smaller root, or move the other elsewhere";
    let finished = run.run("", PATIENCE)?;
    ensure!(
        finished.stderr == format!("error: {what}\n  why: {why}\n  fix: {fix}\n")
            || finished.stderr
                == format!(
                    "error: {what}\n  why: {}\n  fix: {fix}\n",
                    why.replace("holds", "is")
                ),
        "{}",
        finished.stderr
    );
    stage.ended(&finished, Status::Usage)
}

#[test]
fn the_kernels_own_trees() -> Result<()> {
    let stage = Stage::new("kernel")?;
    let data = "name a directory that holds the server's data";
    for (path, tree) in [
        ("/proc", "/proc"),
        ("/proc/1", "/proc"),
        ("/sys", "/sys"),
        ("/sys/kernel", "/sys"),
        ("/dev", "/dev"),
        ("/dev/shm", "/dev"),
        ("/run", "/run"),
        ("/tmp", "/tmp"),
    ] {
        let why = format!("every sandbox has a `{tree}` of its own, or none");
        refused(&stage, Path::new(path), "r", &why, data)?;
    }
    let why = "it holds everything, guard-agent's own state and audit too";
    refused(
        &stage,
        Path::new("/"),
        "r",
        why,
        "name the directories that the server needs",
    )?;
    // Mounted somewhere else, they are the same.
    let place = stage.directory("elsewhere")?;
    for (kind, source) in [
        ("proc", "proc"),
        ("sysfs", "sysfs"),
        ("cgroup2", "none"),
        ("devpts", "devpts"),
        ("bpf", "none"),
        ("debugfs", "none"),
        ("tracefs", "none"),
        ("securityfs", "none"),
    ] {
        let setup = format!("mount -t {kind} {source} {}", text(&place));
        let mount = guard_tests::refused::with_mounts(&setup);
        // Not every machine lets each be mounted.
        let possible = std::process::Command::new(&mount[0])
            .args(&mount[1..])
            .arg("true")
            .output()?;
        if guard_tests::require::skip(
            (!possible.status.success()).then_some("it cannot be mounted here"),
            kind,
        ) {
            continue;
        }
        let run = stage.run().root(&place, "r").around(mount);
        let what = format!("cannot use root `{}`", text(&place));
        let why = format!("it lies in a {kind} file system, whose files control the kernel");
        stage.refused(&run, Status::Usage, [&what, &why, data])?;
    }
    Ok(())
}

#[test]
fn sockets_and_pipes() -> Result<()> {
    let stage = Stage::new("special")?;
    let (socket, pipe) = (stage.path("socket"), stage.path("pipe"));
    let _listener = UnixListener::bind(&socket)?;
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o666))?;
    let why = "it is neither a directory nor a regular file";
    for path in [socket.as_path(), &pipe, Path::new("/dev/null")] {
        refused(&stage, path, "r", why, "name a directory, or a regular file")?;
    }
    Ok(())
}

#[test]
fn mistyped() -> Result<()> {
    let stage = Stage::new("mistyped")?;
    let place = stage.directory("place")?;
    let typed = format!("{}:rq", text(&place));
    let what = format!("cannot use root `{typed}`");
    let why = "`rq` is not one of `r`, `rw`, `rx`, `rwx`, and no file has that whole name";
    let fix = "write `PATH:RIGHTS` with one of these rights";
    stage.refused(
        &stage.run().option("--root", &typed),
        Status::Usage,
        [&what, why, fix],
    )?;
    let up = stage.path("place/../place");
    let fix = format!("name it without `..`: `{}`", text(&place));
    refused(
        &stage,
        &up,
        "r",
        "what `..` means depends on the symbolic links before it",
        &fix,
    )?;
    let words = [
        "cannot use a root without a path",
        "its path is empty",
        "write `PATH:RIGHTS`",
    ];
    stage.refused(&stage.run().option("--root", ":r"), Status::Usage, words)
}

/// The caller is root and reaches everything; the server's user does not, and is who counts.
#[test]
fn only_root_can_reach_it() -> Result<()> {
    let stage = Stage::new("closed")?;
    let (closed, inner) = (stage.directory("closed")?, stage.directory("closed/inner")?);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
    let fix = "give that user access, or run the server as one that has it: `--user NAME`";
    for path in [&closed, &inner] {
        let what = format!("cannot use root `{}`", text(path));
        let why = format!(
            "uid 5, which the server runs as, cannot reach it: `{}` is mode 0700 of uid 0",
            text(&closed)
        );
        stage.refused(
            &stage.run().user(USER).root(path, "r"),
            Status::Usage,
            [&what, &why, fix],
        )?;
        // A caller who is root and names nobody: a uid of its own, other ones each time.
        let finished = stage.run().root(path, "r").run("", PATIENCE)?;
        let line = finished.stderr.lines().nth(1).context("no reason")?;
        let uid = line
            .strip_prefix("  why: uid ")
            .and_then(|rest| rest.split(',').next())
            .and_then(|uid| uid.parse::<u32>().ok())
            .with_context(|| format!("no uid in {}", finished.stderr))?;
        ensure!(uid >= 2_100_000_000, "uid {uid} is no dynamic one");
        let told = format!("error: {what}\n{line}\n  fix: {fix}\n");
        ensure!(
            finished.stderr == told && line.ends_with(&why[5..]),
            "{}",
            finished.stderr
        );
        stage.ended(&finished, Status::Usage)?;
    }
    let (file, readable) = (stage.path("file"), stage.path("readable"));
    fs::write(&file, "x")?;
    fs::write(&readable, "x")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    let what = format!("cannot use root `{}`", text(&file));
    let why = format!(
        "uid 5, which the server runs as, cannot reach it: `{}` is mode 0600 of uid 0",
        text(&file)
    );
    stage.refused(
        &stage.run().user(USER).root(&file, "r"),
        Status::Usage,
        [&what, &why, fix],
    )?;
    let finished = stage.run().user(USER).root(&readable, "r").run("", PATIENCE)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    Ok(())
}
