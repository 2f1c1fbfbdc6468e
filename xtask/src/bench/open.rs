//! Opening and closing a file in a root, by its depth: bare, under Landlock alone, and in a sandbox.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{
    Place,
    report::{Samples, Table},
    server::{Agent, INITIALIZE, Live},
};

/// Directories between the root and the file, plus one.
const DEPTHS: [usize; 6] = [1, 2, 4, 8, 12, 16];
/// Opens in one sample: some milliseconds.
const COUNT: u32 = 2000;

pub(super) const NO_FLAG: &str = "this build has no `--observe`";

/// The observation settings of this build: a name for the table and the agent's flag.
pub(super) fn settings(place: &Place) -> Vec<(&'static str, Option<&'static str>)> {
    if place.observes {
        vec![("not observed", Some("off")), ("observed", Some("on"))]
    } else {
        vec![("as built", None)]
    }
}

pub(super) fn agent(place: &Place, name: &str, observe: Option<&str>, idle: Duration) -> Agent {
    let agent = Agent::new(place, name, idle);
    match observe {
        Some(value) => agent.option("--observe", value),
        None => agent,
    }
}

pub(super) fn measure(place: &Place, rounds: u32, table: &mut Table) -> Result<()> {
    let root = place.directory("root")?;
    let files = DEPTHS
        .iter()
        .map(|depth| file(&root, *depth))
        .collect::<Result<Vec<_>>>()?;
    let mut ways = Vec::new();
    ways.push(("bare".to_owned(), Live::start(Command::new(&place.bench))?));
    let mut landlock = Command::new(&place.bench);
    landlock.arg("landlock").arg(&root);
    ways.push(("Landlock alone".to_owned(), Live::start(landlock)?));
    for (name, observe) in settings(place) {
        let agent = agent(
            place,
            &format!("open-{}", observe.unwrap_or("plain")),
            observe,
            Duration::from_millis(200),
        );
        let command = agent.orders().root(&root, "rw").command([&place.bench]);
        ways.push((format!("sandbox, {name}"), Live::start(command)?));
    }
    for (_, live) in &mut ways {
        live.ask(INITIALIZE)?;
    }
    for (depth, file) in DEPTHS.iter().zip(&files) {
        let request = format!("open {} {COUNT}", file.display());
        let mut samples = vec![Samples::default(); ways.len()];
        for round in 0..=rounds {
            for ((name, live), samples) in ways.iter_mut().zip(&mut samples) {
                let took = live
                    .number(&request)
                    .with_context(|| format!("depth {depth}, {name}"))?;
                if round > 0 {
                    samples.add(took);
                }
            }
        }
        for ((name, _), own) in ways.iter().zip(&samples) {
            let row = table.add(format!("open and close at depth {depth}, {name}"), "ns", own);
            if name != "bare" {
                row.against("bare", own, &samples[0]);
            }
        }
        if !place.observes {
            table.none(
                format!("open and close at depth {depth}, sandbox, observed"),
                "ns",
                NO_FLAG,
            );
        }
    }
    println!("[bench] opens: done");
    ways.into_iter().try_for_each(|(_, live)| live.end())
}

fn file(root: &Path, depth: usize) -> Result<PathBuf> {
    let mut path = root.to_owned();
    for level in 1..depth {
        path.push(format!("level-{level}"));
    }
    fs::create_dir_all(&path).with_context(|| format!("create `{}`", path.display()))?;
    path.push("file");
    fs::write(&path, "x").with_context(|| format!("write `{}`", path.display()))?;
    Ok(path)
}
