//! What a `tools/call` over stdio costs: direct, through the agent, and through proxies that others made. All ways run
//! all the time, and each round takes a sample of each.

mod driver;
mod shown;
mod trail;
mod ways;

#[path = "../../../../tests/bench/text.rs"]
mod text;

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{
    Place,
    report::{Samples, Table},
};
use driver::{Call, Sample};
use shown::Line;
use ways::{Server, WAYS, Ways};

/// Whoever takes longer makes fewer calls a round.
const SAMPLE: Duration = Duration::from_millis(100);
const LEAST: usize = 8;
const IN_FLIGHT: usize = 16;
/// Rounds that only fill caches.
const WARM_UP: u32 = 2;

/// What is called.
struct Load {
    name: &'static str,
    call: Call,
    /// Calls in one sample, at most.
    calls: usize,
    /// What the goal is for.
    goal: bool,
}

pub(super) fn measure(place: &Place, rounds: u32, table: &mut Table) -> Result<()> {
    crate::setup::python()?;
    let load = shown::load();
    let mut lines = Vec::new();
    for server in ways::servers(place)? {
        lines.extend(of_server(place, &server, rounds, table)?);
    }
    table.page = Some(shown::text(&lines, &load));
    Ok(())
}

fn of_server(place: &Place, server: &Server, rounds: u32, table: &mut Table) -> Result<Vec<Line>> {
    let mut ways = Ways::start(place, server)?;
    let mut lines = Vec::new();
    for load in loads(server) {
        let mut taken = WAYS.map(|_| Taken::default());
        for round in 0..rounds + WARM_UP {
            // Each is as often behind each other.
            for at in (0..WAYS.len()).map(|at| (at + round as usize) % WAYS.len()) {
                let sample = Sample {
                    calls: load.calls,
                    time: SAMPLE,
                    least: LEAST,
                };
                let driver = &mut ways.drivers[at];
                let what = || format!("{} server, {}, {}", server.name, load.name, WAYS[at]);
                let took = driver.one_by_one(&load.call, sample).with_context(what)?;
                let many = driver
                    .at_once(&load.call, IN_FLIGHT, sample)
                    .with_context(|| format!("{}, 16 in flight", what()))?;
                if round >= WARM_UP {
                    taken[at].add(took, many);
                }
            }
        }
        lines.extend(rows(server, &load, &taken, table));
        println!("[bench] {} server, {}: done", server.name, load.name);
    }
    let calls = ways.drivers[ways::AGENT].calls;
    let agent = ways.end()?;
    trail::check(place, agent.audit(), calls)?;
    println!(
        "[bench] {} server: {calls} calls, each begun and ended on record",
        server.name
    );
    Ok(lines)
}

fn loads(server: &Server) -> Vec<Load> {
    let sizes = [
        ("300 B", 300, 400),
        ("4 KB", 4096, 400),
        ("64 KB", 64 << 10, 60),
        ("1 MB", 1 << 20, 12),
    ];
    if server.name == "everything" {
        // Its tool gives back what it got.
        let of = |(name, bytes, calls)| Load {
            name,
            call: Call::new("echo", &json!({ "message": text::of(bytes) }), bytes),
            calls,
            goal: bytes == 4096,
        };
        return sizes.map(of).into();
    }
    let of = |(name, bytes, calls)| Load {
        name,
        call: Call::new("echo", &json!({ "bytes": bytes }), bytes),
        calls,
        goal: bytes == 4096,
    };
    let mut loads = Vec::from(sizes.map(of));
    let both = json!({ "bytes": 4096, "text": text::of(4096) });
    loads.insert(
        2,
        Load {
            name: "4 KB and arguments of 4 KB",
            call: Call::new("echo", &both, 4096),
            calls: 400,
            goal: true,
        },
    );
    loads
}

/// Of one way and load.
#[derive(Default)]
struct Taken {
    /// The median of each round.
    medians: Samples,
    all: Samples,
    one_by_one: Samples,
    at_once: Samples,
}

impl Taken {
    fn add(&mut self, took: Vec<f64>, many: f64) {
        self.one_by_one
            .add(1e6 * took.len() as f64 / took.iter().sum::<f64>());
        self.at_once.add(many);
        took.iter().for_each(|each| self.all.add(*each));
        self.medians.add(Samples::of(took).quantile(0.5));
    }
}

fn rows(server: &Server, load: &Load, taken: &[Taken], table: &mut Table) -> Vec<Line> {
    let mut lines = Vec::new();
    let direct = &taken[0];
    for (way, own) in WAYS.iter().zip(taken) {
        let name = |what: &str| format!("{} server, {}, {way}: {what}", server.name, load.name);
        let compared = *way != WAYS[0];
        for (what, unit, own, others) in [
            ("p50", "us", &own.medians, &direct.medians),
            ("calls, 1 in flight", "1/s", &own.one_by_one, &direct.one_by_one),
            ("calls, 16 in flight", "1/s", &own.at_once, &direct.at_once),
        ] {
            let row = table.add(name(what), unit, own);
            if compared {
                row.against(WAYS[0], own, others);
            }
        }
        table
            .one(name("p99"), "us", own.all.quantile(0.99))
            .note(&format!("of {} calls", own.all.len()));
        let added = own.medians.less(&direct.medians);
        if compared {
            table.add(name("what it adds to p50"), "us", &added);
        }
        lines.push(Line {
            server: server.name,
            load: load.name,
            way,
            p50: own.medians.clone(),
            added: compared.then_some(added),
            ratio: own.medians.ratio(&direct.medians),
            p99: own.all.quantile(0.99),
            one_by_one: own.one_by_one.quantile(0.5),
            at_once: own.at_once.quantile(0.5),
            goal: load.goal,
        });
    }
    lines
}
