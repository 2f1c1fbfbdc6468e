//! `cargo xtask test`: every leg of host and virtual machine, and one verdict.

mod legs;
pub(crate) mod process;
pub(crate) mod suite;
mod telling;
pub(crate) mod totals;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::{cargo, setup};
use legs::Row;
use suite::Leg;
use totals::Totals;

/// How the lines begin below which a leg's failure is told once more; `.ci/run` prints them again at its end.
const FAILED: &str = "=== failed:";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// More rounds, and the legs that are too long for every change
    #[arg(long)]
    full: bool,
    /// Name the legs and end
    #[arg(long)]
    list: bool,
    /// Legs to run, by name or by the beginning of it (`unit`, `host:escape`, `vm-6.1`); all by default
    #[arg(value_name = "LEG")]
    legs: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let all = suite::load(&crate::workspace(), args.full)?;
    suite::complete(&all, &cargo::metadata("Cargo.toml", cargo::PLATFORM)?)?;
    let chosen = choose(&all, args)?;
    if args.list {
        chosen.iter().for_each(|leg| println!("{}", leg.name));
        return Ok(ExitCode::SUCCESS);
    }
    setup::root("cargo xtask test")?;
    println!("[test] installing what is missing");
    setup::tests()?;
    let fixtures = setup::fixtures()?;
    println!("[test] {} legs: {}", chosen.len(), names(&chosen).join(" "));
    let start = Instant::now();
    build(&chosen)?;
    let rows = legs::all(&chosen, &fixtures);
    let ran: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    ensure!(
        ran == names(&chosen),
        "the legs that ran are not the declared ones: {ran:?}"
    );
    Ok(summary(&rows, start.elapsed()))
}

fn names<'a>(legs: &[&'a Leg]) -> Vec<&'a str> {
    legs.iter().map(|leg| leg.name.as_str()).collect()
}

fn choose<'a>(all: &'a [Leg], args: &Args) -> Result<Vec<&'a Leg>> {
    if args.legs.is_empty() {
        return Ok(all.iter().filter(|leg| args.full || !leg.full).collect());
    }
    for wanted in &args.legs {
        ensure!(
            all.iter().any(|leg| leg.name.starts_with(wanted)),
            "no leg is called `{wanted}`; `cargo xtask test --list` names them"
        );
    }
    let named = |leg: &&Leg| args.legs.iter().any(|wanted| leg.name.starts_with(wanted));
    Ok(all.iter().filter(named).collect())
}

/// Everything is compiled before the first leg, so that a leg's time is its own.
fn build(chosen: &[&Leg]) -> Result<()> {
    println!("\n=== build");
    let start = Instant::now();
    let step = |args: &[&str]| -> Result<()> {
        println!("$ cargo {}", args.join(" "));
        let status = cargo::command().args(args).status().context("start `cargo`")?;
        ensure!(status.success(), "`cargo {}` ended with {status}", args.join(" "));
        Ok(())
    };
    if chosen.iter().any(|leg| leg.agent.is_some()) {
        step(&["test", "--package", "guard-tests", "--no-run"])?;
    }
    if chosen.iter().any(|leg| leg.name.starts_with("unit:")) {
        step(&["test", "--no-run"])?;
    }
    println!("=== build: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn summary(rows: &[Row], time: Duration) -> ExitCode {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    println!(
        "\n{:<width$}  {:>7} {:>7} {:>8} {:>9}",
        "leg", "passed", "failed", "ignored", "seconds"
    );
    for row in rows {
        let Totals {
            passed,
            failed,
            ignored,
            ..
        } = row.totals;
        let why = row
            .failure
            .as_deref()
            .map_or_else(String::new, |why| format!("  FAILED: {why}"));
        println!(
            "{:<width$}  {passed:>7} {failed:>7} {ignored:>8} {:>9.1}{why}",
            row.name, row.seconds
        );
    }
    for row in rows.iter().filter(|row| row.failure.is_some()) {
        println!("\n{FAILED} {}", row.name);
        row.telling.lines().for_each(|line| println!("    {line}"));
    }
    let passed: u64 = rows.iter().map(|row| row.totals.passed).sum();
    let failed: u64 = rows.iter().map(|row| row.totals.failed).sum();
    println!(
        "{} legs in {} min {} s",
        rows.len(),
        time.as_secs() / 60,
        time.as_secs() % 60
    );
    println!("{passed} passed, {failed} failed");
    if failed == 0 && rows.iter().all(|row| row.failure.is_none()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
