//! Tier T1 as an operator meets it: what `check` says, what a launch record says, what a refusal by a hook leaves; and
//! on a machine that has not got it, why.

mod lacking;
mod two_wardens;

use std::{fs, os::unix::fs::MetadataExt as _, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    acting::{Stage, Told, VIEWS, act},
    agent::Finished,
    life::steps,
    programs,
    tier::in_a_guest,
};
use serde_json::Value;

/// All in which hooks decide.
const FACETS: [&str; 4] = ["fs", "net", "exec", "ipc"];

const PATIENCE: Duration = Duration::from_secs(60);

/// The lines of `guard-agent check --json`.
fn check(flags: &[&str]) -> Result<Vec<Value>> {
    check_with(flags, &[])
}

fn check_with(flags: &[&str], environment: &[(&str, &str)]) -> Result<Vec<Value>> {
    check_by(
        Command::new(programs::agent()?)
            .args(["check", "--json"])
            .args(flags)
            .envs(environment.iter().copied()),
    )
}

fn check_by(command: &mut Command) -> Result<Vec<Value>> {
    let output = command.output()?;
    String::from_utf8(output.stdout)?
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}")))
        .collect()
}

/// The row of the hooks in a facet.
fn hooks_row<'a>(lines: &'a [Value], facet: &str) -> Result<&'a Value> {
    lines
        .iter()
        .find(|line| line["type"] == "layer" && line["layer"] == "bpf-lsm" && line["facet"] == facet)
        .with_context(|| format!("no row of bpf-lsm for {facet}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn tier(lines: &[Value]) -> Result<&Value> {
    let run = lines.iter().find(|line| line["type"] == "run");
    Ok(&run.context("no line of `run`")?["tier"])
}

fn layers(told: &Told, facet: &str) -> Vec<String> {
    let layers = told.launch.body["enforcement"][facet]["layers"].as_array();
    let layers = layers.map(Vec::as_slice).unwrap_or_default();
    layers
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn map(stage: &mut Stage) -> Result<String> {
    let program = stage.at("rw/program");
    stage.act(&act("map", program))
}

/// A launch that insists on tier T1 is refused, for the reason that `check` has.
fn refused_like(finished: &Finished, row: &Value) -> Result<()> {
    ensure!(finished.status.code() == Some(3), "{finished:?}");
    let told: Vec<&str> = finished.stderr.lines().collect();
    let why = format!("  why: {}", row["why"].as_str().unwrap_or_default());
    let fix = format!("  fix: {}", row["change"].as_str().unwrap_or_default());
    let what = "error: cannot launch `guard-probe` at tier T1";
    ensure!(told == [what, &why, &fix], "{told:?} is not {row}");
    ensure!(finished.stdout.is_empty(), "{finished:?}");
    Ok(())
}

/// What the reason has to say why this machine has no tier T1; none where it has. `GUARD_TEST_LACKS` says it of a
/// virtual one.
fn lacks() -> Option<String> {
    let said = std::env::var("GUARD_TEST_LACKS").ok();
    said.or_else(|| (!in_a_guest()).then(|| "loading is refused: EPERM".to_owned()))
}

/// The mode that `GUARD_TEST_LOCKDOWN` says is the kernel's.
fn is_locked_down() -> Result<()> {
    let Ok(wanted) = std::env::var("GUARD_TEST_LOCKDOWN") else {
        return Ok(());
    };
    let modes = fs::read_to_string("/sys/kernel/security/lockdown")?;
    ensure!(modes.contains(&format!("[{wanted}]")), "{modes}");
    Ok(())
}

#[test]
fn check_proves_it_or_says_why_not_and_a_launch_agrees() -> Result<()> {
    is_locked_down()?;
    let lines = check(&[])?;
    let mut stage = Stage::new("private")?;
    let insists = stage.agent().option("--tier", "T1");
    let Some(lacks) = lacks() else {
        for facet in FACETS {
            let row = hooks_row(&lines, facet)?;
            ensure!(row["verdict"] == "enforced", "{row}");
        }
        ensure!(tier(&lines)? == "T1");
        let verdicts = lines.iter().find(|line| line["type"] == "verdicts");
        ensure!(
            verdicts.is_some_and(|line| line["verdict"] == "enforced"),
            "{verdicts:?}"
        );
        stage.start(&insists)?;
        let told = stage.told()?;
        ensure!(told.launch.body["tier"] == "T1", "{:?}", told.launch.body);
        return Ok(());
    };
    for facet in FACETS {
        let row = hooks_row(&lines, facet)?;
        ensure!(row["verdict"] == "not-available", "{row}");
        ensure!(text(&row["why"]).contains(&lacks), "{row}, not {lacks:?}");
        // For a person: no log of a verifier.
        ensure!(text(&row["why"]).len() < 400, "{row}");
    }
    refused_like(&insists.run("", PATIENCE)?, hooks_row(&lines, "fs")?)?;
    ensure!(tier(&lines)? == "T2");
    let falls = stage.agent().any_tier();
    stage.start(&falls)?;
    let told = stage.told()?;
    ensure!(told.launch.body["tier"] == "T2", "{:?}", told.launch.body);
    Ok(())
}

#[test]
fn what_a_hook_refuses_is_on_record_as_the_object_it_is() -> Result<()> {
    ensure!(in_a_guest(), "this machine has no tier T1 to be tested");
    let mut before: Option<Stage> = None;
    for view in VIEWS {
        let mut stage = after(before.as_mut(), view)?;
        let program = stage.at("rw/program");
        let object = fs::metadata(&program)?;
        // Mapped as code from a root without `x`. Landlock has no word for it; the mount's refusal comes later.
        ensure!(map(&mut stage)? == "EACCES");
        ensure!(stage.act(&act("open", stage.at("rw/file")))? == "ok");
        let told = stage.told()?;
        ensure!(told.launch.body["tier"] == "T1", "{:?}", told.launch.body);
        for facet in FACETS {
            ensure!(layers(&told, facet).contains(&"bpf-lsm".to_owned()), "{facet}");
        }
        let records: Vec<&Value> = told
            .kernel
            .iter()
            .filter(|record| record["layer"] == "bpf-lsm")
            .collect();
        let [record] = records.as_slice() else {
            anyhow::bail!("{view}: {records:?}");
        };
        for (field, wanted) in [
            ("op", Value::from("mmap")),
            ("decision", "deny".into()),
            ("reason", "right-missing".into()),
            ("path", stage.text("rw/program").into()),
            ("path_source", "kernel".into()),
            ("dev", object.dev().into()),
            ("ino", object.ino().into()),
            ("errno", "EACCES".into()),
        ] {
            ensure!(
                record[field] == wanted,
                "{view}: {field} is {}, not {wanted}",
                record[field]
            );
        }
        ensure!(record["detail"]["hook"] == "mmap_file", "{record}");
        // Told by the hook, not by the end of its call as well.
        ensure!(told.about("mmap", &stage.text("rw/program")).len() == 1, "{view}");
        before = Some(stage);
    }
    Ok(())
}

#[test]
fn a_launch_that_insists_on_tier_two_is_beside_one_that_does_not() -> Result<()> {
    ensure!(in_a_guest(), "this machine has no tier T1 to be tested");
    let mut stage = Stage::started("private")?;
    ensure!(map(&mut stage)? == "EACCES");
    let told = stage.told()?;
    ensure!(told.launch.body["tier"] == "T1", "{:?}", told.launch.body);
    let agent = stage.agent().option("--tier", "T2");
    stage.start(&agent)?;
    // The mount refuses instead.
    ensure!(map(&mut stage)? == "EPERM");
    let told = stage.told()?;
    ensure!(told.launch.body["tier"] == "T2", "{:?}", told.launch.body);
    for facet in FACETS {
        ensure!(!layers(&told, facet).contains(&"bpf-lsm".to_owned()), "{facet}");
    }
    ensure!(told.kernel.iter().all(|record| record["layer"] != "bpf-lsm"));
    let missing = told.launch.body["enforcement"]["fs"]["missing"].to_string();
    ensure!(
        missing.contains("`--tier T2` leaves the security hooks out"),
        "{missing}"
    );
    let lines = check(&["--tier", "T2"])?;
    ensure!(tier(&lines)? == "T2");
    ensure!(hooks_row(&lines, "fs")?["verdict"] == "not-enforced");
    Ok(())
}

/// A stage whose server has the warden of the one before: that takes long to come and to go here.
fn after(before: Option<&mut Stage>, view: &'static str) -> Result<Stage> {
    let mut stage = Stage::new(view)?;
    if let Some(before) = before {
        std::mem::swap(&mut stage.bench, &mut before.bench);
    }
    let agent = stage.agent();
    stage.start(&agent)?;
    Ok(stage)
}

/// The observing programs of a launch, joined as its record has them.
const ALL: &str = "verdicts+tracepoints+cgroup-bpf+seccomp";
const WITHOUT_VERDICTS: &str = "tracepoints+cgroup-bpf+seccomp";

/// In the host view a file of the host's, in the private one a directory that only leads to the roots: Landlock has a
/// rule for neither, and is asked before our hook.
fn outside(stage: &Stage) -> String {
    let name = if stage.view == "host" {
        "outside/secret"
    } else {
        ""
    };
    stage.text(name).trim_end_matches('/').to_owned()
}

#[test]
fn what_landlock_refuses_first_is_on_record_as_the_object_it_is() -> Result<()> {
    ensure!(in_a_guest(), "this machine has no tier T1 to be tested");
    let mut before: Option<Stage> = None;
    for view in VIEWS {
        let mut stage = after(before.as_mut(), view)?;
        let path = outside(&stage);
        ensure!(stage.act(&act("open", &path))? == "EACCES", "{view}");
        // Nobody's of the sandbox's: ours to open, and refused to nobody.
        ensure!(fs::File::open(&path).is_ok());
        // A filesystem may be mounted twice: then the kernel's path is one of several.
        let tail = path.rsplit_once("/tmp/").map_or(path.as_str(), |(_, tail)| tail);
        let mine = |record: &Value| {
            let there = record["path"].as_str().is_some_and(|path| path.ends_with(tail));
            record["op"] == "open" && there
        };
        let seen = stage.wait("the open", mine)?;
        // As the sandbox sees it: the directory is of its own tree.
        let inside = |path: &str| fs::metadata(format!("/proc/{}/root{path}", seen["pid"]));
        let (object, told_of) = (inside(&path)?, inside(seen["path"].as_str().unwrap_or_default())?);
        ensure!(
            (object.dev(), object.ino()) == (told_of.dev(), told_of.ino()),
            "{view}: {path} is not {seen}"
        );
        let told = stage.told()?;
        ensure!(told.launch.body["tier"] == "T1", "{:?}", told.launch.body);
        ensure!(told.launch.body["observation"] == ALL, "{:?}", told.launch.body);
        ensure!(told.launch.field("observation_missing").is_none());
        let records: Vec<&Value> = told.kernel.iter().filter(|record| mine(record)).collect();
        let [record] = records.as_slice() else {
            anyhow::bail!("{view}: {records:?}");
        };
        for (field, wanted) in [
            ("decision", Value::from("deny")),
            ("layer", "landlock".into()),
            ("reason", "not-granted".into()),
            ("path_source", "kernel".into()),
            ("path_complete", Value::Null),
            ("dev", object.dev().into()),
            ("ino", object.ino().into()),
            ("nlink", object.nlink().into()),
            ("rights", "r".into()),
            ("errno", "EACCES".into()),
            ("repeat", Value::Null),
        ] {
            ensure!(
                record[field] == wanted,
                "{view}: {field} is {}, not {wanted}",
                record[field]
            );
        }
        ensure!(record["detail"]["hook"] == "file_open", "{record}");
        let here = u64::from(std::process::id());
        ensure!(told.kernel.iter().all(|record| record["pid"] != here));
        ensure!(told.gaps.is_empty(), "{:?}", told.gaps);
        before = Some(stage);
    }
    Ok(())
}

/// A kernel that takes programs on security hooks and none at the end of its functions: what ours refuse is told by
/// themselves, the rest by the end of the call.
#[test]
fn without_tracing_programs_the_tier_holds_and_its_record_says_what_is_not_told() -> Result<()> {
    ensure!(in_a_guest(), "this machine has no tier T1 to be tested");
    steps::require_faults(&programs::agent()?)?;
    let mut stage = Stage::new("host")?;
    let fault = "told.programs=fail";
    let agent = stage
        .agent()
        .option("--tier", "T1")
        .outer_env("GUARD_AGENT_FAULT", fault);
    stage.start(&agent)?;
    let path = outside(&stage);
    ensure!(stage.act(&act("open", &path))? == "EACCES");
    ensure!(map(&mut stage)? == "EACCES");
    let told = stage.told()?;
    let why = "of no hook: injected failure at `told.programs`";
    ensure!(told.launch.body["tier"] == "T1", "{:?}", told.launch.body);
    ensure!(told.launch.body["observation"] == WITHOUT_VERDICTS);
    ensure!(
        told.launch.body["observation_missing"] == why,
        "{:?}",
        told.launch.body
    );
    let line = format!("verdicts of other security modules: not observed: {why}");
    ensure!(told.stderr.contains(&line), "{}", told.stderr);
    for facet in ["fs", "exec"] {
        ensure!(layers(&told, facet).contains(&"bpf-lsm".to_owned()), "{facet}");
    }
    for (op, path, layer, source) in [
        ("open", path.as_str(), "unknown", "user-memory"),
        ("mmap", &stage.text("rw/program"), "bpf-lsm", "kernel"),
    ] {
        let records = told.about(op, path);
        let [record] = records.as_slice() else {
            anyhow::bail!("{op}: {records:?}");
        };
        ensure!(
            record["layer"] == layer && record["path_source"] == source,
            "{record}"
        );
    }
    Ok(())
}

/// The reverse: there is no tier T1, whatever could be told at it.
#[test]
fn without_programs_on_the_hooks_there_is_no_tier_one_and_that_is_said() -> Result<()> {
    ensure!(in_a_guest(), "this machine has no tier T1 to be tested");
    steps::require_faults(&programs::agent()?)?;
    let fault = ("GUARD_AGENT_FAULT", "hooks.programs=fail");
    let why = "its self-test did not work: cannot load eBPF program `file_open`: injected failure at `hooks.programs`";
    let lines = check_with(&[], &[fault])?;
    ensure!(tier(&lines)? == "T2");
    for facet in ["fs", "exec"] {
        let row = hooks_row(&lines, facet)?;
        ensure!(row["verdict"] == "not-enforced" && row["why"] == why, "{row}");
    }
    // What is told at that tier alone is not asked about.
    ensure!(lines.iter().all(|line| line["type"] != "verdicts"));
    let stage = Stage::new("private")?;
    let agent = stage.agent().option("--tier", "T1");
    let finished = agent.outer_env(fault.0, fault.1).run("", PATIENCE)?;
    ensure!(finished.status.code() == Some(3), "{finished:?}");
    let told: Vec<&str> = finished.stderr.lines().collect();
    let what = "error: cannot launch `guard-probe` at tier T1";
    let fix = "  fix: see `guard-agent check`, or leave `--tier` out";
    ensure!(told == [what, &format!("  why: {why}"), fix], "{told:?}");
    Ok(())
}
