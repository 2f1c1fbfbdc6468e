//! `docs/benchmarks.md`: each table stands between two marks, under where and when it was measured.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::report::Table;
use crate::{apt, page};

const PAGE: &str = "docs/benchmarks.md";

pub(super) fn put(root: &Path, table: &Table) -> Result<()> {
    let path = root.join(PAGE);
    let old = fs::read_to_string(&path).with_context(|| format!("read `{PAGE}`"))?;
    let guest = table.guest.as_deref().map_or_else(String::new, |version| {
        format!(" In a virtual machine: {version}.")
    });
    let text = format!("{}{guest}\n\n{}", about(root)?, table.text());
    let new = page::between(&old, table.name, &text).with_context(|| format!("change `{PAGE}`"))?;
    fs::write(&path, new).with_context(|| format!("write `{PAGE}`"))?;
    println!("[bench] `{PAGE}` has the new table");
    Ok(())
}

/// Commit, date and machine, on one line each.
fn about(root: &Path) -> Result<String> {
    let rustc =
        apt::output(Command::new("rustc").arg("--version")).context("ask for the compiler's version")?;
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let processors = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("read the kernel's release")?;
    Ok(format!(
        "Commit {}, {}, kernel {}, {processors} × {model}, {}.",
        page::commit(root)?,
        page::today()?,
        kernel.trim(),
        rustc.trim()
    ))
}
