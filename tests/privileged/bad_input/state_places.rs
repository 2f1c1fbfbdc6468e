//! State directories that others could change, or that are none.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
};

use anyhow::Result;
use guard_tests::{
    agent::AgentBuilder,
    refused::{Stage, Status, text, with_mounts},
};

const ROOT_ONLY: &str = "name a directory that only root may write with `--state`";

fn refused(stage: &Stage, state: &Path, why: &str, fix: &str) -> Result<()> {
    let run = AgentBuilder::bare()
        .option("--audit", stage.bench.audit())
        .option("--state", state)
        .root(&stage.path("mark"), "rw")
        .command(stage.touch());
    let what = format!("cannot use state directory `{}`", text(state));
    stage.refused(&run, Status::Usage, [&what, why, fix])
}

#[test]
fn a_symbolic_link() -> Result<()> {
    let stage = Stage::new("state-link")?;
    let (target, link) = (stage.directory("target")?, stage.path("link"));
    symlink(&target, &link)?;
    refused(&stage, &link, "it is a symbolic link", ROOT_ONLY)
}

#[test]
fn writable_by_others() -> Result<()> {
    let stage = Stage::new("state-open")?;
    let place = stage.directory("place")?;
    for mode in [0o777, 0o1777, 0o770] {
        fs::set_permissions(&place, fs::Permissions::from_mode(mode))?;
        let why = format!("others may write it (mode {mode:04o})");
        refused(&stage, &place, &why, ROOT_ONLY)?;
    }
    Ok(())
}

#[test]
fn somebody_elses() -> Result<()> {
    let stage = Stage::new("state-theirs")?;
    let place = stage.directory("place")?;
    chown(&place, Some(5), None)?;
    refused(&stage, &place, "it belongs to uid 5", ROOT_ONLY)
}

#[test]
fn no_directory() -> Result<()> {
    let stage = Stage::new("state-file")?;
    let file = stage.path("file");
    fs::write(&file, "")?;
    refused(&stage, &file, "it is not a directory", ROOT_ONLY)?;
    let deep = stage.path("gone/state");
    let why = "the directory it would lie in does not exist";
    refused(
        &stage,
        &deep,
        why,
        "create that, or name another directory with `--state`",
    )?;
    let long = stage.path(&"s".repeat(100));
    let why = "with `/warden.sock` its path is longer than the 107 bytes a socket's may have";
    refused(&stage, &long, why, "name one with a shorter path with `--state`")
}

#[test]
fn read_only() -> Result<()> {
    let stage = Stage::new("state-ro")?;
    let place = stage.directory("place")?;
    let setup = format!("mount -t tmpfs -o ro,mode=700 none {}", text(&place));
    let run = AgentBuilder::bare()
        .option("--audit", stage.bench.audit())
        .option("--state", &place)
        .root(&stage.path("mark"), "rw")
        .command(stage.touch())
        .around(with_mounts(&setup));
    let what = format!("cannot use state directory `{}`", text(&place));
    stage.refused(
        &run,
        Status::Usage,
        [&what, "Read-only file system (os error 30)", ROOT_ONLY],
    )
}
