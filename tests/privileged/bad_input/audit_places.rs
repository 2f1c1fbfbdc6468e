//! Audit directories that cannot hold a trail.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
};

use anyhow::{Result, ensure};
use guard_tests::{
    agent::AgentBuilder,
    refused::{PATIENCE, Stage, Status, text, with_mounts},
};

const WHAT: &str = "cannot use the audit trail";

fn run(stage: &Stage, audit: &Path) -> AgentBuilder {
    AgentBuilder::bare()
        .option("--audit", audit)
        .option("--state", stage.bench.state())
        .root(&stage.path("mark"), "rw")
        .command(stage.touch())
        .outer_env("GUARD_AGENT_IDLE_MS", "100")
}

fn refused(stage: &Stage, audit: &Path, why: &str, fix: &str) -> Result<()> {
    let why = format!("cannot use audit directory `{}`: {why}", text(audit));
    stage.refused(&run(stage, audit), Status::Usage, [WHAT, &why, fix])
}

#[test]
fn somebody_elses() -> Result<()> {
    let stage = Stage::new("audit-theirs")?;
    let place = stage.directory("place")?;
    chown(&place, Some(5), None)?;
    let why = "it belongs to uid 5, not to uid 0 that would write it";
    refused(&stage, &place, why, "name a directory of your own with `--audit`")?;
    ensure!(fs::read_dir(&place)?.next().is_none(), "something was made in it");
    Ok(())
}

#[test]
fn writable_by_others() -> Result<()> {
    let stage = Stage::new("audit-open")?;
    let place = stage.directory("place")?;
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777))?;
    let fix = format!(
        "run `chmod go-w {}`, or name another with `--audit`",
        text(&place)
    );
    refused(&stage, &place, "others may write it (mode 777)", &fix)?;
    ensure!(fs::read_dir(&place)?.next().is_none(), "something was made in it");
    Ok(())
}

#[test]
fn no_directory() -> Result<()> {
    let stage = Stage::new("audit-file")?;
    let (file, link) = (stage.path("file"), stage.path("link"));
    fs::write(&file, "")?;
    symlink(stage.directory("target")?, &link)?;
    let why = "it, or something on the way to it, is no directory";
    refused(&stage, &file, why, "name a directory with `--audit`")?;
    refused(&stage, &file.join("deep"), why, "name a directory with `--audit`")?;
    let why = "it is a symbolic link or no directory";
    refused(&stage, &link, why, "name the directory itself")
}

#[test]
fn read_only() -> Result<()> {
    let stage = Stage::new("audit-ro")?;
    let place = stage.directory("place")?;
    let setup = format!("mount -t tmpfs -o ro,mode=700 none {}", text(&place));
    let run = run(&stage, &place).around(with_mounts(&setup));
    let why = format!(
        "cannot open lock `{}/lock`: Read-only file system (os error 30)",
        text(&place)
    );
    stage.refused(
        &run,
        Status::Usage,
        [WHAT, &why, "name a directory you may write with `--audit`"],
    )
}

/// Every size that is too small for the start of a trail or for the launch record: whichever write fails, the
/// launch does.
#[test]
fn full_before_the_launch() -> Result<()> {
    let stage = Stage::new("audit-full")?;
    let place = stage.directory("place")?;
    let mut refusals = 0;
    for pages in 1..12 {
        let setup = format!(
            "mount -t tmpfs -o size={}k,mode=700 none {}",
            pages * 4,
            text(&place)
        );
        // A launch is all there is to record: what the server does could fill what the launch left.
        let finished = run(&stage, &place)
            .option("--observe", "off")
            .around(with_mounts(&setup))
            .run("", PATIENCE)?;
        if finished.status.success() {
            ensure!(stage.marker().exists(), "nothing ran: {}", finished.stderr);
            break;
        }
        refusals += 1;
        let lines: Vec<&str> = finished.stderr.lines().collect();
        ensure!(
            lines.len() == 3
                && lines[0] == format!("error: {WHAT}")
                && lines[1].starts_with("  why: cannot ")
                && lines[1].ends_with(": No space left on device (os error 28)")
                && lines[2] == "  fix: make room there, or name another directory with `--audit`",
            "with {pages} pages: {}",
            finished.stderr
        );
        ensure!(
            finished.status.code() == Some(Status::Internal as i32),
            "{}",
            finished.status
        );
        ensure!(finished.stdout.is_empty(), "{}", finished.stdout);
        ensure!(!stage.marker().exists(), "the server was started");
        stage.no_sandbox()?;
    }
    ensure!((2..11).contains(&refusals), "{refusals} sizes were too small");
    Ok(())
}
