//! What is not recorded: what fails for its own reasons, what others do, and all of it when observation is off.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use guard_tests::acting::{Stage, VIEWS, act};

#[test]
fn what_is_missing_inside_is_no_attempt() -> Result<()> {
    for view in VIEWS {
        let mut stage = Stage::started(view)?;
        let missing = stage.at("rw/missing");
        for act in [
            act("open", &missing),
            act("stat", &missing),
            act("unlink", &missing),
            act("exec", stage.at("bin/missing")),
            act("open", "missing"),
            act("open", "sub/missing"),
            act("open", stage.at("rw/sub/../missing")),
            act("open", "/tmp/missing"),
            act("open", "/proc/self/missing"),
        ] {
            ensure!(stage.act(&act)? == "ENOENT", "{view}: {act}");
        }
        ensure!(stage.act(&act("open", stage.at("rw/file/below")))? == "ENOTDIR");
        let told = stage.told()?;
        let about: Vec<_> = told
            .kernel
            .iter()
            .filter(|record| record.to_string().contains("missing") || record.to_string().contains("below"))
            .collect();
        ensure!(about.is_empty(), "{view}: {about:?}");
    }
    Ok(())
}

#[test]
fn programs_outside_are_not_observed() -> Result<()> {
    let mut stage = Stage::started("private")?;
    ensure!(stage.act(&act("open", stage.at("outside/secret")))? == "ENOENT");
    let mine = stage.at("outside/nobody-has-this");
    for _ in 0..100 {
        ensure!(std::fs::File::open(&mine).is_err());
    }
    let told = stage.told()?;
    ensure!(!told.about("open", &stage.text("outside/secret")).is_empty());
    let text = mine.display().to_string();
    ensure!(told.about("open", &text).is_empty(), "{:?}", told.kernel);
    let here = u64::from(std::process::id());
    ensure!(told.kernel.iter().all(|record| record["pid"] != here));
    Ok(())
}

/// The kernel's process numbers are those of the machine.
#[test]
fn a_pid_namespace_of_our_own_is_not_observed_and_that_is_said() -> Result<()> {
    let mut stage = Stage::new("private")?;
    let agent = stage
        .agent()
        .around(["unshare", "--pid", "--fork", "--mount-proc"]);
    stage.start(&agent)?;
    ensure!(stage.act(&act("open", stage.at("outside/secret")))? == "ENOENT");
    ensure!(stage.act(&json!({"act": "ptrace", "number": 1}))? == "EPERM");
    let told = stage.told()?;
    let ops: Vec<_> = told.kernel.iter().map(|record| &record["op"]).collect();
    ensure!(ops == ["ptrace"], "{ops:?}");
    let missing = told
        .launch
        .field("observation_missing")
        .map(Value::to_string)
        .unwrap_or_default();
    ensure!(missing.contains("pid namespace"), "{missing}");
    ensure!(told.stderr.contains("not observed: "), "{}", told.stderr);
    Ok(())
}

#[test]
fn with_observation_off_only_what_reports_itself_is_recorded() -> Result<()> {
    let mut stage = Stage::new("private")?;
    let agent = stage.agent().option("--observe", "off");
    stage.start(&agent)?;
    let secret = stage.at("outside/secret");
    ensure!(stage.act(&act("open", &secret))? == "ENOENT");
    ensure!(stage.act(&act("open", stage.at("rw/file")))? == "ok");
    ensure!(stage.act(&json!({"act": "ptrace", "number": 1}))? == "EPERM");
    ensure!(stage.act(&json!({"act": "connect", "number": 9}))? == "EPERM");
    let told = stage.told()?;
    let mut ops: Vec<&str> = told
        .kernel
        .iter()
        .filter_map(|record| record["op"].as_str())
        .collect();
    ops.sort_unstable();
    ensure!(ops == ["connect", "ptrace"], "{ops:?}");
    ensure!(told.launch.field("observation") == Some(&Value::from("cgroup-bpf+seccomp")));
    ensure!(told.launch.field("observation_missing").is_some());
    ensure!(
        told.stderr.contains("not observed: it is turned off"),
        "{}",
        told.stderr
    );

    // The next one on the same warden is observed again.
    let agent = stage.agent();
    stage.start(&agent)?;
    ensure!(stage.act(&act("open", &secret))? == "ENOENT");
    let told = stage.told()?;
    ensure!(told.about("open", &stage.text("outside/secret")).len() == 1);
    ensure!(told.launch.field("observation") == Some(&Value::from("tracepoints+cgroup-bpf+seccomp")));
    ensure!(told.launch.field("observation_missing").is_none());
    ensure!(!told.stderr.contains("not observed"), "{}", told.stderr);
    Ok(())
}
