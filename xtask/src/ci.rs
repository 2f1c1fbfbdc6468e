//! `cargo xtask ci`: everything a change has to keep besides the tests; all of it runs, all failures are told.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use crate::{apt, cargo, containment, ebpf, licences, mutants, tidy, verify};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these; by default all, in this order
    #[arg(long, value_name = "STAGE", value_delimiter = ',')]
    stage: Vec<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// The sources are formatted
    Fmt,
    /// Conventions the compiler does not check
    Tidy,
    /// Licences, sources and reasons of the dependencies
    Licences,
    /// No warnings in any package, with and without its features
    Clippy,
    /// The committed eBPF object is what its sources give
    Ebpf,
    /// Every claimed kernel takes its programs, and with about as much work as before
    Verify,
    /// The page of attempts names the probes that exist, and what is said to cover a case exists
    Containment,
    /// A few lines that protect, taken away, each turn their test red
    MutantsSample,
    /// Nothing has changed a file of the repository
    Clean,
}

/// One stage that ran.
struct Row {
    stage: &'static str,
    time: Duration,
    failure: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let stages = if args.stage.is_empty() {
        Stage::value_variants()
    } else {
        &args.stage
    };
    let before = changes()?;
    let mut rows = Vec::new();
    for stage in stages {
        println!("\n=== {}", stage.name());
        let start = Instant::now();
        let failure = stage.run(&before).err().map(|error| format!("{error:#}"));
        let time = start.elapsed();
        let verdict = failure
            .as_deref()
            .map_or_else(|| "ok".to_owned(), |why| format!("FAILED: {why}"));
        println!("=== {}: {verdict} ({:.1} s)", stage.name(), time.as_secs_f64());
        rows.push(Row {
            stage: stage.name(),
            time,
            failure,
        });
    }
    println!();
    for row in &rows {
        let why = row
            .failure
            .as_deref()
            .map_or_else(|| "ok".to_owned(), |why| format!("FAILED: {why}"));
        println!("{:<15}{:>7.1} s  {why}", row.stage, row.time.as_secs_f64());
    }
    let failed = rows.iter().filter(|row| row.failure.is_some()).count();
    println!("{} stages passed, {failed} failed", rows.len() - failed);
    ensure!(failed == 0, "{failed} stages failed");
    Ok(())
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Licences => "licences",
            Self::Clippy => "clippy",
            Self::Ebpf => "ebpf",
            Self::Verify => "verify",
            Self::Containment => "containment",
            Self::MutantsSample => "mutants-sample",
            Self::Clean => "clean",
        }
    }

    fn run(self, before: &str) -> Result<()> {
        match self {
            Self::Fmt => {
                component("rustfmt")?;
                step(&["fmt", "--all", "--check"])?;
                step(&["fmt", "--check", "--manifest-path", "guard-ebpf/Cargo.toml"])
            }
            Self::Tidy => tidy::run(),
            Self::Licences => licences::run(),
            Self::Clippy => {
                component("clippy")?;
                for features in [&[][..], &["--all-features"]] {
                    let mut args = vec!["clippy", "--workspace", "--all-targets", "--locked"];
                    args.extend_from_slice(features);
                    args.extend(["--", "--deny", "warnings"]);
                    step(&args)?;
                }
                Ok(())
            }
            Self::Ebpf => ebpf::check_committed(),
            Self::Verify => verify::check_committed(),
            Self::Containment => containment::check_committed(),
            Self::MutantsSample => mutants::sample(),
            Self::Clean => clean(before),
        }
    }
}

fn step(args: &[&str]) -> Result<()> {
    println!("$ cargo {}", args.join(" "));
    let status = cargo::command().args(args).status().context("start `cargo`")?;
    ensure!(status.success(), "`cargo {}` ended with {status}", args.join(" "));
    Ok(())
}

/// A part of the toolchain that rustup's minimal profile lacks.
fn component(name: &str) -> Result<()> {
    let tool = if name == "clippy" {
        "cargo-clippy"
    } else {
        "cargo-fmt"
    };
    let works = Command::new(tool)
        .arg("--version")
        .output()
        .is_ok_and(|done| done.status.success());
    if works {
        return Ok(());
    }
    println!("[rustup] adding {name}");
    apt::output(Command::new("rustup").args(["component", "add", name]))
        .with_context(|| format!("install `{name}`: `rustup component add {name}`"))
        .map(drop)
}

fn changes() -> Result<String> {
    apt::output(
        Command::new("git")
            .args(["-c", "safe.directory=*", "status", "--porcelain"])
            .current_dir(crate::workspace()),
    )
    .context("ask git for changes")
}

/// On a CI machine the tree has to be as it was cloned; a developer's may have changes, but no new ones.
fn clean(before: &str) -> Result<()> {
    let now = changes()?;
    let expected = if std::env::var_os("CI").is_some() {
        ""
    } else {
        before
    };
    ensure!(
        now == expected,
        "files of the repository changed:\n{}",
        now.trim_end()
    );
    Ok(())
}
