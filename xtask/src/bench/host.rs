//! What processes outside of every sandbox pay while one runs.

use std::{process::Command, time::Duration};

use anyhow::Result;

use super::{
    Place,
    open::{NO_FLAG, agent, settings},
    report::{Samples, Table},
    server::{INITIALIZE, Live},
};

const CALLS: [(&str, u32); 2] = [("getppid", 50_000), ("open and close", 2000)];
/// Each of them in one round; the median of these is the sample.
const REPEATS: usize = 5;

pub(super) fn measure(place: &Place, rounds: u32, table: &mut Table) -> Result<()> {
    let file = place.path().join("outside");
    std::fs::write(&file, "x")?;
    let requests: Vec<String> = CALLS
        .iter()
        .map(|(call, count)| match *call {
            "getppid" => format!("getppid {count}"),
            _ => format!("open {} {count}", file.display()),
        })
        .collect();
    let mut neighbour = Live::start(Command::new(&place.bench))?;
    let mut states = vec![("no sandbox".to_owned(), None)];
    for (name, observe) in settings(place) {
        let agent = agent(
            place,
            &format!("host-{}", observe.unwrap_or("plain")),
            observe,
            Duration::from_millis(1),
        );
        states.push((format!("a sandbox, {name}"), Some(agent)));
    }
    let mut samples = vec![vec![Samples::default(); states.len()]; CALLS.len()];
    for round in 0..=rounds {
        for (at, (_, agent)) in states.iter().enumerate() {
            let session = match agent {
                None => None,
                Some(agent) => {
                    let mut live = Live::start(agent.orders().command([&place.bench]))?;
                    live.ask(INITIALIZE)?;
                    Some(live)
                }
            };
            for (request, samples) in requests.iter().zip(&mut samples) {
                let mut took = Vec::new();
                for _ in 0..REPEATS {
                    took.push(neighbour.number(request)?);
                }
                took.sort_by(f64::total_cmp);
                if round > 0 {
                    samples[at].add(took[REPEATS / 2]);
                }
            }
            if let (Some(live), Some(agent)) = (session, agent) {
                live.end()?;
                agent.gone()?;
            }
        }
    }
    for ((call, _), samples) in CALLS.iter().zip(&samples) {
        for ((state, _), own) in states.iter().zip(samples) {
            let row = table.add(format!("outside, {call}, while {state} runs"), "ns", own);
            if state != "no sandbox" {
                row.against("no sandbox", own, &samples[0]);
            }
        }
        if !place.observes {
            table.none(
                format!("outside, {call}, while a sandbox, observed runs"),
                "ns",
                NO_FLAG,
            );
        }
    }
    println!("[bench] outside: done");
    neighbour.end()
}
