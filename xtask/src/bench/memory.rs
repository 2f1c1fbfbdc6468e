//! What our processes keep in memory while ten sessions idle.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    Place,
    report::Table,
    server::{Agent, INITIALIZE, Live, arguments, processes},
};

const SESSIONS: usize = 10;

pub(super) fn measure(place: &Place, table: &mut Table) -> Result<()> {
    let agent = Agent::new(place, "idle", Duration::from_millis(200));
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut live = Live::start(agent.orders().command([&place.bench]))?;
        live.ask(INITIALIZE)?;
        sessions.push(live);
    }
    std::thread::sleep(Duration::from_millis(500));
    let warden = agent
        .warden()
        .context("the warden of ten sessions is not there")?;
    let children: Vec<i32> = processes()
        .into_iter()
        .filter(|pid| parent(*pid) == Some(warden))
        .collect();
    let role = |name: &str| -> Vec<i32> {
        children
            .iter()
            .copied()
            .filter(|pid| arguments(*pid).first().is_some_and(|word| word == name))
            .collect()
    };
    let gateways: Vec<i32> = sessions
        .iter()
        .filter_map(|live| i32::try_from(live.child.id()).ok())
        .collect();
    let (inits, reapers) = (role("guard-agent-init"), role("guard-agent-reaper"));
    anyhow::ensure!(
        inits.len() == SESSIONS && reapers.len() == 1,
        "{} inits and {} reapers of {SESSIONS} sessions",
        inits.len(),
        reapers.len()
    );
    let mut total = 0.0;
    for (name, pids) in [
        ("warden", vec![warden]),
        ("reaper", reapers),
        ("gateways", gateways),
        ("inits", inits),
    ] {
        let resident = sum(&pids, "Rss:")?;
        let share = sum(&pids, "Pss:")?;
        total += share;
        table
            .one(
                format!("memory of {SESSIONS} idle sessions: {} {name}", pids.len()),
                "MB",
                share,
            )
            .note(&format!(
                "resident {resident:.1} MB, shared pages counted in each"
            ));
    }
    table
        .one(
            format!("memory of {SESSIONS} idle sessions: all our processes"),
            "MB",
            total,
        )
        .note("shared pages counted once");
    for live in sessions {
        live.end()?;
    }
    agent.gone()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
}

/// Megabytes of a field of `smaps_rollup`.
fn sum(pids: &[i32], field: &str) -> Result<f64> {
    let mut kilobytes = 0_u64;
    for pid in pids {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| format!("read `{path}`"))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .with_context(|| format!("no `{field}` in `{path}`"))?;
        kilobytes += line
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok())
            .context("an unreadable size")?;
    }
    Ok(kilobytes as f64 / 1024.0)
}
