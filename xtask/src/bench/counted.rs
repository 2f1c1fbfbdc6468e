//! Instructions of one open, in a virtual machine that counts them: what the hooks of tier T1 cost where no BPF LSM
//! can be loaded on the machine itself.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::report::{Samples, Table};
use crate::vm::{self, Case, Status, Vm};

pub(super) const DEPTHS: [u32; 5] = [1, 4, 8, 12, 16];
/// Opens in one sample: some million instructions.
const COUNT: u32 = 500;
const TIMEOUT: Duration = Duration::from_secs(900);
const UNIT: &str = "instructions";

/// What the guest wrote of one way and depth.
#[derive(Debug, Deserialize)]
struct Line {
    way: String,
    depth: u32,
    samples: Vec<f64>,
}

pub(super) type Measured = BTreeMap<(String, u32), Samples>;

pub(super) fn measure(kernels: &[String], rounds: u32, table: &mut Table) -> Result<()> {
    let case = case(rounds)?;
    let mut versions = Vec::new();
    for kernel in kernels {
        let (version, text) = ask(kernel, &case).with_context(|| format!("measure kernel {kernel}"))?;
        rows(kernel, &read(&text)?, table)?;
        versions.push(version);
    }
    table.guest = Some(versions.join(" and "));
    Ok(())
}

fn case(rounds: u32) -> Result<Case> {
    let programs = vm::build(&[
        "build",
        "--release",
        "-p",
        "guard-tests",
        "--bin",
        "guard-bench",
        "--bin",
        "guard-bench-hooks",
    ])?;
    let mut case = Case::new("bench open", &["/case/guard-bench-hooks"]);
    case.argv
        .extend([rounds.to_string(), COUNT.to_string(), "/out/lines".to_owned()]);
    case.argv.extend(DEPTHS.iter().map(ToString::to_string));
    for program in programs {
        let stripped = vm::stripped(&program.path)?;
        case.files
            .file(format!("/case/{}", program.name), &stripped, 0o755);
    }
    case.timeout = Some(TIMEOUT);
    Ok(case)
}

/// The kernel's version, and what the guest wrote.
fn ask(kernel: &str, case: &Case) -> Result<(String, String)> {
    let outcome = vm::run(&Vm {
        kernel,
        append: "",
        case,
        memory_mb: None,
        cpus: 1,
        out: None,
        stream: true,
        counted: true,
    })?;
    let last = outcome.console.len().saturating_sub(30);
    ensure!(
        outcome.status == Status::Exit(0),
        "{}; the console's last lines:\n{}",
        outcome.status,
        outcome.console[last..].join("\n")
    );
    let text = fs::read_to_string(outcome.files.join("lines")).context("read what the guest left")?;
    Ok((outcome.version, text))
}

pub(super) fn read(text: &str) -> Result<Measured> {
    text.lines()
        .map(|line| {
            let line: Line = serde_json::from_str(line).with_context(|| format!("understand `{line}`"))?;
            Ok(((line.way, line.depth), Samples::of(line.samples)))
        })
        .collect()
}

fn rows(kernel: &str, measured: &Measured, table: &mut Table) -> Result<()> {
    let of = |way: &str, depth: u32| {
        measured
            .get(&(way.to_owned(), depth))
            .with_context(|| format!("the guest measured no `{way}` at depth {depth}"))
    };
    for depth in DEPTHS {
        let name = |way: &str| format!("{kernel}, depth {depth}: {way}");
        let (bare, landlock) = (of("bare", depth)?, of("landlock", depth)?);
        let (hooks, outside) = (of("hooks", depth)?, of("outside", depth)?);
        table.add(name("bare"), UNIT, bare);
        table
            .add(name("Landlock alone"), UNIT, landlock)
            .against("bare", landlock, bare);
        table
            .add(name("Landlock and the hooks"), UNIT, hooks)
            .against("Landlock alone", hooks, landlock);
        table
            .add(name("outside, while the hooks are loaded"), UNIT, outside)
            .against("bare", outside, bare);
        let (own, other) = (hooks.less(landlock), landlock.less(bare));
        table
            .add(name("what the hooks add"), UNIT, &own)
            .against("what Landlock adds", &own, &other);
    }
    let [first, .., last] = DEPTHS;
    let step = |way: &str, peer: &str| -> Result<Samples> {
        let added = |depth| Ok::<_, anyhow::Error>(of(way, depth)?.less(of(peer, depth)?));
        Ok(added(last)?.less(&added(first)?).over(f64::from(last - first)))
    };
    let (hooks, landlock) = (step("hooks", "landlock")?, step("landlock", "bare")?);
    table.add(
        format!("{kernel}, each further name: what Landlock adds"),
        UNIT,
        &landlock,
    );
    table
        .add(
            format!("{kernel}, each further name: what the hooks add"),
            UNIT,
            &hooks,
        )
        .against("what Landlock adds", &hooks, &landlock);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_differences_of_neighbours() {
        let mut text = String::new();
        for (way, start, step) in [
            ("bare", 1000, 10),
            ("landlock", 1100, 20),
            ("hooks", 1300, 50),
            ("outside", 1005, 10),
        ] {
            for depth in DEPTHS {
                let value = start + depth * step;
                text += &format!(
                    "{{\"way\":\"{way}\",\"depth\":{depth},\"samples\":[{value},{value},{value}]}}\n"
                );
            }
        }
        let mut table = Table::new("t");
        rows("6.12", &read(&text).unwrap(), &mut table).unwrap();
        let found = |name: &str| {
            let row = table.rows.iter().find(|row| row.name == name).unwrap();
            (row.median.unwrap(), row.ratio)
        };
        // 200 + 30 of 100 + 10.
        assert_eq!(
            found("6.12, depth 1: what the hooks add"),
            (230.0, Some(230.0 / 110.0))
        );
        assert_eq!(
            found("6.12, depth 16: outside, while the hooks are loaded"),
            (1165.0, Some(1165.0 / 1160.0))
        );
        assert_eq!(found("6.12, each further name: what Landlock adds"), (10.0, None));
        assert_eq!(
            found("6.12, each further name: what the hooks add"),
            (30.0, Some(3.0))
        );
        assert!(rows("6.12", &Measured::new(), &mut table).is_err());
    }
}
