//! `r`, `rw`, `rx`, `rwx`; roots that are files; roots in roots; names of every kind.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use guard_tests::{
    inside::{Inside, py},
    refused::Stage,
    tiny_elf::{RAN, Tiny, program},
};

use super::{VIEWS, executable, give, launch, picture, tree, unchanged};

const REFUSED: &[&str] = &["EROFS", "EACCES", "EPERM"];

/// Every way to change a tree.
fn changes(root: &Path) -> Vec<String> {
    let (note, inner, sub) = (
        py(root.join("note")),
        py(root.join("sub/inner")),
        py(root.join("sub")),
    );
    let new = py(root.join("new"));
    vec![
        format!("write({note})"),
        format!("write({note}, mode='a')"),
        format!("os.close(os.open({note}, os.O_RDWR))"),
        format!("os.close(os.open({note}, os.O_RDONLY | os.O_TRUNC))"),
        format!("os.truncate({note}, 0)"),
        format!("write({new})"),
        format!("os.close(os.open({}, os.O_TMPFILE | os.O_WRONLY))", py(root)),
        format!("os.mkdir({new})"),
        format!("os.symlink('note', {new})"),
        format!("os.link({note}, {new})"),
        format!("os.mkfifo({new})"),
        format!("socket.socket(socket.AF_UNIX).bind({new})"),
        format!("os.unlink({note})"),
        format!("os.unlink({inner})"),
        format!("os.rename({note}, {new})"),
        format!("os.rename({sub}, {new})"),
        format!("os.rename({inner}, {note})"),
        format!("os.chmod({note}, 0o600)"),
        format!("os.chmod({}, 0o700)", py(root)),
        format!("os.chown({note}, -1, os.getgid())"),
        format!("os.utime({note}, (1, 1))"),
        format!("os.utime({sub})"),
        format!("os.setxattr({note}, 'user.mark', b'x')"),
    ]
}

#[test]
fn read_only() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("r")?;
        let root = tree(&stage, "root")?;
        let before = picture(&root)?;
        let mut inside = Inside::start(launch(&stage, view).root(&root, "r"))?;
        inside.gives(&format!("text({})", py(root.join("note"))), "a note")?;
        inside.gives(&format!("text({})", py(root.join("sub/inner"))), "an inner note")?;
        inside.gives(
            &format!("sorted(os.listdir({}.decode()))", py(&root)),
            vec!["note", "sub"],
        )?;
        for change in changes(&root) {
            inside.fails(&change, REFUSED)?;
        }
        inside.end()?;
        unchanged(&root, &before)?;
    }
    Ok(())
}

#[test]
fn read_and_write() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("rw")?;
        let root = tree(&stage, "root")?;
        let mut inside = Inside::start(launch(&stage, view).root(&root, "rw"))?;
        let (note, new, sub) = (py(root.join("note")), py(root.join("new")), py(root.join("sub")));
        for work in [
            format!("write({note}, 'changed')"),
            format!("write({new}, 'new')"),
            format!("os.chmod({new}, 0o640)"),
            format!("os.utime({new}, (7, 7))"),
            format!("os.mkdir({sub}.decode() + '/dir')"),
            format!("os.rename({new}, {})", py(root.join("sub/moved"))),
            format!("os.symlink('note', {})", py(root.join("soft"))),
            format!("os.unlink({})", py(root.join("sub/inner"))),
            format!("os.truncate({note}, 3)"),
        ] {
            inside.works(&work)?;
        }
        // Not even the owner makes a program for others.
        for mode in ["0o4755", "0o2755", "0o6755"] {
            inside.fails(&format!("os.chmod({note}, {mode})"), &["EPERM"])?;
        }
        inside.end()?;
        ensure!(fs::read_to_string(root.join("note"))? == "cha", "content");
        ensure!(fs::read_to_string(root.join("sub/moved"))? == "new", "moved");
        ensure!(
            !root.join("sub/inner").exists() && root.join("sub/dir").is_dir(),
            "removed and made"
        );
    }
    Ok(())
}

/// A static program, a dynamic one and a script; placed before the launch and during it.
#[test]
fn executing() -> Result<()> {
    let loader = "/lib64/ld-linux-x86-64.so.2";
    for view in VIEWS {
        for rights in ["r", "rw", "rx", "rwx"] {
            let stage = Stage::new("exec")?;
            let root = stage.directory("root")?;
            executable(&root.join("static"), &program(Tiny::Exit))?;
            executable(&root.join("dynamic"), &fs::read("/usr/bin/true")?)?;
            executable(&root.join("script"), b"#!/usr/bin/python3\n")?;
            give(&root)?;
            let mut inside = Inside::start(launch(&stage, view).root(&root, rights))?;
            let run = |name: &str| format!("run({})[0]", py(root.join(name)));
            let by_loader = format!("run('{loader}', {})[0] == 0", py(root.join("dynamic")));
            if rights.contains('x') {
                inside.gives(&run("static"), RAN)?;
                inside.gives(&run("dynamic"), 0)?;
                inside.gives(&run("script"), 0)?;
                inside.gives(&by_loader, true)?;
            } else {
                for name in ["static", "dynamic", "script"] {
                    inside.fails(&run(name), &["EACCES"])?;
                }
                inside.gives(&by_loader, false)?;
                // Nor as code of the interpreter itself.
                let load = format!("ctypes.CDLL({}.decode())", py(root.join("dynamic")));
                inside.gives(&format!("'map' in str(attempt_any(lambda: {load}))"), true)?;
            }
            if rights.contains('w') {
                let fresh = root.join("fresh");
                inside.works(&format!(
                    "[write({0}, open({1}, 'rb').read(), 'wb'), os.chmod({0}, 0o755)]",
                    py(&fresh),
                    py(root.join("static"))
                ))?;
                if rights.contains('x') {
                    inside.gives(&run("fresh"), RAN)?;
                } else {
                    inside.fails(&run("fresh"), &["EACCES"])?;
                }
            }
            inside.end()?;
        }
    }
    Ok(())
}

#[test]
fn a_file_as_root() -> Result<()> {
    for view in VIEWS {
        for rights in ["r", "rw"] {
            let stage = Stage::new("file")?;
            let place = tree(&stage, "place")?;
            let (note, other) = (place.join("note"), place.join("sub/inner"));
            let mut inside = Inside::start(launch(&stage, view).root(&note, rights))?;
            inside.gives(&format!("text({})", py(&note)), "a note")?;
            if rights == "rw" {
                inside.works(&format!("write({}, 'changed')", py(&note)))?;
            } else {
                inside.fails(&format!("write({})", py(&note)), REFUSED)?;
            }
            inside.fails(
                &format!("os.unlink({})", py(&note)),
                &["EROFS", "EACCES", "EBUSY"],
            )?;
            let moved = py(place.join("moved"));
            inside.fails(
                &format!("os.rename({}, {moved})", py(&note)),
                &["EROFS", "EACCES", "EBUSY", "EXDEV"],
            )?;
            inside.fails(&format!("text({})", py(&other)), &["ENOENT", "EACCES"])?;
            inside.fails(&format!("write({moved})"), REFUSED)?;
            inside.end()?;
            let wanted = if rights == "rw" { "changed" } else { "a note" };
            ensure!(fs::read_to_string(&note)? == wanted, "{rights}");
            ensure!(!place.join("moved").exists(), "made beside a file root");
        }
    }
    Ok(())
}

#[test]
fn roots_in_roots() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("nested")?;
        let root = tree(&stage, "root")?;
        fs::create_dir(root.join("sub/deep"))?;
        executable(&root.join("sub/deep/static"), &program(Tiny::Exit))?;
        executable(&root.join("static"), &program(Tiny::Exit))?;
        give(&root)?;
        for turned in [false, true] {
            let mut roots = [
                (root.clone(), "r"),
                (root.join("sub"), "rw"),
                (root.join("sub/deep"), "rwx"),
            ];
            if turned {
                roots.reverse();
            }
            let run = roots
                .iter()
                .fold(launch(&stage, view), |run, (path, rights)| run.root(path, rights));
            let mut inside = Inside::start(run)?;
            inside.fails(&format!("write({})", py(root.join("note"))), REFUSED)?;
            inside.works(&format!("write({})", py(root.join("sub/inner"))))?;
            inside.works(&format!("write({})", py(root.join("sub/deep/new"))))?;
            inside.fails(&format!("run({})", py(root.join("static"))), &["EACCES"])?;
            inside.gives(&format!("run({})[0]", py(root.join("sub/deep/static"))), RAN)?;
            // What is a root cannot be moved away from beneath its rights.
            let (sub, moved) = (py(root.join("sub/deep")), py(root.join("sub/moved")));
            inside.fails(
                &format!("os.rename({sub}, {moved})"),
                &["EBUSY", "EXDEV", "EACCES"],
            )?;
            inside.end()?;
        }
    }
    Ok(())
}

#[test]
fn names_of_every_kind() -> Result<()> {
    let long = "x".repeat(255);
    let wide = "ä".repeat(127);
    for view in VIEWS {
        for name in [
            "with some spaces",
            "日本語 – ünï",
            "quo'te\"s $HOME `x`",
            "a:r",
            "-rf",
            long.as_str(),
            &wide,
        ] {
            let stage = Stage::new("names")?;
            let root = tree(&stage, name)?;
            let mut inside = Inside::start(launch(&stage, view).root(&root, "rw"))?;
            inside.gives(&format!("text({})", py(root.join("note"))), "a note")?;
            inside.works(&format!("write({}, 'new')", py(root.join(name))))?;
            inside.end()?;
            ensure!(
                fs::read_to_string(root.join(name))? == "new",
                "`{name}` in {view}"
            );
        }
    }
    Ok(())
}
