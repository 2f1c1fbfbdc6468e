//! `--view host`: everything is there, nothing of it is the server's. The private view refuses the same.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use guard_tests::{
    inside::{Inside, py},
    refused::Stage,
    tiny_elf::{Tiny, program},
};
use serde_json::json;

use super::{VIEWS, executable, give, launch, picture, tree, unchanged};

const REFUSED: &[&str] = &["ENOENT", "EACCES", "EROFS", "EPERM"];

/// A tree of the very user the server runs as, outside its roots.
#[test]
fn outside_the_roots() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("outside")?;
        let (root, outside) = (tree(&stage, "root")?, tree(&stage, "outside")?);
        executable(&outside.join("static"), &program(Tiny::Exit))?;
        executable(&outside.join("dynamic"), &fs::read("/usr/bin/true")?)?;
        give(&outside)?;
        let before = picture(&outside)?;
        let mut inside = Inside::start(launch(&stage, view).root(&root, "rw"))?;
        let (note, new) = (py(outside.join("note")), py(outside.join("new")));
        for attempt in [
            format!("text({note})"),
            format!("os.listdir({})", py(&outside)),
            format!("write({note})"),
            format!("write({new})"),
            format!("os.mkdir({new})"),
            format!("os.unlink({note})"),
            format!("os.rename({note}, {new})"),
            format!("os.rename({note}, {})", py(root.join("stolen"))),
            format!("os.truncate({note}, 0)"),
            format!("os.chmod({note}, 0o777)"),
            format!("os.chown({note}, -1, os.getgid())"),
            format!("os.utime({note}, (1, 1))"),
            format!("os.setxattr({note}, 'user.mark', b'x')"),
            format!("run({})", py(outside.join("static"))),
            "run('/usr/bin/true')".to_owned(),
            "text('/etc/shadow')".to_owned(),
            "text('/etc/machine-id')".to_owned(),
            "os.listdir('/usr/bin')".to_owned(),
            "os.listdir('/var/log')".to_owned(),
            "write('/etc/new')".to_owned(),
            "os.chmod('/usr/bin/python3', 0o777)".to_owned(),
        ] {
            let errnos = if attempt.contains("stolen") {
                &["ENOENT", "EACCES", "EROFS", "EXDEV"]
            } else {
                REFUSED
            };
            inside.fails(&attempt, errnos)?;
        }
        let by_loader = format!(
            "run('/lib64/ld-linux-x86-64.so.2', {})[0] == 0",
            py(outside.join("dynamic"))
        );
        inside.gives(&by_loader, false)?;
        inside.end()?;
        unchanged(&outside, &before)?;
        ensure!(!root.join("stolen").exists(), "moved into the root");
    }
    Ok(())
}

/// Trees that are the server's own in both views.
#[test]
fn private_trees() -> Result<()> {
    // Something to find on the host, if its trees showed through.
    let planted = tempfile::Builder::new()
        .prefix("guard-planted-")
        .tempdir_in("/run")?;
    let shm = tempfile::Builder::new()
        .prefix("guard-planted-")
        .tempdir_in("/dev/shm")?;
    for view in VIEWS {
        let stage = Stage::new("trees")?;
        let mut inside = Inside::start(launch(&stage, view))?;
        for place in [planted.path(), shm.path()] {
            inside.fails(&format!("os.stat({})", py(place)), &["ENOENT"])?;
        }
        inside.gives("os.listdir('/dev/shm')", json!([]))?;
        inside.gives(
            "sorted(os.listdir('/dev'))",
            json!([
                "fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"
            ]),
        )?;
        inside.gives(
            "open('/dev/zero', 'rb').read(2) == bytes(2) and len(open('/dev/urandom', 'rb').read(2)) == 2",
            true,
        )?;
        inside.works("write('/dev/null')")?;
        // Its own processes alone: init and itself.
        inside.gives(
            "sorted(int(name) for name in os.listdir('/proc') if name.isdigit()) == [1, os.getpid()]",
            true,
        )?;
        for hidden in ["/sys/fs/cgroup", "/sys/kernel", "/sys/class", "/proc/kcore_"] {
            // Not only closed: not there.
            inside.fails(&format!("os.stat('{hidden}')"), &["ENOENT"])?;
        }
        inside.works("write('/dev/shm/own')")?;
        inside.fails("text('/sys/fs/cgroup/cgroup.procs')", &["ENOENT", "EACCES"])?;
        inside.gives(
            "attempt(lambda: os.listdir('/sys')) in ([], 'ENOENT', 'EACCES')",
            true,
        )?;
        inside.gives(
            "attempt(lambda: os.listdir('/run')) in ([], 'ENOENT', 'EACCES')",
            true,
        )?;
        inside.gives("'/guard-agent' in text('/proc/self/cgroup')", false)?;
        inside.gives("socket.gethostname()", "sandbox")?;
        inside.fails("write('/proc/sys/kernel/hostname')", REFUSED)?;
        inside.fails("write('/proc/self/mem')", REFUSED)?;
        inside.fails("write('/proc/sysrq-trigger')", REFUSED)?;
        inside.end()?;
    }
    ensure!(planted.path().is_dir() && shm.path().is_dir(), "removed");
    Ok(())
}

/// What the runtime needs is there by its usual name, and only to read.
#[test]
fn the_runtime_itself() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("runtime")?;
        let mut inside = Inside::start(launch(&stage, view))?;
        inside.gives("__import__('ssl') and __import__('sqlite3') and 1", 1)?;
        inside.gives("run(sys.executable, '-c', 'print(6 * 7)')[1]", "42\n")?;
        inside.fails("write(os.__file__)", REFUSED)?;
        inside.fails("write('/usr/bin/python3')", REFUSED)?;
        inside.end()?;
        ensure!(Path::new("/usr/bin/python3").exists(), "gone");
    }
    Ok(())
}
