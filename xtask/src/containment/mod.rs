//! `cargo xtask containment`: `docs/containment.md` from what the attempts gave on every leg that runs them.

mod coverage;
mod data;
mod page;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::{
    cargo, setup,
    test::{
        process,
        suite::{self, Leg, Program},
    },
};
use data::{Family, Verdict};

const PAGE: &str = "docs/containment.md";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Reports of runs made elsewhere, `*.jsonl`, in place of new runs
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Whether page, words and coverage name exactly what exists; nothing is run or written
    #[arg(long, conflicts_with = "from")]
    check: bool,
}

/// A probe as `guard-probe list` declares it.
#[derive(Debug, Deserialize)]
struct Probe {
    name: String,
}

#[derive(Deserialize)]
struct Declared {
    probes: Vec<Probe>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = crate::workspace();
    let probes = probes()?;
    let families = data::families(&root)?;
    data::same("tests/probes.toml", &data::words(&families), &probes)?;
    if args.check {
        return check(&root, &probes);
    }
    let reports = match &args.from {
        Some(dir) => dir.clone(),
        None => every_leg(&root)?,
    };
    let rows = data::rows(&reports)?;
    let text = page::text(&root, &families, &rows)?;
    fs::write(root.join(PAGE), text).with_context(|| format!("write `{PAGE}`"))?;
    println!("[containment] `{PAGE}`: {} judgements", rows.len());
    let failed: Vec<String> = rows
        .iter()
        .filter(|row| row.verdict == Verdict::Failed)
        .map(|row| format!("{} {} {}: {}", row.leg, row.view, row.probe, row.why))
        .collect();
    ensure!(failed.is_empty(), "not as declared:\n{}", failed.join("\n"));
    Ok(())
}

/// What `cargo xtask ci` asks.
pub(crate) fn check_committed() -> Result<()> {
    run(&Args {
        from: None,
        check: true,
    })
}

fn check(root: &Path, probes: &BTreeSet<String>) -> Result<()> {
    let text = fs::read_to_string(root.join(PAGE)).with_context(|| format!("read `{PAGE}`"))?;
    data::same(PAGE, &page::named(&text), probes)
        .context("run `cargo xtask containment` and commit the page")?;
    let cases = coverage::load(root)?;
    coverage::check(&cases, probes, &suite::load(root, true)?)?;
    println!("[containment] {} probes, {} cases", probes.len(), cases.len());
    Ok(())
}

fn probes() -> Result<BTreeSet<String>> {
    let program = cargo::built(
        &["build", "--package", "guard-tests", "--bin", "guard-probe"],
        "guard-probe",
    )?;
    let done = Command::new(&program)
        .args(["list", "--json"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start `{}`", program.display()))?;
    let declared: Declared = serde_json::from_slice(&done.stdout).context("read the list of probes")?;
    Ok(declared.probes.into_iter().map(|probe| probe.name).collect())
}

/// Runs the attempts on each leg of `tests/suite.toml` that has them, all views.
fn every_leg(root: &Path) -> Result<PathBuf> {
    setup::root("cargo xtask containment")?;
    setup::tests()?;
    let fixtures = setup::fixtures()?;
    let place = root.join("target/containment");
    // A report of an earlier run must not stand for one that failed.
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("remove `{}`", place.display()))?;
    }
    let legs: Vec<Leg> = suite::load(root, true)?.into_iter().filter(attempts).collect();
    ensure!(!legs.is_empty(), "no leg runs the attempts");
    for leg in &legs {
        let dir = place.join(leg.name.replace(':', "-"));
        fs::create_dir_all(&dir).with_context(|| format!("create `{}`", dir.display()))?;
        println!("[containment] {}", leg.name);
        one(leg, &dir, &fixtures).with_context(|| format!("leg `{}`", leg.name))?;
    }
    Ok(place)
}

/// Whether a leg is one of the attempts: of this machine or of a virtual one, of whatever tier.
fn attempts(leg: &Leg) -> bool {
    leg.name
        .split_once(':')
        .is_some_and(|(place, test)| place != "unit" && test.starts_with("escape"))
}

fn one(leg: &Leg, dir: &Path, fixtures: &Path) -> Result<()> {
    let report = dir.join("report.jsonl");
    if let Some(features) = leg.agent {
        cargo::agent(features)?;
    }
    let mut command = match &leg.program {
        Program::Cargo(args) => {
            let mut command = cargo::command();
            command.args(args).env("GUARD_TEST_REPORT", &report);
            command
        }
        Program::Xtask(args) => {
            let mut command = Command::new(std::env::current_exe().context("find this program")?);
            let (task, rest) = args.split_first().context("a leg without a task")?;
            command
                .arg(task)
                .arg("--out")
                .arg(dir)
                .args(["--env", "GUARD_TEST_REPORT=/out/report.jsonl"])
                .args(rest)
                .stdin(Stdio::null());
            command
        }
    };
    command.envs(&leg.env).env("GUARD_FIXTURES", fixtures);
    let mut last = Vec::new();
    let status = process::run(command, Duration::from_secs(60 * leg.minutes), |line| {
        last.push(line.to_owned());
    })?;
    // A red judgement is in the report, and in the page; a leg that did not come so far is no leg.
    ensure!(
        report.is_file(),
        "no report, it ended with {status}:\n{}",
        last[last.len().saturating_sub(20)..].join("\n")
    );
    Ok(())
}

/// Words and title of a part of the table.
fn title(family: &Family) -> &str {
    &family.title
}
