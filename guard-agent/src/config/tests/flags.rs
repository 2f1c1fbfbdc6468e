//! The flags of `run`, by themselves and against each other.

use clap::error::ErrorKind;

use super::*;
use crate::{
    link::message::{Facet, Limits, User, View},
    runtime::RuntimeKind,
};

#[test]
fn defaults() {
    let case = Case::new();
    let plan = case.accepted(&["--", "/usr/bin/my server", "--flag"]);
    assert_eq!(plan.server, "my_server");
    assert_eq!(plan.command, ["/usr/bin/my server", "--flag"]);
    assert_eq!(plan.runtime_asked, RuntimeKind::Auto);
    assert_eq!(plan.view, View::Private);
    assert_eq!(plan.limits, Limits::default());
    assert_eq!(plan.require, [Facet::Fs, Facet::Net, Facet::Exec, Facet::Ipc]);
    assert_eq!(plan.directory.as_path(), case.host.directory);
    assert!(plan.roots.is_empty() && plan.environment.is_empty() && plan.free_names.is_empty());
    assert!(!plan.allow_unenforced);
    assert!(matches!(plan.user, User::Account { uid: 1000, .. }));
    // Nothing is made: a refused launch leaves nothing behind.
    assert!(!exists(&case.at("home/ann/.local")));
}

#[test]
fn default_directories() {
    let mut case = Case::new();
    let audit = |case: &Case| {
        resolved::resolve(&case.args(&["--", "x"]), &case.host).map(|plan| plan.audit.to_path_buf())
    };
    assert_eq!(
        audit(&case).unwrap(),
        case.at("home/ann/.local/state/guard-agent")
    );
    case.host.xdg_state_home = Some("/var/ann".into());
    assert_eq!(audit(&case).unwrap(), Path::new("/var/ann/guard-agent"));
    (case.host.xdg_state_home, case.host.home) = (None, None);
    assert_eq!(
        audit(&case).unwrap_err().to_string(),
        "error: cannot choose an audit directory\n  why: neither `XDG_STATE_HOME` nor `HOME` is an absolute path\n  \
         fix: name one: `--audit DIR`"
    );
    let root = Case::root();
    let plan = resolved::resolve(&root.args(&["--", "x"]), &root.host).unwrap();
    assert_eq!(plan.audit.as_path(), Path::new("/var/log/guard-agent"));
    assert_eq!(plan.state, Path::new("/run/guard-agent"));
}

#[test]
fn nothing_to_run() {
    let case = Case::new();
    case.refused(
        &["--root", "BASE/docs"],
        "nothing to run",
        "neither a command nor `--policy` is given",
        "put the server's command after `--`: `guard-agent run --root /srv/docs:r -- node server.js`",
    );
    case.refused(
        &["--", ""],
        "nothing to run",
        "the command after `--` is an empty string",
        "name the server's program first, then its arguments",
    );
}

#[test]
fn who_asks_decides_the_tier() {
    let user = Case::new();
    let root = Case::root();
    user.accepted(&["--tier", "T3", "--", "x"]);
    root.accepted(&["--tier", "T2", "--", "x"]);
    // Whether the machine has it is for the warden to find out.
    root.accepted(&["--tier", "T1", "--", "x"]);
    for (case, tier, why, fix) in [
        (
            &user,
            "T1",
            "uid 1000 may not make cgroups and eBPF links",
            "start it as root, for instance `sudo guard-agent run …` (the server itself then runs as you), or use `--tier T3`",
        ),
        (
            &user,
            "T2",
            "uid 1000 may not make cgroups and eBPF links",
            "start it as root, for instance `sudo guard-agent run …` (the server itself then runs as you), or use `--tier T3`",
        ),
        (
            &root,
            "T3",
            "it is the tier of ordinary users, and this is root",
            "start it as the user the server is to run as, or leave `--tier` out",
        ),
    ] {
        case.refused_with(
            ExitStatus::NotEnforced,
            &["--tier", tier, "--", "x"],
            &format!("cannot enforce at tier {tier}"),
            why,
            fix,
        );
    }
}

#[test]
fn where_the_warden_of_an_ordinary_user_is() {
    use std::os::unix::fs::MetadataExt as _;
    let mut case = Case::new();
    assert_eq!(case.host.default_state(), Path::new("/tmp/guard-agent-1000"));
    case.host.xdg_runtime_dir = Some(case.base.clone());
    let owner = case.base.metadata().unwrap().uid();
    // Somebody else's is not taken.
    case.host.uid = owner + 1;
    let fallback = PathBuf::from(format!("/tmp/guard-agent-{}", case.host.uid));
    assert_eq!(case.host.default_state(), fallback);
    if owner == 0 {
        std::os::unix::fs::chown(&case.base, Some(case.host.uid), None).unwrap();
    } else {
        case.host.uid = owner;
    }
    assert_eq!(case.host.default_state(), case.base.join("guard-agent"));
    case.host.uid = 0;
    assert_eq!(case.host.default_state(), Path::new("/run/guard-agent"));
}

#[test]
fn names() {
    let case = Case::new();
    assert_eq!(
        case.accepted(&["--name", "files-2.x", "--", "x"]).server,
        "files-2.x"
    );
    for bad in ["", "a/b", "a\nb", &"n".repeat(65)] {
        case.refused(
            &["--name", bad, "--", "x"],
            &format!("cannot use server name `{}`", shown(bad)),
            "a name has 1 to 64 letters, digits, `_`, `-` and `.`",
            "choose another name",
        );
    }
}

#[test]
fn directories_of_flags() {
    let case = Case::new();
    assert_eq!(
        case.accepted(&["--directory", "BASE/docs/", "--", "x"])
            .directory
            .as_path(),
        case.at("docs")
    );
    case.refused(
        &["--directory", "BASE/gone", "--", "x"],
        "cannot use working directory `BASE/gone`",
        "no such file or directory",
        "name a directory that exists",
    );
    case.refused(
        &["--directory", "BASE/passwd", "--", "x"],
        "cannot use working directory `BASE/passwd`",
        "it is not a directory",
        "name a directory",
    );
    assert_eq!(
        case.accepted(&["--audit", "log", "--", "x"]).audit.as_path(),
        case.at("cwd/log")
    );
    for flag in ["--audit", "--state"] {
        case.refused(
            &[flag, "../log", "--", "x"],
            &format!("cannot use `{flag} ../log`"),
            "what `..` means depends on the symbolic links before it",
            "name its absolute path without `..`",
        );
    }
}

#[test]
fn state_and_audit_are_apart() {
    let case = Case::new();
    std::fs::create_dir_all(case.at("both")).unwrap();
    std::os::unix::fs::symlink(case.at("both"), case.at("link")).unwrap();
    for (state, audit, how) in [
        ("both", "both", "is"),
        ("both/state", "both", "lies in"),
        ("both", "both/audit", "holds"),
        // Whatever the names are.
        ("link/state", "both", "lies in"),
        ("both", "link", "is"),
    ] {
        case.refused(
            &[
                "--state",
                &format!("BASE/{state}"),
                "--audit",
                &format!("BASE/{audit}"),
                "--",
                "x",
            ],
            &format!("cannot use state directory `BASE/{state}`"),
            &format!("it {how} the audit directory `BASE/{audit}`: neither may hold files of the other"),
            "give them directories apart with `--state` and `--audit`",
        );
    }
    let plan = case.accepted(&["--state", "BASE/both-state", "--audit", "BASE/both", "--", "x"]);
    assert_eq!(plan.state, case.at("both-state"));
}

#[test]
fn flags_that_do_not_exist() {
    let parse = |line: &[&str]| {
        CommandLine::try_parse_from([&["run"], line].concat())
            .err()
            .unwrap()
    };
    assert_eq!(
        parse(&["--netwrok", "--", "x"]).kind(),
        ErrorKind::UnknownArgument
    );
    assert_eq!(
        parse(&["--netwrok", "--", "x"]).exit_code(),
        ExitStatus::Usage as i32
    );
    // A command without `--` is no command: its flags would be taken for ours.
    assert_eq!(parse(&["node"]).exit_code(), ExitStatus::Usage as i32);
    assert_eq!(
        parse(&["--tier", "T4", "--", "x"]).kind(),
        ErrorKind::InvalidValue
    );
    assert_eq!(
        parse(&["--runtime", "ruby", "--", "x"]).kind(),
        ErrorKind::InvalidValue
    );
}

#[test]
fn the_documentation_has_every_flag() {
    use clap::CommandFactory as _;
    let page = include_str!("../../../../docs/commands.md");
    let (_, page) = page.split_once("## `guard-agent run`").unwrap();
    let page = page.split("\n## ").next().unwrap();
    let mut flags: Vec<String> = CommandLine::command()
        .get_arguments()
        .filter_map(|argument| argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let mut documented: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `--"))
        .filter_map(|rest| rest.split(['`', ' ']).next())
        .map(|name| format!("--{name}"))
        .collect();
    flags.sort();
    documented.sort();
    assert_eq!(flags, documented);
}

#[test]
fn the_hash_is_of_the_meaning_and_hides_values() {
    let case = Case::new();
    let hash = |line: &[&str]| case.accepted(line).policy_hash;
    let one = hash(&["--root", "BASE/docs:r", "--env", "KEY=one", "--", "x"]);
    assert_eq!(one.len(), "sha256:".len() + 64);
    assert_eq!(
        one,
        hash(&["--env", "KEY=two", "--root", "BASE/docs/", "--", "x"])
    );
    assert_ne!(
        one,
        hash(&["--root", "BASE/docs:rw", "--env", "KEY=one", "--", "x"])
    );
    assert_ne!(
        one,
        hash(&[
            "--root",
            "BASE/docs:r",
            "--env",
            "KEY=one",
            "--allow-unenforced",
            "--",
            "x"
        ])
    );
}
