//! One named test of one leg in the scratch copy, and what became of it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{
    leftover::{self, Watch},
    tree::Scratch,
};
use crate::{
    test::{
        process,
        suite::{Leg, Program},
        totals::Totals,
    },
    vm,
};

/// Longer than any single test; one that hangs has not turned red.
const LIMIT: Duration = Duration::from_secs(300);

/// Starts a test where a changed agent can harm nothing but itself: with one namespace less in the sandbox, the
/// tree it takes apart and the name it sets are these and not the machine's.
const APART: [&str; 5] = ["unshare", "--mount", "--propagation=private", "--uts", "--ipc"];
/// And the processes it ends. What the test leaves running dies with the first of these, a shell, which also fetches
/// orphans as an init would.
const OWN_PIDS: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"];
/// Mounts are shared with those of namespaces made inside, as on a host that systemd started.
const INIT: [&str; 4] = ["sh", "-c", "mount --make-rshared / && \"$@\"; exit $?", "sh"];
/// Legs that observe tasks, which no program can in a pid namespace that is not the machine's. What takes the
/// sandbox's pid namespace away is for other legs.
const HOST_PIDS: [&str; 5] = [
    "host:check",
    "host:flood",
    "host:kernel_observe",
    "host:observe",
    "host:start_failures",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// The test failed, and said this in its own words.
    Failed(String),
}

/// Legs whose tests see the agent from outside only: built once, unchanged, they judge every changed agent. The others
/// are linked with what is changed.
const OUTSIDE: [&str; 7] = [
    "host:escape",
    "host:faults",
    "host:kill",
    "host:life",
    "host:positive",
    "host:protocol",
    "host:roots",
];

pub(super) fn from_outside(leg: &Leg) -> bool {
    OUTSIDE.contains(&leg.name.as_str())
}

/// Compiles the agent as the leg wants it. The error is the compiler's.
pub(super) fn build_agent(scratch: &Scratch, leg: &Leg) -> Result<()> {
    if let Some((test, features)) = leg.guest_test() {
        // As the runner of the virtual machines will: that takes time a test has not.
        return cargo(scratch, &words(&vm::test_build(test, features))).map(drop);
    }
    let Some(features) = leg.agent else {
        return Ok(());
    };
    let mut args = words(&["build", "--package", "guard-agent", "--bin", "guard-agent"]);
    if !features.is_empty() {
        args.extend(["--features".to_owned(), features.join(",")]);
    }
    cargo(scratch, &args).map(drop)
}

/// Compiles everything the leg runs, and returns its test program.
pub(super) fn build(scratch: &Scratch, leg: &Leg) -> Result<Option<PathBuf>> {
    build_agent(scratch, leg)?;
    let Program::Cargo(args) = &leg.program else {
        return Ok(None);
    };
    let mut args = args.split(|arg| arg == "--").next().unwrap_or_default().to_vec();
    args.extend(words(&["--no-run", "--message-format=json-render-diagnostics"]));
    let messages = cargo(scratch, &args)?;
    // Programs of the package have executables too; the test is what was asked for.
    Ok(messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["kind"][0] == "test")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from)))
}

fn cargo(scratch: &Scratch, args: &[String]) -> Result<String> {
    let done = scratch.cargo().args(args).output().context("start `cargo`")?;
    ensure!(
        done.status.success(),
        "`cargo {}` ended with {}:\n{}",
        args.join(" "),
        done.status,
        last_lines(&String::from_utf8_lossy(&done.stderr), 30)
    );
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}

/// Runs one test, by `program` where it is built already. An error is a test that did not run, or that left something on the machine.
pub(super) fn test(
    scratch: &Scratch,
    leg: &Leg,
    name: &str,
    program: Option<&Path>,
    fixtures: &Path,
) -> Result<Verdict> {
    let mut command = command(scratch, leg, &["--exact", name], program, fixtures)?;
    // What `escape` would do in the other view says nothing of this test.
    if let Some((view @ ("private" | "host"), _)) = name.split_once("::") {
        command.env("GUARD_TEST_VIEWS", view);
    }
    let (output, success) = watched(scratch, command)?;
    judge(&output, name, success)
}

/// Runs the leg and returns which of the tests did not pass.
pub(super) fn whole(
    scratch: &Scratch,
    leg: &Leg,
    tests: &BTreeSet<&str>,
    fixtures: &Path,
) -> Result<Vec<String>> {
    let (output, _) = watched(scratch, command(scratch, leg, &[], None, fixtures)?)?;
    let passed: BTreeSet<&str> = output
        .iter()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ok"))
        .filter_map(|line| line.split_whitespace().rev().nth(1))
        .collect();
    ensure!(
        !passed.is_empty(),
        "no test passed:\n{}",
        last_lines(&output.join("\n"), 30)
    );
    Ok(tests
        .iter()
        .filter(|test| !passed.contains(*test))
        .map(|test| (*test).to_owned())
        .collect())
}

fn command(
    scratch: &Scratch,
    leg: &Leg,
    filter: &[&str],
    program: Option<&Path>,
    fixtures: &Path,
) -> Result<Command> {
    let mut command = Command::new(APART[0]);
    command.args(&APART[1..]).current_dir(&scratch.path);
    if !HOST_PIDS.contains(&leg.name.as_str()) {
        command.args(OWN_PIDS);
    }
    command.args(INIT);
    match (&leg.program, program) {
        (_, Some(program)) => {
            command
                .arg(program)
                .args(filter)
                .current_dir(scratch.path.join("tests"));
        }
        (Program::Cargo(args), None) => {
            let cargo = scratch.cargo();
            command.arg(cargo.get_program()).args(args);
            if !args.iter().any(|arg| arg == "--") {
                command.arg("--");
            }
            command.args(filter);
            for (variable, value) in cargo.get_envs() {
                match value {
                    Some(value) => command.env(variable, value),
                    None => command.env_remove(variable),
                };
            }
        }
        (Program::Xtask(args), None) => {
            command
                .arg(std::env::current_exe().context("find this program")?)
                .args(args)
                .args(filter)
                .env("CARGO_MANIFEST_DIR", scratch.path.join("xtask"))
                .env("CARGO_TARGET_DIR", scratch.path.join("target"));
        }
    }
    command
        .stdin(std::process::Stdio::null())
        .envs(&leg.env)
        .env("RUST_BACKTRACE", "0")
        .env("GUARD_FIXTURES", fixtures);
    Ok(command)
}

/// Its lines and whether it succeeded; what it left is removed.
fn watched(scratch: &Scratch, command: Command) -> Result<(Vec<String>, bool)> {
    let mut output = Vec::new();
    let watch = Watch::start(&scratch.path.join("target"));
    let status = process::run(command, LIMIT, |line| output.push(line.to_owned()));
    let stayed = watch.clear();
    leftover::remove_kept(&output);
    let success = status?.success();
    ensure!(
        stayed.is_empty(),
        "the test left cgroups that cannot be removed: {stayed:?}"
    );
    Ok((output, success))
}

fn judge(output: &[String], name: &str, success: bool) -> Result<Verdict> {
    let mut totals = Totals::default();
    output.iter().for_each(|line| totals.line(line));
    let totals = totals.settle();
    let text = output.join("\n");
    // A test that is not there passes nothing, and one that could not start fails nothing.
    match (totals.passed, totals.failed, success) {
        (1, 0, true) => Ok(Verdict::Passed),
        (0, 1, false) => Ok(Verdict::Failed(text)),
        (0, 0, true) => bail!("there is no test `{name}`"),
        (passed, failed, _) => bail!(
            "the test did not run ({passed} passed, {failed} failed):\n{}",
            last_lines(&text, 30)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &[&str], success: bool) -> Result<Verdict> {
        let lines: Vec<String> = words(lines);
        judge(&lines, "one", success)
    }

    #[test]
    fn red_green_and_neither() {
        let red = "test result: FAILED. 0 passed; 1 failed; 0 ignored";
        let green = "test result: ok. 1 passed; 0 failed; 0 ignored";
        assert_eq!(verdict(&[green], true).unwrap(), Verdict::Passed);
        assert!(
            matches!(verdict(&["why", red], false).unwrap(), Verdict::Failed(text) if text.contains("why"))
        );
        for (lines, success, says) in [
            (vec!["test result: ok. 0 passed; 0 failed"], true, "no test `one`"),
            (vec!["Error: the place cannot be made"], false, "did not run"),
            (vec!["test result: ok. 2 passed; 0 failed"], true, "did not run"),
            (vec![green], false, "did not run"),
        ] {
            let error = verdict(&lines, success).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
