//! `over_budget = "quarantine"`: the sandbox stands still from then on, and nobody else.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_agent::warden::cgroup;
use guard_tests::{
    acting::{PATIENCE, Stage},
    agent::AgentBuilder,
    leftovers::Ours,
};
use serde_json::{Value, json};

use super::{Sum, answer, neighbour, session};

/// The cgroup of a session.
fn frozen(stage: &Stage, session: &str) -> Result<bool> {
    let path = cgroup::parent_path(&stage.bench.state())?
        .join(session)
        .join("cgroup.events");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(text.lines().any(|line| line == "frozen 1"))
}

#[test]
fn a_server_over_its_budget_is_frozen_and_its_neighbour_lives() -> Result<()> {
    let stage = Stage::new("private")?;
    let ours = Ours::before(&stage.bench, &[stage.at("bin").as_path()])?;
    let policy = stage.bench.path().join("policy.toml");
    let text = |name: &str| stage.text(name);
    fs::write(
        &policy,
        format!(
            "[server.bad]\nprotocol = \"none\"\ncommand = [\"{}\", \"acts\"]\nruntime = \"static\"\nuser = \"{}\"\n\
             roots = [{{ path = \"{}\", rights = \"rx\" }}]\nover_budget = \"quarantine\"\n",
            text("bin/guard-probe"),
            stage.user().name,
            text("bin"),
        ),
    )?;
    let mut bad = AgentBuilder::new(&stage.bench)
        .option("--policy", &policy)
        .spawn_policy()?;
    let mut good = stage.agent().option("--name", "neighbour").spawn()?;
    // Each attempt is another one.
    bad.send(&json!({"act": "heartbeat"}).to_string())?;
    while answer(&mut bad, PATIENCE)?["beat"] != 3 {}
    let flood = json!({"act": "flood", "path": stage.at("outside/flood"), "times": 1_000_000, "number": 1});
    bad.send(&flood.to_string())?;
    let gap = stage.wait("the quarantine", |record| record["gap"]["done"] == "quarantined")?;
    ensure!(gap["gap"]["kind"] == "over-budget", "{gap}");
    let id = gap["session"].as_str().context("no session")?;
    let until = Instant::now() + Duration::from_secs(10);
    while !frozen(&stage, id)? {
        if Instant::now() > until {
            bail!("it is not frozen");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // What it had said before comes out; then nothing does.
    while bad.line(Duration::from_millis(500)).is_ok() {}
    ensure!(bad.line(Duration::from_secs(1)).is_err(), "it still beats");

    let done = neighbour(&stage, &mut good)?;
    ensure!((done.calls, done.refused) == (100, 10));
    let finished = good.finish(PATIENCE)?;
    ensure!(
        finished.status.success(),
        "{}: {}",
        finished.status,
        finished.stderr
    );

    let left = Instant::now();
    let finished = bad.finish(Duration::from_secs(20))?;
    ensure!(
        left.elapsed() < Duration::from_secs(5),
        "its end took {:?}",
        left.elapsed()
    );
    ensure!(
        finished.status.code() == Some(1),
        "{}: {}",
        finished.status,
        finished.stderr
    );
    ensure!(
        finished.stderr.contains("[bad] quarantined: "),
        "{}",
        finished.stderr
    );
    ensure!(
        finished.stderr.contains("guard-agent audit tail"),
        "{}",
        finished.stderr
    );
    let told = session(&stage, "bad")?;
    ensure!(told.launch.field("over_budget") == Some(&Value::from("quarantine")));
    let sum = Sum::of(&told);
    // It stopped soon: far from the million it was told to try.
    ensure!(sum.all() < 500_000, "{sum:?}");
    let told = session(&stage, "neighbour")?;
    ensure!(told.gaps.is_empty() && told.launch.field("over_budget") == Some(&Value::from("count")));
    ours.none_within(Duration::from_secs(20))
}
