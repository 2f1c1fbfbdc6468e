//! A kernel that takes LSM programs and describes itself badly: there is no tier T1, the reason is named, a launch that
//! insists is refused and one that does not falls to T2.

use std::{ffi::OsString, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{acting::Stage, programs, tier::in_a_guest};

use crate::{PATIENCE, check_by, hooks_row, refused_like, tier};

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// With `types` as what this kernel says of itself.
fn with_types(name: &str, types: &[u8], why: &str) -> Result<()> {
    ensure!(in_a_guest(), "this machine has no tier T1 to be tested");
    let stage = Stage::new("private")?;
    let file = stage.at(name);
    fs::write(&file, types)?;
    let around: [OsString; 4] = [
        programs::around()?.into(),
        "file".into(),
        file.into(),
        TYPES.into(),
    ];
    let (program, words) = around.split_first().context("no words")?;
    let mut check = Command::new(program);
    check
        .args(words)
        .arg(programs::agent()?)
        .args(["check", "--json"]);
    let lines = check_by(&mut check)?;
    for facet in crate::FACETS {
        let row = hooks_row(&lines, facet)?;
        ensure!(
            row["verdict"] == "not-available" && row["why"] == why,
            "{facet}: {row}"
        );
    }
    ensure!(tier(&lines)? == "T2");
    let insists = stage
        .agent()
        .around(around.clone())
        .option("--tier", "T1")
        .run("", PATIENCE)?;
    refused_like(&insists, hooks_row(&lines, "fs")?)?;
    ensure!(
        !stage
            .bench
            .records()?
            .iter()
            .any(|record| record.kind == "launch"),
        "launched"
    );
    // Each sees the file in a mount namespace of its own, and so with a warden of its own.
    let mut stage = Stage::new("private")?;
    let falls = stage.agent().around(around).any_tier();
    stage.start(&falls)?;
    let told = stage.told()?;
    ensure!(told.launch.body["tier"] == "T2", "{:?}", told.launch.body);
    let missing = told.launch.body["enforcement"]["fs"]["missing"].to_string();
    ensure!(missing.contains(why), "{missing} without {why}");
    Ok(())
}

#[test]
fn types_that_are_cut_off() -> Result<()> {
    let types = fs::read(PathBuf::from(TYPES))?;
    let why = "this kernel's type information (`/sys/kernel/btf/vmlinux`) is cut off or damaged";
    with_types("cut", types.get(..types.len() / 2).context("no types")?, why)
}

#[test]
fn types_without_one_required_hook() -> Result<()> {
    let mut types = fs::read(PathBuf::from(TYPES))?;
    let name = b"\0bpf_lsm_key_alloc\0";
    let at = types
        .windows(name.len())
        .position(|window| window == name)
        .context("the kernel has no such hook")?;
    *types.get_mut(at + 1).context("beyond the end")? = b'X';
    let why = "the security hooks cannot be used on this kernel: no security hook `key_alloc`";
    with_types("renamed", &types, why)
}
