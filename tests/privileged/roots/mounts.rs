//! Roots and mounts: what is mounted beneath a root before the launch has the root's rights; what happens to the
//! root outside afterwards does not change what the server has.

use std::{fs, os::unix::fs::symlink};

use anyhow::{Result, ensure};
use guard_tests::{
    agent::AgentBuilder,
    inside::{Inside, py},
    refused::{Stage, text, with_mounts},
    tiny_elf::{Tiny, program},
};

use super::{VIEWS, executable, give, launch, tree};

fn around(run: AgentBuilder, setup: &str) -> AgentBuilder {
    run.around(with_mounts(setup))
}

/// A tmpfs of the test's own, and a bind mount of a place outside, both with a program that runs.
#[test]
fn beneath_a_root() -> Result<()> {
    for view in VIEWS {
        for rights in ["r", "rw"] {
            let stage = Stage::new("beneath")?;
            let (root, elsewhere) = (tree(&stage, "root")?, tree(&stage, "elsewhere")?);
            fs::create_dir(root.join("tmpfs"))?;
            fs::create_dir(root.join("bind"))?;
            executable(&stage.path("static"), &program(Tiny::Exit))?;
            let at = text(&root);
            let setup = format!(
                "mount -t tmpfs -o mode=777 none {at}/tmpfs; echo mounted >{at}/tmpfs/note; chmod 666 {at}/tmpfs/note; \
                 mount --bind {} {at}/bind; cp {1} {at}/tmpfs/static; cp {1} {at}/bind/static",
                text(&elsewhere),
                text(&stage.path("static"))
            );
            let mut inside = Inside::start(around(launch(&stage, view).root(&root, rights), &setup))?;
            inside.gives(&format!("text({})", py(root.join("tmpfs/note"))), "mounted\n")?;
            inside.gives(&format!("text({})", py(root.join("bind/note"))), "a note")?;
            for place in ["tmpfs", "bind"] {
                let write = format!("write({})", py(root.join(place).join("note")));
                let make = format!("write({})", py(root.join(place).join("new")));
                if rights == "rw" {
                    inside.works(&write)?;
                    inside.works(&make)?;
                } else {
                    inside.fails(&write, &["EROFS", "EACCES"])?;
                    inside.fails(&make, &["EROFS", "EACCES"])?;
                }
                inside.fails(
                    &format!("run({})", py(root.join(place).join("static"))),
                    &["EACCES"],
                )?;
            }
            inside.end()?;
            ensure!(
                elsewhere.join("new").exists() == (rights == "rw"),
                "{rights} in {view}"
            );
        }
    }
    Ok(())
}

/// A root that is itself a mount point, with set-id programs and devices on it.
#[test]
fn a_mount_as_root() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("mount")?;
        let root = stage.directory("root")?;
        let at = text(&root);
        executable(&stage.path("is-root"), &program(Tiny::IsRoot))?;
        let setup = format!(
            "mount -t tmpfs -o mode=777 none {at}; cp {} {at}/set; chmod 4755 {at}/set; mknod -m 666 {at}/zero c 1 5",
            text(&stage.path("is-root"))
        );
        let mut inside = Inside::start(around(launch(&stage, view).root(&root, "rwx"), &setup))?;
        inside.gives(
            &format!("run({})[0]", py(root.join("set"))),
            guard_tests::tiny_elf::RAN + 1,
        )?;
        inside.fails(&format!("text({})", py(root.join("zero"))), &["EACCES"])?;
        inside.end()?;
    }
    Ok(())
}

/// The path as typed works inside, and the one it leads to.
#[test]
fn a_link_on_the_way() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("ancestor")?;
        let real = tree(&stage, "real/deep/root")?;
        symlink("real/deep", stage.path("short"))?;
        let typed = stage.path("short/root");
        let mut inside = Inside::start(launch(&stage, view).root(&typed, "rw"))?;
        for path in [&typed, &real] {
            inside.gives(&format!("text({})", py(path.join("note"))), "a note")?;
            inside.works(&format!("write({})", py(path.join("new"))))?;
        }
        inside.end()?;
        let records = stage.bench.records()?;
        let launch = records.iter().find(|record| record.kind == "launch");
        let recorded = launch
            .map(|record| record.body["roots"][0].clone())
            .unwrap_or_default();
        ensure!(recorded["path"] == serde_json::json!(typed), "{recorded}");
        ensure!(recorded["resolved"] == serde_json::json!(real), "{recorded}");
    }
    Ok(())
}

/// The link on the way turns to another place while the server runs.
#[test]
fn the_link_turns_later() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("turns")?;
        let real = tree(&stage, "real/root")?;
        let other = tree(&stage, "other/root")?;
        fs::write(other.join("note"), "GUARD-SECRET")?;
        symlink("real", stage.path("short"))?;
        let typed = stage.path("short/root");
        let mut inside = Inside::start(launch(&stage, view).root(&typed, "rw"))?;
        fs::remove_file(stage.path("short"))?;
        symlink("other", stage.path("short"))?;
        let seen = inside.ask(&format!("text({})", py(typed.join("note"))))?;
        ensure!(!format!("{seen:?}").contains("SECRET"), "{seen:?} in {view}");
        inside.gives(&format!("text({})", py(real.join("note"))), "a note")?;
        inside.end()?;
    }
    Ok(())
}

/// An outsider renames or removes the root; the server keeps the object it was given, and gets no other.
#[test]
fn moved_or_removed_outside() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("moved")?;
        let (root, gone) = (tree(&stage, "root")?, tree(&stage, "gone")?);
        let mut inside = Inside::start(launch(&stage, view).root(&root, "rw").root(&gone, "rw"))?;
        fs::rename(&root, stage.path("elsewhere"))?;
        fs::create_dir(&root)?;
        fs::write(root.join("note"), "GUARD-SECRET")?;
        give(&root)?;
        fs::remove_dir_all(&gone)?;
        let seen = inside.ask(&format!("text({})", py(root.join("note"))))?;
        ensure!(!format!("{seen:?}").contains("SECRET"), "{seen:?} in {view}");
        if view == "private" {
            inside.gives(&format!("text({})", py(root.join("note"))), "a note")?;
            inside.works(&format!("write({}, 'x')", py(root.join("new"))))?;
            ensure!(stage.path("elsewhere/new").exists(), "written elsewhere");
        }
        inside.fails(
            &format!("write({})", py(gone.join("new"))),
            &["ENOENT", "EACCES", "EROFS"],
        )?;
        ensure!(!root.join("new").exists(), "the new directory was reached");
        inside.end()?;
        stage.no_session()?;
    }
    Ok(())
}

/// A root in an overlay: copying up gives a file another device and inode, which changes nothing for either side.
#[test]
fn a_root_on_an_overlay() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("overlay")?;
        tree(&stage, "lower/in")?;
        tree(&stage, "lower/out")?;
        let upper = stage.directory("upper")?;
        let work = stage.directory("work")?;
        let whole = stage.directory("whole")?;
        let (at, root, outside) = (text(&whole), whole.join("in"), whole.join("out/note"));
        // The outsider changes both files through the overlay when the server asks for it, and says so.
        let setup = format!(
            "mount -t overlay -o lowerdir={},upperdir={},workdir={} none {at}; \
             (for turn in $(seq 200); do [ -e {at}/in/go ] && break; sleep 0.1; done; \
             echo changed >>{at}/out/note; echo changed >>{at}/in/sub/inner; : >{at}/in/done) \
             </dev/null >/dev/null 2>&1 & :",
            text(&stage.path("lower")),
            text(&upper),
            text(&work)
        );
        let mut inside = Inside::start(around(launch(&stage, view).root(&root, "rw"), &setup))?;
        let closed = &["ENOENT", "EACCES", "EROFS"];
        let (note, inner) = (py(root.join("note")), py(root.join("sub/inner")));
        inside.gives(&format!("text({note})"), "a note")?;
        inside.fails(&format!("text({})", py(&outside)), closed)?;
        // Copied up by the server itself.
        inside.works(&format!("write({note}, 'mine')"))?;
        inside.gives(&format!("text({note})"), "mine")?;
        inside.works(&format!("write({})", py(root.join("go"))))?;
        let done = py(root.join("done"));
        inside.works(&format!(
            "[__import__('time').sleep(0.1) for turn in range(200) if not os.path.exists({done})]"
        ))?;
        inside.gives(&format!("os.path.exists({done})"), true)?;
        inside.gives(&format!("text({inner})"), "an inner notechanged\n")?;
        inside.fails(&format!("text({})", py(&outside)), closed)?;
        inside.fails(&format!("write({})", py(&outside)), closed)?;
        inside.end()?;
        ensure!(
            fs::read_to_string(stage.path("upper/out/note"))? == "a notechanged\n",
            "the outsider's change through the overlay, and no other, in {view}"
        );
        ensure!(
            fs::read_to_string(stage.path("lower/in/note"))? == "a note",
            "in {view}"
        );
    }
    Ok(())
}
