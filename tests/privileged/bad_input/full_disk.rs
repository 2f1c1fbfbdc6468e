//! The audit's disk fills while a server runs: what cannot be recorded does not go on.

use std::{ffi::OsString, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use guard_agent::audit::{VerifyOptions, verify};
use guard_tests::{
    agent::AgentBuilder,
    inside::Inside,
    programs,
    records::{self, Record},
    refused::{PATIENCE, Stage, text, with_mounts},
};

/// Leaves less room than a page.
fn fill(place: &Path) -> Result<()> {
    use std::io::Write as _;
    let mut file = fs::File::create(place.join("ballast"))?;
    while file.write_all(&[0; 4096]).is_ok() {}
    Ok(())
}

/// What stands around the agent: a small disk; when the agent has ended, room on it again and a second launch;
/// then a copy of it all, since the disk goes with the mount namespace.
fn around(stage: &Stage, place: &Path) -> Result<Vec<OsString>> {
    let next = format!(
        "{} run --state {} --audit {place} --root {}:rw -- /usr/bin/touch {}",
        text(&programs::agent()?),
        text(&stage.bench.state()),
        text(&stage.path("mark")),
        text(&stage.marker()),
        place = text(place),
    );
    let script = format!(
        "set -e; mount -t tmpfs -o size=256k,mode=700 none {place}; \"$@\" || code=$?; sleep 1; cp -a {place} {full}; \
         rm {place}/ballast; {next}; sleep 1; cp -a {place} {copy}; exit ${{code:-0}}",
        place = text(place),
        full = text(&stage.path("full")),
        copy = text(&stage.path("copy")),
    );
    let mut words = with_mounts("");
    let at = words
        .iter()
        .position(|word| word == "-c")
        .context("a shell's text")?;
    *words.get_mut(at + 1).context("a shell's text")? = script.into();
    Ok(words)
}

fn whole(place: &Path) -> Result<Vec<Record>> {
    let report = verify(place, &VerifyOptions::default())?;
    ensure!(report.ok, "the chain is damaged: {:?}", report.first_bad);
    records::read(place)
}

#[test]
fn the_server_is_killed_and_the_chain_is_whole() -> Result<()> {
    let stage = Stage::new("fills")?;
    let place = stage.directory("place")?;
    let run = AgentBuilder::bare()
        .option("--audit", &place)
        .option("--state", stage.bench.state())
        .option("--name", "first")
        .outer_env("GUARD_AGENT_IDLE_MS", "100")
        .around(around(&stage, &place)?);
    let mut inside = Inside::start(run)?;
    let theirs = Path::new("/proc").join(inside.pid().to_string()).join("root");
    fill(&theirs.join(place.strip_prefix("/")?))?;
    // Each a record of its own, since the address differs.
    let attempts = "[socket.socket().connect_ex(('127.0.0.1', 1000 + port)) for port in range(500)]";
    drop(inside.ask(attempts));
    let finished = inside.live().finish(PATIENCE)?;
    ensure!(!finished.status.success(), "it went on: {}", finished.stderr);
    stage.no_session()?;

    ensure!(
        stage.path("full/ballast").exists(),
        "the copy is not of that disk"
    );
    let of = |records: &[Record], server: &str, kind: &str| {
        let found = records
            .iter()
            .filter(|record| record.kind == kind && record.body["server"] == server);
        found.count()
    };
    let full = whole(&stage.path("full"))?;
    ensure!(of(&full, "first", "launch") == 1, "no launch");
    // With room again the chain goes on, first with what it was not told.
    ensure!(stage.marker().exists(), "the second launch: {}", finished.stderr);
    let after = whole(&stage.path("copy"))?;
    ensure!(after.len() > full.len(), "nothing was added");
    for (server, kind) in [("first", "exit"), ("touch", "launch"), ("touch", "exit")] {
        ensure!(
            of(&after, server, kind) == 1,
            "{} `{kind}` records of `{server}`",
            of(&after, server, kind)
        );
    }
    Ok(())
}
