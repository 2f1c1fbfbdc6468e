//! A server that does nothing but what is refused: how many attempts, how many of them in the trail, at what cost.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    Place,
    open::{agent, settings},
    report::Table,
    server::{INITIALIZE, Live},
};

const MILLISECONDS: u64 = 3000;
/// What the floods want. What the server's start was refused besides is not counted.
const ADDRESS: &str = "192.0.2.1";
const FILE: &str = "/etc/shadow";

pub(super) fn measure(place: &Place, table: &mut Table) -> Result<()> {
    for (setting, observe) in settings(place) {
        for (what, request) in [
            ("connect", format!("deny-connect {ADDRESS}:9 {MILLISECONDS}")),
            ("send", format!("deny-send {ADDRESS}:9 {MILLISECONDS}")),
            ("open", format!("deny-open {FILE} {MILLISECONDS}")),
        ] {
            let name = format!("flood-{what}-{}", observe.unwrap_or("plain"));
            let agent = agent(place, &name, observe, Duration::from_millis(1));
            let mut live = Live::start(agent.orders().command([&place.bench]))?;
            live.ask(INITIALIZE)?;
            let warden = agent.warden().context("no warden")?;
            let before = processor(warden)?;
            let answer = live.ask(&request)?;
            let used = processor(warden)? - before;
            let (count, nanoseconds) = answer
                .split_once(' ')
                .and_then(|(count, time)| Some((count.parse::<f64>().ok()?, time.parse::<f64>().ok()?)))
                .with_context(|| format!("unreadable: `{answer}`"))?;
            live.end()?;
            agent.gone()?;
            let told = told(agent.audit())?;
            let seconds = nanoseconds / 1e9;
            let name = |part: &str| format!("flood of refused `{what}`, {setting}: {part}");
            table.one(name("attempts"), "1/s", count / seconds);
            table.one(name("recorded, repeats counted"), "1/s", told.recorded / seconds);
            table.one(name("records written"), "records", told.records);
            table.one(name("counted in gaps"), "attempts", told.gaps);
            table.one(
                name("in no record and no gap"),
                "attempts",
                count - told.recorded - told.gaps,
            );
            table.one(
                name("the warden's share of one processor"),
                "%",
                used / seconds * 100.0,
            );
        }
        println!("[bench] flood, {setting}: done");
    }
    Ok(())
}

/// Seconds of processor time a process has used, in ticks of ten milliseconds.
fn processor(pid: i32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read `{path}`"))?;
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    // The state is the first field after the name; utime and stime are eleven and twelve behind it.
    let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
        anyhow::bail!("unreadable `{path}`");
    };
    Ok((user + system) / 100.0)
}

#[derive(Default)]
struct Told {
    records: f64,
    recorded: f64,
    gaps: f64,
}

/// What the trail says of the attempts.
fn told(audit: &Path) -> Result<Told> {
    let mut told = Told::default();
    for entry in fs::read_dir(audit).with_context(|| format!("list `{}`", audit.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|kind| kind != "jsonl") {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines() {
            let record: Value =
                serde_json::from_str(line).with_context(|| format!("read `{}`", path.display()))?;
            let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
            match record["kind"].as_str() {
                Some("kernel") if record["address"] == ADDRESS || record["path"] == FILE => {
                    told.records += 1.0;
                    told.recorded += number(&record["repeat"]).unwrap_or(1.0);
                }
                Some("gap") if record["gap"]["kind"] != "allowed-lost" => {
                    told.gaps += number(&record["gap"]["lost"]).unwrap_or(0.0);
                }
                _ => {}
            }
        }
    }
    Ok(told)
}
