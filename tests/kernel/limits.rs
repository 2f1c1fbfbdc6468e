//! Ceilings of a sandbox, on a machine whose cgroup v2 has the controllers: run in a virtual machine.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench, Finished},
    programs,
    records::Record,
};
use serde_json::Value;

/// Emulation is slow.
const LONG: Duration = Duration::from_secs(90);

fn policy(bench: &Bench, limits: &str, command: &[&str]) -> Result<PathBuf> {
    let probe = programs::probe()?;
    // Where the sandbox's user can reach it.
    let program = bench.path().join("guard-probe");
    if !program.exists() {
        fs::copy(&probe, &program)?;
    }
    let mut words = vec![program.display().to_string()];
    words.extend(command.iter().map(|word| (*word).to_owned()));
    let path = bench.path().join("policy.toml");
    let text = format!(
        "[server.hog]\nprotocol = \"none\"\ncommand = {words:?}\nrequire = [\"fs\", \"net\", \"exec\", \"ipc\", \"resources\"]\nlimits = {limits}\n"
    );
    fs::write(&path, text)?;
    Ok(path)
}

/// Runs the hog to its end.
fn run(bench: &Bench, limits: &str, command: &[&str]) -> Result<(Finished, Record, Record)> {
    let policy = policy(bench, limits, command)?;
    let finished = under_policy(bench, &policy)?;
    let record = |kind: &'static str| {
        bench.wait_record(Duration::from_secs(10), move |record| {
            record.kind == kind && record.field("server").and_then(Value::as_str) == Some("hog")
        })
    };
    let (launch, exit) = (record("launch")?, record("exit")?);
    Ok((finished, launch, exit))
}

fn under_policy(bench: &Bench, policy: &Path) -> Result<Finished> {
    // The hog reads nothing: its input stays open until it ends.
    let mut live = AgentBuilder::new(bench)
        .option("--policy", policy)
        .option("--name", "hog")
        .spawn_policy()?;
    let mut lines = Vec::new();
    while let Ok(line) = live.line(LONG) {
        lines.push(line);
    }
    let mut finished = live.finish(LONG)?;
    finished.stdout = lines.join("\n");
    Ok(finished)
}

fn counter(exit: &Record, group: &str, name: &str) -> Result<u64> {
    exit.field("resources")
        .and_then(|resources| resources.get(group))
        .and_then(|values| values.get(name))
        .and_then(Value::as_u64)
        .with_context(|| format!("the exit record has no `{group}.{name}`: {:?}", exit.body))
}

/// A server of another session, which must not notice.
struct Neighbour(guard_tests::agent::Live);

impl Neighbour {
    fn start(bench: &Bench) -> Result<Self> {
        let program = bench.path().join("guard-probe-neighbour");
        fs::copy(programs::probe()?, &program)?;
        let live = AgentBuilder::new(bench)
            .command([program.into_os_string(), "echo".into()])
            .spawn()?;
        let mut new = Self(live);
        new.answers()?;
        Ok(new)
    }

    /// How long an answer takes.
    fn answers(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.0.send("still there?")?;
        let line = self.0.line(LONG)?;
        ensure!(line == "still there?", "the neighbour says `{line}`");
        Ok(start.elapsed())
    }
}

#[test]
fn a_memory_hog_is_killed_and_its_neighbour_is_not() -> Result<()> {
    let bench = Bench::new("limits-memory")?;
    let mut neighbour = Neighbour::start(&bench)?;
    let (finished, launch, exit) = run(
        &bench,
        r#"{ memory = "64M" }"#,
        &["memory-hog", "mib=256", "secs=1"],
    )?;
    ensure!(finished.status.code() == Some(1), "{finished:?}");
    ensure!(
        !finished.stdout.contains("memory"),
        "the hog reached its goal: {}",
        finished.stdout
    );
    ensure!(
        launch
            .field("resources")
            .and_then(|report| report.get("enforced"))
            == Some(&serde_json::json!(["memory", "cpu", "pids"])),
        "{:?}",
        launch.body
    );
    ensure!(
        exit.field("reason").and_then(Value::as_str) == Some("out-of-memory"),
        "{:?}",
        exit.body
    );
    ensure!(
        counter(&exit, "memory_events", "oom_kill")? >= 1,
        "{:?}",
        exit.body
    );
    ensure!(counter(&exit, "memory_events", "max")? >= 1, "{:?}", exit.body);
    neighbour.answers()?;
    Ok(())
}

#[test]
fn the_same_memory_below_the_limit_is_given() -> Result<()> {
    let bench = Bench::new("limits-memory-control")?;
    let (finished, _, exit) = run(
        &bench,
        r#"{ memory = "128M" }"#,
        &["memory-hog", "mib=32", "secs=1"],
    )?;
    ensure!(finished.stdout.contains(r#""mib":32"#), "{finished:?}");
    ensure!(
        exit.field("reason").and_then(Value::as_str) == Some("exited"),
        "{:?}",
        exit.body
    );
    ensure!(
        counter(&exit, "memory_events", "oom_kill")? == 0,
        "{:?}",
        exit.body
    );
    Ok(())
}

#[test]
fn a_fork_bomb_is_held_at_its_limit() -> Result<()> {
    let bench = Bench::new("limits-pids")?;
    let mut neighbour = Neighbour::start(&bench)?;
    let (finished, _, exit) = run(&bench, "{ pids = 16 }", &["fork-bomb", "count=100", "secs=2"])?;
    let said: Value =
        serde_json::from_str(finished.stdout.trim()).with_context(|| format!("{finished:?}"))?;
    // The bomb itself is one of the sixteen.
    ensure!(said["made"] == 15 && said["refused"] == 85, "{said}");
    ensure!(counter(&exit, "pids_events", "max")? == 85, "{:?}", exit.body);
    neighbour.answers()?;
    Ok(())
}

#[test]
fn a_cpu_spin_gets_its_share_and_no_more() -> Result<()> {
    let bench = Bench::new("limits-cpu")?;
    let mut neighbour = Neighbour::start(&bench)?;
    let start = Instant::now();
    let policy = policy(&bench, r#"{ cpu = "20%" }"#, &["cpu-spin", "threads=2", "secs=5"])?;
    let mut live = AgentBuilder::new(&bench)
        .option("--policy", &policy)
        .option("--name", "hog")
        .spawn_policy()?;
    let mut slowest = Duration::ZERO;
    let line = loop {
        match live.line(Duration::from_millis(500)) {
            Ok(line) => break line,
            Err(_) if start.elapsed() < LONG => slowest = slowest.max(neighbour.answers()?),
            Err(error) => return Err(error),
        }
    };
    ensure!(line.contains("turns"), "{line}");
    live.finish(LONG)?;
    let exit = bench.wait_record(Duration::from_secs(10), |record| {
        record.kind == "exit" && record.field("server").and_then(Value::as_str) == Some("hog")
    })?;
    let used = counter(&exit, "cpu_stat", "usage_usec")?;
    let lived = exit
        .field("duration_us")
        .and_then(Value::as_u64)
        .context("no duration")?;
    // 20 % of the time, one period of 100 ms more at either end.
    ensure!(used <= lived / 5 + 200_000, "used {used} of {lived} µs");
    ensure!(
        used >= lived / 20,
        "used {used} of {lived} µs: the spin hardly ran"
    );
    ensure!(counter(&exit, "cpu_stat", "nr_throttled")? > 5, "{:?}", exit.body);
    ensure!(
        slowest < Duration::from_secs(3),
        "the neighbour waited {slowest:?}"
    );
    Ok(())
}
