//! Roots: links, nesting, rights, and places that must not be given away.

use std::{fs, os::unix::fs::symlink};

use super::*;

#[test]
fn relative_and_untidy_paths_become_absolute() {
    let case = Case::new();
    case.mkdir("cwd/data/odd:r");
    let plan = case.accepted(&[
        "--root",
        ".",
        "--root",
        "./data//odd:r:rw",
        "--root",
        "BASE/docs/./:rx",
        "--root",
        "BASE/docs/:rx",
        "--",
        "x",
    ]);
    let expected = ["BASE/cwd:r", "BASE/cwd/data/odd:r:rw", "BASE/docs:rx"].map(|root| case.filled(root));
    assert_eq!(Case::roots(&plan), expected);
}

#[test]
fn a_missing_root() {
    let case = Case::new();
    case.refused(
        &["--root", "BASE/gone/deep:rw", "--", "x"],
        "cannot use root `BASE/gone/deep`",
        "`BASE/gone` does not exist",
        "create it, or correct the path",
    );
    case.refused(
        &["--root", "~/docs", "--", "x"],
        "cannot use root `BASE/cwd/~/docs`",
        "`BASE/cwd/~` does not exist",
        "write the home directory out: `~` is a shell's word",
    );
    case.write("file", "");
    case.refused(
        &["--root", "BASE/file/x", "--", "x"],
        "cannot use root `BASE/file/x`",
        "`BASE/file/x`: not a directory",
        "correct the path",
    );
    case.refused(
        &["--root", ":r", "--", "x"],
        "cannot use a root without a path",
        "its path is empty",
        "write `PATH:RIGHTS`",
    );
}

#[test]
fn mistyped_rights() {
    let case = Case::new();
    for suffix in ["rq", "wr", "", "read-only"] {
        case.refused(
            &["--root", &format!("BASE/docs:{suffix}"), "--", "x"],
            &format!("cannot use root `BASE/docs:{suffix}`"),
            &format!("`{suffix}` is not one of `r`, `rw`, `rx`, `rwx`, and no file has that whole name"),
            "write `PATH:RIGHTS` with one of these rights",
        );
    }
    case.mkdir("docs:rq");
    assert_eq!(
        Case::roots(&case.accepted(&["--root", "BASE/docs:rq", "--", "x"])),
        [case.filled("BASE/docs:rq:r")]
    );
}

#[test]
fn a_root_that_is_a_link() {
    let case = Case::new();
    symlink(case.at("docs"), case.at("current")).unwrap();
    symlink("nowhere", case.at("dangling")).unwrap();
    for spelled in ["BASE/current", "BASE/current/"] {
        case.refused(
            &["--root", spelled, "--", "x"],
            "cannot use root `BASE/current`",
            "it is a symbolic link to `BASE/docs`",
            "name `BASE/docs` itself",
        );
    }
    case.refused(
        &["--root", "BASE/dangling:rw", "--", "x"],
        "cannot use root `BASE/dangling`",
        "it is a symbolic link that leads nowhere: `BASE/nowhere`: no such file or directory",
        "name a directory or file that exists",
    );
    // A link among the ancestors is the warden's to resolve.
    let plan = case.accepted(&["--root", "BASE/current/deep", "--", "x"]);
    assert_eq!(Case::roots(&plan), [case.filled("BASE/current/deep:r")]);
}

#[test]
fn a_parent_in_the_path() {
    let case = Case::new();
    case.refused(
        &["--root", "../docs:rw", "--", "x"],
        "cannot use root `../docs`",
        "what `..` means depends on the symbolic links before it",
        "name it without `..`: `BASE/docs`",
    );
    case.refused(
        &["--root", "../gone", "--", "x"],
        "cannot use root `../gone`",
        "what `..` means depends on the symbolic links before it",
        "name its absolute path without `..`",
    );
}

#[test]
fn trees_that_are_no_roots() {
    let case = Case::new();
    for rights in ["r", "rw"] {
        case.refused(
            &["--root", &format!("/:{rights}"), "--", "x"],
            "cannot use root `/`",
            "it holds everything, guard-agent's own state and audit too",
            "name the directories that the server needs",
        );
    }
    for (path, tree) in [
        ("/proc/self", "/proc"),
        ("/dev", "/dev"),
        ("/tmp", "/tmp"),
        ("/run", "/run"),
    ] {
        // `/proc/self` is a link: its target is meant.
        let path = fs::canonicalize(path).unwrap().display().to_string();
        case.refused(
            &["--root", &path, "--", "x"],
            &format!("cannot use root `{path}`"),
            &if tree == "/tmp" && case.base.starts_with("/tmp") {
                "every sandbox has a `/tmp` of its own, or none".to_owned()
            } else {
                format!("every sandbox has a `{tree}` of its own, or none")
            },
            "name a directory that holds the server's data",
        );
    }
    let _socket = std::os::unix::net::UnixListener::bind(case.at("socket")).unwrap();
    case.refused(
        &["--root", "BASE/socket", "--", "x"],
        "cannot use root `BASE/socket`",
        "it is neither a directory nor a regular file",
        "name a directory, or a regular file",
    );
}

#[test]
fn nested_roots_may_only_widen() {
    let case = Case::new();
    let wider = case.accepted(&["--root", "BASE/docs:r", "--root", "BASE/docs/deep:rw", "--", "x"]);
    assert_eq!(wider.roots.len(), 2);
    for order in [
        ["BASE/docs:rw", "BASE/docs/deep:r"],
        ["BASE/docs/deep:r", "BASE/docs:rw"],
    ] {
        case.refused(
            &["--root", order[0], "--root", order[1], "--", "x"],
            "cannot use root `BASE/docs/deep:r`",
            "it lies in root `BASE/docs:rw`, whose rights hold beneath it and would not be narrowed",
            "give it at least `rw`, or name the parts of `BASE/docs` that need their rights",
        );
    }
    // `x` instead of `w` is no widening.
    case.refused(
        &["--root", "BASE/docs:rw", "--root", "BASE/docs/deep:rx", "--", "x"],
        "cannot use root `BASE/docs/deep:rx`",
        "it lies in root `BASE/docs:rw`, whose rights hold beneath it and would not be narrowed",
        "give it at least `rw`, or name the parts of `BASE/docs` that need their rights",
    );
}

#[test]
fn nesting_is_seen_through_a_linked_ancestor() {
    let case = Case::new();
    symlink(case.at("docs"), case.at("alias")).unwrap();
    case.refused(
        &["--root", "BASE/docs:rw", "--root", "BASE/alias/deep:r", "--", "x"],
        "cannot use root `BASE/alias/deep:r`",
        "it lies in root `BASE/docs:rw`, whose rights hold beneath it and would not be narrowed",
        "give it at least `rw`, or name the parts of `BASE/docs` that need their rights",
    );
    case.refused(
        &[
            "--root",
            "BASE/docs/deep:r",
            "--root",
            "BASE/alias/deep:rw",
            "--",
            "x",
        ],
        "cannot use root `BASE/docs/deep`",
        "the same directory or file is given as `BASE/alias/deep:rw` and as `BASE/docs/deep:r`",
        "give it once",
    );
}

#[test]
fn the_same_root_twice() {
    let case = Case::new();
    assert_eq!(
        case.accepted(&["--root", "BASE/docs", "--root", "BASE/docs/:r", "--", "x"])
            .roots
            .len(),
        1
    );
    case.refused(
        &["--root", "BASE/docs:r", "--root", "BASE/docs:rw", "--", "x"],
        "cannot use root `BASE/docs`",
        "the same directory or file is given as `BASE/docs:rw` and as `BASE/docs:r`",
        "give it once",
    );
}

#[test]
fn roots_around_our_own_files() {
    let case = Case::new();
    let hint = "name a smaller root, or move the other elsewhere";
    let record = "a server must not reach the record of what it does";
    case.mkdir("docs/log");
    case.refused(
        &["--audit", "BASE/docs/log", "--root", "BASE/docs", "--", "x"],
        "cannot use root `BASE/docs`",
        &format!("it holds the audit directory `BASE/docs/log`: {record}"),
        hint,
    );
    case.refused(
        &["--audit", "BASE/docs/new/log", "--root", "BASE/docs", "--", "x"],
        "cannot use root `BASE/docs`",
        &format!("it would hold the audit directory `BASE/docs/new/log`: {record}"),
        hint,
    );
    case.mkdir("audit/2024");
    case.refused(
        &["--root", "BASE/audit/2024", "--", "x"],
        "cannot use root `BASE/audit/2024`",
        &format!("it lies in the audit directory `BASE/audit`: {record}"),
        hint,
    );
    case.refused(
        &["--root", "BASE/state", "--", "x"],
        "cannot use root `BASE/state`",
        "it is the state directory `BASE/state`: a server must not reach the sockets and state of its guard",
        hint,
    );
    case.policy_refused(
        "[server.a]\ncommand = [\"x\"]\nroots = [{ path = \"BASE/policy.toml\" }]\n",
        "cannot use root `BASE/policy.toml`",
        "it is the policy `BASE/policy.toml`: a server must not reach the rules it runs under",
        hint,
    );
}

#[test]
fn a_root_that_holds_only_a_link_to_our_files() {
    let case = Case::new();
    symlink(case.at("audit"), case.at("docs/link")).unwrap();
    // Who may replace the link decides where the audit goes.
    case.refused(
        &["--audit", "BASE/docs/link", "--root", "BASE/docs:rw", "--", "x"],
        "cannot use root `BASE/docs`",
        "it holds the audit directory `BASE/docs/link`: a server must not reach the record of what it does",
        "name a smaller root, or move the other elsewhere",
    );
    // And by another name of the same directory.
    symlink(&case.base, case.at("cwd/up")).unwrap();
    case.refused(
        &["--root", "cwd/up/audit", "--", "x"],
        "cannot use root `BASE/cwd/cwd/up/audit`",
        "`BASE/cwd/cwd` does not exist",
        "create it, or correct the path",
    );
    case.refused(
        &["--root", "up/audit", "--", "x"],
        "cannot use root `BASE/cwd/up/audit`",
        "it is the audit directory `BASE/audit`: a server must not reach the record of what it does",
        "name a smaller root, or move the other elsewhere",
    );
}

#[test]
fn writing_where_clients_keep_their_programs() {
    let case = Case::new();
    let hint = "name a smaller root, or take the right to write (`:r`)";
    case.refused(
        &["--root", "BASE/home/ann:rw", "--", "x"],
        "cannot use root `BASE/home/ann`",
        "it would hold a client's configuration `BASE/home/ann/.config/Claude/claude_desktop_config.json`: \
         clients start the programs that are listed there",
        hint,
    );
    case.accepted(&["--root", "BASE/home/ann:rx", "--", "x"]);
    case.mkdir("home/ann/.cursor");
    case.write("home/ann/.cursor/mcp.json", "{}");
    case.refused(
        &["--root", "BASE/home/ann/.cursor/mcp.json:rw", "--", "x"],
        "cannot use root `BASE/home/ann/.cursor/mcp.json`",
        "it is a client's configuration `BASE/home/ann/.cursor/mcp.json`: clients start the programs that are listed there",
        hint,
    );
    case.mkdir("home/ann/work");
    case.accepted(&["--root", "BASE/home/ann/work:rw", "--", "x"]);
}

#[test]
fn the_home_of_the_person_behind_sudo_counts() {
    let mut case = Case::root();
    case.host.home = Some("/root".into());
    case.host.sudo_uid = Some("1001".into());
    case.host.sudo_gid = Some("1001".into());
    case.refused(
        &["--root", "BASE/home/bob:rw", "--", "x"],
        "cannot use root `BASE/home/bob`",
        "it would hold a client's configuration `BASE/home/bob/.config/Claude/claude_desktop_config.json`: \
         clients start the programs that are listed there",
        "name a smaller root, or take the right to write (`:r`)",
    );
    // A service account's home is its data, unless a client is really used there.
    case.host.sudo_uid = None;
    case.accepted(&["--user", "bob", "--root", "BASE/home/bob:rw", "--", "x"]);
    case.write("home/bob/.claude.json", "{}");
    case.refused(
        &["--user", "bob", "--root", "BASE/home/bob:rw", "--", "x"],
        "cannot use root `BASE/home/bob`",
        "it holds a client's configuration `BASE/home/bob/.claude.json`: clients start the programs that are listed there",
        "name a smaller root, or take the right to write (`:r`)",
    );
}

#[test]
fn a_mount_beneath_the_root_that_leads_to_our_files() {
    let mut case = Case::new();
    case.mkdir("logs/here");
    // A link stands for the bind mount, which needs privilege: the same object by another way.
    symlink(case.at("logs"), case.at("docs/deep/bound")).unwrap();
    let line = ["--audit", "BASE/logs/here", "--root", "BASE/docs", "--", "x"];
    case.accepted(&line);
    case.host.mounts = vec![case.at("docs/deep/bound"), case.at("elsewhere")];
    case.refused(
        &line,
        "cannot use root `BASE/docs`",
        "it holds the audit directory `BASE/logs/here`: a server must not reach the record of what it does",
        "name a smaller root, or move the other elsewhere",
    );
    case.accepted(&["--audit", "BASE/logs/here", "--root", "BASE/home", "--", "x"]);
}
