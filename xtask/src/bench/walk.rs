//! Nanoseconds of a verdict on an open: what the program on `file_open` does, at the tracepoint of a system call that does
//! next to nothing (`getppid`), which every machine takes.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{
    Place,
    counted::{self, DEPTHS},
    report::Table,
};

/// Calls in one sample: some milliseconds.
const COUNT: u32 = 20_000;

pub(super) fn measure(place: &Place, rounds: u32, table: &mut Table) -> Result<()> {
    let out = place.path().join("walk");
    let status = Command::new(place.path().join("guard-bench-hooks"))
        .arg("--measured")
        .args([rounds.to_string(), COUNT.to_string()])
        .arg(&out)
        .args(DEPTHS.map(|depth| depth.to_string()))
        .status()
        .context("start `guard-bench-hooks`")?;
    ensure!(status.success(), "`guard-bench-hooks` ended with {status}");
    let text = fs::read_to_string(&out).context("read what was measured")?;
    let measured = counted::read(&text)?;
    for depth in DEPTHS {
        let of = |way: &str| {
            measured
                .get(&(way.to_owned(), depth))
                .with_context(|| format!("no `{way}` at depth {depth} was measured"))
        };
        let (bare, outside, inside) = (of("bare")?, of("outside")?, of("hooks")?);
        let name = |way: &str| format!("the verdict at a tracepoint, depth {depth}: {way}");
        table.add(name("bare `getppid`"), "ns", bare);
        table
            .add(name("`getppid` outside, while it is loaded"), "ns", outside)
            .against("bare", outside, bare);
        table
            .add(name("`getppid` in scope"), "ns", inside)
            .against("bare", inside, bare);
        table.add(
            name("what it adds in scope, the way in left out"),
            "ns",
            &inside.less(outside),
        );
    }
    println!("[bench] verdicts: done");
    Ok(())
}
