//! Landlock on this kernel: each right of a root, by really trying.

use std::{
    collections::BTreeMap,
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::{fs::symlink, net::UnixListener},
    },
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use guard_agent::confine::landlock::{LandlockProbe, probe};

const EACCES: i32 = libc::EACCES;

/// What the probe printed: the state line, and an errno for each operation.
struct Run {
    state: String,
    errnos: BTreeMap<String, i32>,
}

fn run(rules: &str, operations: &[String]) -> Result<Run> {
    let output = Command::new(env!("CARGO_BIN_EXE_confine-probe"))
        .args(["landlock", rules])
        .args(operations)
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout)?;
    let mut lines = text.lines();
    let state = lines.next().context("no state")?.to_owned();
    let errnos = lines
        .map(|line| {
            let (operation, errno) = line.rsplit_once(": ").context("no errno")?;
            Ok((operation.to_owned(), errno.parse()?))
        })
        .collect::<Result<_>>()?;
    Ok(Run { state, errnos })
}

/// A tree with everything the operations need; made anew for each run.
fn tree(root: &Path) -> Result<()> {
    for directory in ["", "sub", "empty", "other"] {
        fs::create_dir_all(root.join(directory))?;
    }
    for file in ["file", "victim", "sub/moved", "linked", "emptied"] {
        fs::write(root.join(file), "x")?;
    }
    symlink("file", root.join("symlink"))?;
    // A static one: a dynamic one needs its loader, which is outside.
    fs::copy(env!("CARGO_BIN_EXE_confine-probe"), root.join("program"))?;
    Ok(())
}

const READ: &[&str] = &["read {}/file", "list {}/sub", "read {}/symlink"];
const WRITE: &[&str] = &[
    "write {}/file",
    "truncate {}/emptied",
    "create {}/new",
    "mkdir {}/newdir",
    "symlink {}/newlink",
    "mkfifo {}/newfifo",
    "socket {}/newsocket",
    "unlink {}/victim",
    "rmdir {}/empty",
    "rename {}/sub/moved {}/other/moved",
    "link {}/linked {}/sub/linked",
];
const EXEC: &[&str] = &["exec {}/program"];
const NEVER: &[&str] = &["device {}/newdevice"];

fn named(operations: &[&str], root: &Path) -> Vec<String> {
    operations
        .iter()
        .map(|operation| operation.replace("{}", &root.display().to_string()))
        .collect()
}

fn everything(root: &Path) -> Vec<String> {
    [READ, WRITE, EXEC, NEVER]
        .iter()
        .flat_map(|set| named(set, root))
        .collect()
}

#[test]
fn every_operation_works_without_rules_in_the_way() -> Result<()> {
    let directory = tempfile::tempdir()?;
    tree(directory.path())?;
    // The control: root of the whole tree, all rights. Only the device node is Landlock's to refuse, and ours.
    let run = run("/=rwx", &everything(directory.path()))?;
    for (operation, errno) in run.errnos {
        assert_eq!(
            errno,
            if operation.starts_with("device") {
                EACCES
            } else {
                0
            },
            "{operation}"
        );
    }
    Ok(())
}

#[test]
fn rights_of_a_root_are_what_they_say() -> Result<()> {
    for rights in ["r", "rw", "rx", "rwx"] {
        let directory = tempfile::tempdir()?;
        tree(directory.path())?;
        let operations = everything(directory.path());
        let run = run(&format!("{}={rights}", directory.path().display()), &operations)?;
        for (set, allowed) in [
            (READ, true),
            (WRITE, rights.contains('w')),
            (EXEC, rights.contains('x')),
            (NEVER, false),
        ] {
            for operation in named(set, directory.path()) {
                let errno = run.errnos[&operation];
                if allowed {
                    assert_eq!(errno, 0, "{rights}: {operation}");
                } else {
                    // Moving between directories is refused with EXDEV, as between file systems.
                    assert!(
                        errno == EACCES || errno == libc::EXDEV,
                        "{rights}: {operation}: {errno}"
                    );
                }
            }
        }
        if !rights.contains('w') {
            assert_eq!(fs::read(directory.path().join("emptied"))?, b"x");
            assert!(directory.path().join("victim").exists());
        }
    }
    Ok(())
}

#[test]
fn nothing_is_reachable_outside_the_roots() -> Result<()> {
    let (inside, outside) = (tempfile::tempdir()?, tempfile::tempdir()?);
    tree(inside.path())?;
    tree(outside.path())?;
    let (into, out) = (inside.path().display(), outside.path().display());
    let mut operations = everything(outside.path());
    symlink(outside.path().join("file"), inside.path().join("way-out"))?;
    operations.extend([
        format!("read {into}/way-out"),
        format!("rename {out}/file {into}/laundered"),
        format!("link {out}/file {into}/laundered"),
        format!("rename {into}/file {out}/given"),
        format!(
            "read {into}/sub/../../{}/file",
            outside.path().file_name().context("name")?.display()
        ),
    ]);
    let run = run(&format!("{into}=rwx"), &operations)?;
    for (operation, errno) in run.errnos {
        assert!(errno == EACCES || errno == libc::EXDEV, "{operation}: {errno}");
    }
    Ok(())
}

#[test]
fn a_rule_for_one_file_is_for_that_file() -> Result<()> {
    let directory = tempfile::tempdir()?;
    tree(directory.path())?;
    let root = directory.path().display();
    let operations = [
        format!("read {root}/file"),
        format!("write {root}/file"),
        format!("truncate {root}/file"),
        format!("read {root}/victim"),
        format!("unlink {root}/file"),
        format!("list {root}"),
    ];
    let run = run(&format!("{root}/file=rwx"), &operations)?;
    let errnos: Vec<i32> = operations.iter().map(|operation| run.errnos[operation]).collect();
    assert_eq!(errnos, [0, 0, 0, EACCES, EACCES, EACCES]);
    Ok(())
}

#[test]
fn signals_and_abstract_sockets_end_at_the_edge() -> Result<()> {
    let LandlockProbe { abi, .. } = probe().map_err(|absence| anyhow::anyhow!("{absence}"))?;
    let name = format!("guard-agent-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
    let _listener = UnixListener::bind_addr(&address)?;
    let operations = [format!("kill {}", std::process::id()), format!("abstract {name}")];
    let run = run("/=rwx", &operations)?;
    let expected = if abi >= 6 { libc::EPERM } else { 0 };
    assert_eq!(run.errnos.values().copied().collect::<Vec<_>>(), [expected; 2]);
    assert!(
        run.state.starts_with(&format!("{abi} {}", abi >= 6)),
        "{}",
        run.state
    );
    Ok(())
}

#[test]
fn network_rights_are_taken_only_when_asked() -> Result<()> {
    let LandlockProbe { abi, .. } = probe().map_err(|absence| anyhow::anyhow!("{absence}"))?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let operation = [format!("tcp {}", listener.local_addr()?.port())];
    let without = run("/=rwx", &operation)?;
    assert_eq!(without.errnos[&operation[0]], 0);
    assert!(without.state.ends_with(" 0x0"), "{}", without.state);
    let with = run("/=rwx;net", &operation)?;
    assert_eq!(with.errnos[&operation[0]], if abi >= 4 { EACCES } else { 0 });
    Ok(())
}
