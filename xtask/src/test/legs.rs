//! Runs legs: one after the other, but virtual machines beside each other, as many as there are processors. Each has one
//! processor, and nothing of the machine outside to disturb another one by.

use std::{
    num::NonZero,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use super::{
    process,
    suite::{Leg, Program},
    telling::Telling,
    totals::Totals,
};
use crate::cargo;

/// A leg that ran.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) totals: Totals,
    pub(super) seconds: f64,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
    pub(super) telling: Telling,
}

/// Runs them all; the rows are in their order.
pub(super) fn all(legs: &[&Leg], fixtures: &Path) -> Vec<Row> {
    let width = thread::available_parallelism().map_or(1, NonZero::get);
    let mut rows = Vec::new();
    while let Some(leg) = legs.get(rows.len()) {
        let number = |ahead: usize| format!("[{}/{}]", rows.len() + ahead + 1, legs.len());
        let beside = legs[rows.len()..]
            .iter()
            .take_while(|leg| may_be_beside(leg))
            .count();
        if beside < 2 || width < 2 {
            let row = one(leg, &number(0), fixtures, &mut Out::Now);
            rows.push(row);
            continue;
        }
        let batch: Vec<(String, &Leg)> = (0..beside)
            .map(|ahead| (number(ahead), legs[rows.len() + ahead]))
            .collect();
        rows.extend(together(&batch, width, fixtures));
    }
    rows
}

/// Whether a leg is a machine of its own that needs one processor and the agent as the legs before it left it.
fn may_be_beside(leg: &Leg) -> bool {
    match &leg.program {
        Program::Cargo(_) => false,
        Program::Xtask(args) => !args.iter().any(|arg| arg == "--faults" || arg == "--cpus"),
    }
}

fn together(batch: &[(String, &Leg)], width: usize, fixtures: &Path) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Row>>> = batch.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..width.min(batch.len()) {
            scope.spawn(|| {
                while let Some(index) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < batch.len())
                {
                    let (number, leg) = &batch[index];
                    let mut out = Out::Later(leg.name.clone(), Vec::new());
                    println!("[test] {} begins", leg.name);
                    let row = one(leg, number, fixtures, &mut out);
                    out.end();
                    *done[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(row);
                }
            });
        }
    });
    done.into_iter()
        .filter_map(|row| row.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

/// Where a leg's output goes: to the console as it comes, or in one piece once the leg is over.
enum Out {
    Now,
    Later(String, Vec<String>),
}

impl Out {
    fn line(&mut self, line: &str) {
        match self {
            Self::Now => println!("{line}"),
            // That something still runs is said while it does.
            Self::Later(name, _) if line.starts_with(process::RUNNING) => println!("{line}: {name}"),
            Self::Later(_, lines) => lines.push(line.to_owned()),
        }
    }

    fn end(self) {
        if let Self::Later(_, lines) = self {
            println!("{}", lines.join("\n"));
        }
    }
}

fn one(leg: &Leg, number: &str, fixtures: &Path, out: &mut Out) -> Row {
    out.line(&format!("\n=== {number} {}", leg.name));
    let start = Instant::now();
    let mut totals = Totals::default();
    let mut telling = Telling::default();
    let result = attempt(leg, fixtures, |line| {
        out.line(line);
        totals.line(line);
        telling.line(line);
    });
    let mut totals = totals.settle();
    let failure = match result {
        Err(error) => Some(format!("{error:#}")),
        Ok(()) if totals.failed > 0 => Some(format!("{} tests failed", totals.failed)),
        Ok(()) if leg.empty != (totals.passed == 0) => Some(format!(
            "{} tests ran, `tests/suite.toml` says `empty = {}`",
            totals.passed, leg.empty
        )),
        Ok(()) if totals.ignored != leg.ignored => Some(format!(
            "{} tests are ignored, `tests/suite.toml` says {}",
            totals.ignored, leg.ignored
        )),
        Ok(()) => None,
    };
    // What failed outside a test counts too.
    if failure.is_some() && totals.failed == 0 {
        totals.failed = 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let verdict = failure
        .as_deref()
        .map_or_else(|| "ok".to_owned(), |why| format!("FAILED ({why})"));
    out.line(&format!(
        "=== {}: {verdict}, {} passed, {} failed, {seconds:.1} s",
        leg.name, totals.passed, totals.failed
    ));
    Row {
        name: leg.name.clone(),
        totals,
        seconds,
        failure,
        telling,
    }
}

fn attempt(leg: &Leg, fixtures: &Path, mut line: impl FnMut(&str)) -> Result<()> {
    if let Some(features) = leg.agent {
        // Other legs may have left an agent with other features in its place.
        cargo::agent(features)?;
    }
    let mut command = match &leg.program {
        Program::Cargo(args) => {
            line(&format!("$ cargo {}", args.join(" ")));
            let mut command = cargo::command();
            command.args(args);
            command
        }
        Program::Xtask(args) => {
            line(&format!("$ cargo xtask {}", args.join(" ")));
            let mut command = Command::new(std::env::current_exe().context("find this program")?);
            command.args(args).stdin(Stdio::null());
            command
        }
    };
    command.envs(&leg.env).env("GUARD_FIXTURES", fixtures);
    let limit = Duration::from_secs(60 * leg.minutes);
    let status = process::run(command, limit, line)?;
    ensure!(status.success(), "ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn leg(name: &str, program: Program) -> Leg {
        Leg {
            name: name.to_owned(),
            program,
            env: BTreeMap::new(),
            minutes: 1,
            ignored: 0,
            empty: true,
            full: false,
            agent: None,
        }
    }

    /// What this program does with it is to list its tests.
    fn guest(name: &str, further: &str) -> Leg {
        leg(
            name,
            Program::Xtask(vec!["--list".to_owned(), further.to_owned()]),
        )
    }

    #[test]
    fn machines_are_beside_each_other_and_rows_in_order() {
        let cargo = leg("cargo", Program::Cargo(vec!["--version".to_owned()]));
        let alone = ["--faults", "--cpus"].map(|further| guest("alone", further));
        assert!(!may_be_beside(&cargo) && !alone.iter().any(may_be_beside));
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let guests = names.map(|name| guest(name, "--quiet"));
        let mut legs: Vec<&Leg> = vec![&cargo];
        legs.extend(&guests);
        legs.push(&cargo);
        assert!(guests.iter().all(may_be_beside));
        let rows = all(&legs, Path::new("/"));
        let ran: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(ran, ["cargo", "a", "b", "c", "d", "e", "f", "g", "cargo"]);
        assert!(
            rows.iter().all(|row| row.failure.is_none()),
            "{:?}",
            rows.iter().map(|row| &row.failure).collect::<Vec<_>>()
        );
    }
}
