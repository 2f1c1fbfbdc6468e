//! A host whose controllers are held by cgroup v1: limits are not enforced, and that is said everywhere. On a host that
//! has them the same sessions must say the opposite.

use std::{fs, time::Duration};

use anyhow::{Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    programs,
};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(30);

/// Whether a cgroup made at the top would get the controllers. Asked of the kernel, not of the agent.
fn controllers() -> bool {
    let top = guard_tests::guards::cgroup2().unwrap_or_default();
    let offered = fs::read_to_string(top.join("cgroup.subtree_control")).unwrap_or_default();
    ["memory", "cpu", "pids"]
        .iter()
        .all(|name| offered.split_whitespace().any(|word| word == *name))
}

#[test]
fn what_is_not_enforced_is_said_at_launch_and_in_the_record() -> Result<()> {
    let bench = Bench::new("no-limits")?;
    let program = bench.path().join("guard-probe");
    fs::copy(programs::probe()?, &program)?;
    let finished = AgentBuilder::new(&bench)
        .command([program.into_os_string(), "echo".into()])
        .run("hello\n", LONG)?;
    ensure!(finished.stdout == "hello", "{finished:?}");
    let report = |bench: &Bench| -> Result<Value> {
        let launch = bench.wait_record(LONG, |record| record.kind == "launch")?;
        Ok(launch.field("resources").cloned().unwrap_or_default())
    };
    if controllers() {
        ensure!(
            !finished.stderr.contains("resources: not enforced"),
            "{finished:?}"
        );
        let report = report(&bench)?;
        ensure!(
            report["enforced"] == serde_json::json!(["memory", "cpu", "pids"]),
            "{report}"
        );
        return Ok(());
    }
    ensure!(
        finished
            .stderr
            .contains("resources: not enforced: cgroup v2 does not offer the controllers memory, cpu, pids"),
        "{finished:?}"
    );
    let report = report(&bench)?;
    // The uid is this sandbox's alone: a resource limit holds its processes.
    ensure!(report["enforced"] == serde_json::json!(["pids"]), "{report}");
    let limits: Vec<_> = report["not_enforced"]
        .as_array()
        .map(|rows| rows.iter().filter_map(|row| row["limit"].as_str()).collect())
        .unwrap_or_default();
    ensure!(limits == ["memory", "cpu"], "{report}");
    Ok(())
}

#[test]
fn a_fork_bomb_of_a_uid_without_an_account_is_held_all_the_same() -> Result<()> {
    let bench = Bench::new("no-limits-forks")?;
    let program = bench.path().join("guard-probe");
    fs::copy(programs::probe()?, &program)?;
    let policy = bench.path().join("policy.toml");
    let words = [
        program.display().to_string(),
        "fork-bomb".into(),
        "count=100".into(),
        "secs=1".into(),
    ];
    fs::write(
        &policy,
        format!("[server.hog]\nprotocol = \"none\"\ncommand = {words:?}\nlimits = {{ pids = 16 }}\n"),
    )?;
    let mut live = AgentBuilder::new(&bench)
        .option("--policy", &policy)
        .spawn_policy()?;
    let said: Value = serde_json::from_str(&live.line(LONG)?)?;
    // The bomb itself is one of the sixteen.
    ensure!(said["made"] == 15 && said["refused"] == 85, "{said}");
    live.finish(LONG)?;
    Ok(())
}

#[test]
fn a_policy_that_requires_limits_is_refused() -> Result<()> {
    let bench = Bench::new("no-limits-required")?;
    let program = bench.path().join("guard-probe");
    fs::copy(programs::probe()?, &program)?;
    let policy = bench.path().join("policy.toml");
    let text = format!(
        "[server.hog]\nprotocol = \"none\"\ncommand = [{:?}, \"echo\"]\nrequire = [\"fs\", \"resources\"]\n",
        program.display().to_string()
    );
    fs::write(&policy, text)?;
    let finished = AgentBuilder::new(&bench)
        .option("--policy", &policy)
        .run_policy("hello\n", LONG)?;
    if controllers() {
        ensure!(
            finished.status.success() && finished.stdout == "hello",
            "{finished:?}"
        );
        return Ok(());
    }
    ensure!(finished.status.code() == Some(3), "{finished:?}");
    ensure!(finished.stdout.is_empty(), "{finished:?}");
    let mut lines = finished.stderr.lines();
    ensure!(
        lines.next() == Some("error: cannot launch `hog`: the facet `resources` is required"),
        "{finished:?}"
    );
    ensure!(
        lines
            .next()
            .is_some_and(|line| line.starts_with("  why: cgroup-limits: cgroup v2 does not offer")),
        "{finished:?}"
    );
    ensure!(
        lines.next().is_some_and(|line| line.starts_with("  fix: ")),
        "{finished:?}"
    );
    let launched = bench.records()?.into_iter().any(|record| {
        record.kind == "launch" && record.field("server").and_then(Value::as_str) == Some("hog")
    });
    ensure!(!launched, "a launch is on record");
    Ok(())
}
