//! The audit's disk fills while a server runs: what cannot be recorded does not go on.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use guard_agent::audit::{VerifyOptions, verify};
use guard_tests::{
    agent::AgentBuilder,
    inside::Inside,
    refused::{PATIENCE, Stage, text, with_mounts},
};

/// Leaves less room than a page.
fn fill(place: &Path) -> Result<()> {
    use std::io::Write as _;
    let mut file = fs::File::create(place.join("ballast"))?;
    while file.write_all(&[0; 4096]).is_ok() {}
    Ok(())
}

#[test]
fn the_server_is_killed_and_the_chain_is_whole() -> Result<()> {
    let stage = Stage::new("fills")?;
    let place = stage.directory("place")?;
    // The shell around the agent stays, and its mount namespace with it.
    let setup = format!("mount -t tmpfs -o size=256k,mode=700 none {}", text(&place));
    let script = format!(
        "set -e; {setup}; \"$@\" || code=$?; cp -a {0} {1}; exit ${{code:-0}}",
        text(&place),
        text(&stage.path("copy"))
    );
    let mut around = with_mounts("");
    let at = around
        .iter()
        .position(|word| word == "-c")
        .context("a shell's text")?
        + 1;
    around[at] = script.into();
    let run = AgentBuilder::bare()
        .option("--audit", &place)
        .option("--state", stage.bench.state())
        .outer_env("GUARD_AGENT_IDLE_MS", "100")
        .around(around);
    let mut inside = Inside::start(run)?;
    fill(
        &Path::new("/proc")
            .join(inside.pid().to_string())
            .join("root")
            .join(place.strip_prefix("/")?),
    )?;
    // Each a record of its own, since the address differs.
    let attempt = "[socket.socket().connect_ex(('127.0.0.1', 1000 + port)) for port in range(500)]";
    drop(inside.ask(attempt));
    let finished = inside.live().finish(PATIENCE)?;
    ensure!(!finished.status.success(), "it went on: {}", finished.stderr);
    stage.no_session()?;
    let copy = stage.path("copy");
    ensure!(copy.join("ballast").exists(), "the copy is not of that disk");
    let report = verify(&copy, &VerifyOptions::default())?;
    ensure!(report.ok, "the chain is damaged: {:?}", report.first_bad);
    let records = guard_tests::records::read(&copy)?;
    ensure!(records.iter().any(|record| record.kind == "launch"), "no launch");
    // With room again, the next launch goes on with the chain.
    fs::remove_file(copy.join("ballast"))?;
    let before = records.len();
    let next = AgentBuilder::bare()
        .option("--audit", &copy)
        .option("--state", stage.bench.state())
        .root(&stage.path("mark"), "rw")
        .command(stage.touch())
        .outer_env("GUARD_AGENT_IDLE_MS", "100");
    let next = next.run("", PATIENCE)?;
    ensure!(next.status.success(), "{}", next.stderr);
    std::thread::sleep(Duration::from_millis(200));
    let report = verify(&copy, &VerifyOptions::default())?;
    ensure!(report.ok, "the chain is damaged: {:?}", report.first_bad);
    ensure!(
        guard_tests::records::read(&copy)?.len() > before,
        "nothing was added"
    );
    Ok(())
}
