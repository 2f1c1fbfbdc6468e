//! Two wardens at tier T1, each with programs of its own on every hook: neither decides for the other's sandboxes.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use guard_tests::{
    acting::{Stage, act},
    tier::in_a_guest,
};

#[test]
fn two_wardens_hold_their_own_sandboxes_and_no_other() -> Result<()> {
    ensure!(in_a_guest(), "this machine has no tier T1 to be tested");
    let held = || {
        let mut stage = Stage::started("host")?;
        ensure!(crate::map(&mut stage)? == "EACCES");
        let file = stage.at("rw/file");
        ensure!(stage.act(&act("open", file))? == "ok");
        Ok(stage)
    };
    let (mut first, mut second) = (held()?, held()?);
    // One's end takes nothing from the other.
    let told = first.told()?;
    ensure!(crate::map(&mut second)? == "EACCES");
    let file = second.at("rw/sub/file");
    ensure!(second.act(&act("open", file))? == "ok");
    let told = [(told, 1), (second.told()?, 2)];
    for (stage, (told, refused)) in [&first, &second].into_iter().zip(told) {
        ensure!(told.launch.body["tier"] == "T1", "{:?}", told.launch.body);
        let path = stage.text("rw/program");
        let records: u64 = told
            .kernel
            .iter()
            .filter(|record| record["layer"] == "bpf-lsm")
            .map(|record| {
                let here = record["path"] == path.as_str();
                if here {
                    record["repeat"].as_u64().unwrap_or(1)
                } else {
                    100
                }
            })
            .sum();
        ensure!(
            records == refused,
            "{records} refusals on record: {:?}",
            told.kernel
        );
    }
    // Taking the programs off takes seconds in an emulator, and whoever comes next has only some.
    leave(&[&first, &second])
}

/// Waits until no process serves these stages any more.
fn leave(stages: &[&Stage]) -> Result<()> {
    let serves = |stage: &Stage| {
        let state = stage.bench.state().into_os_string().into_encoded_bytes();
        let mut processes =
            fs::read_dir("/proc")?.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
        Ok::<_, std::io::Error>(processes.any(|line| line.windows(state.len()).any(|part| part == state)))
    };
    let until = Instant::now() + crate::PATIENCE;
    for stage in stages {
        while serves(stage)? {
            ensure!(Instant::now() < until, "a warden does not leave");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}
