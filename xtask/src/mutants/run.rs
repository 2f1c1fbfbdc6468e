//! One named test of one leg in the scratch copy, and what became of it.

use std::{
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    leftover::{self, Watch},
    tree::Scratch,
};
use crate::test::{
    process,
    suite::{Leg, Program},
    totals::Totals,
};

/// Longer than any single test; one that hangs has not turned red.
const LIMIT: Duration = Duration::from_secs(300);

/// Starts a test where a changed agent can harm nothing but itself: with one namespace less in the sandbox, the
/// tree it takes apart, the name it sets and the processes it ends are these and not the machine's. What the test
/// leaves running dies with the first of these processes, a shell, which also fetches orphans as an init would.
const APART: [&str; 12] = [
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "--uts",
    "--ipc",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child=SIGKILL",
    "sh",
    "-c",
];
/// Mounts are shared with those of namespaces made inside, as on a host that systemd started.
const INIT: [&str; 2] = ["mount --make-rshared / && \"$@\"; exit $?", "sh"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// The test failed, and said this in its own words.
    Failed(String),
}

/// Compiles what the leg runs. The error is the compiler's.
pub(super) fn build(scratch: &Scratch, leg: &Leg) -> Result<()> {
    let mut lists: Vec<Vec<String>> = Vec::new();
    if let Some(features) = leg.agent {
        let mut args = words(&["build", "--package", "guard-agent", "--bin", "guard-agent"]);
        if !features.is_empty() {
            args.extend(["--features".to_owned(), features.join(",")]);
        }
        lists.push(args);
    }
    match &leg.program {
        Program::Cargo(args) => {
            let mut args = args.split(|arg| arg == "--").next().unwrap_or_default().to_vec();
            args.push("--no-run".to_owned());
            lists.push(args);
        }
        // The runner of the virtual machines builds what it needs; only whether it can is asked here.
        Program::Xtask(_) => lists.push(words(&["build", "--package", "guard-agent", "--bin", "guard-agent"])),
    }
    for args in lists {
        let done = scratch
            .cargo()
            .args(&args)
            .output()
            .context("start `cargo`")?;
        ensure!(
            done.status.success(),
            "`cargo {}` ended with {}:\n{}",
            args.join(" "),
            done.status,
            last_lines(&String::from_utf8_lossy(&done.stderr), 30)
        );
    }
    Ok(())
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}

/// Runs the test. An error is a test that did not run, or that left something on the machine.
pub(super) fn test(scratch: &Scratch, leg: &Leg, name: &str, fixtures: &std::path::Path) -> Result<Verdict> {
    let filter = ["--exact".to_owned(), name.to_owned()];
    let mut command = Command::new(APART[0]);
    command.args(&APART[1..]).args(INIT);
    match &leg.program {
        Program::Cargo(args) => {
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
        Program::Xtask(args) => {
            command
                .arg(std::env::current_exe().context("find this program")?)
                .args(args)
                .args(filter)
                .env("CARGO_MANIFEST_DIR", scratch.path.join("xtask"))
                .env("CARGO_TARGET_DIR", scratch.path.join("target"));
        }
    }
    command
        .current_dir(&scratch.path)
        .stdin(std::process::Stdio::null())
        .envs(&leg.env)
        .env("GUARD_FIXTURES", fixtures);
    let mut output = Vec::new();
    let watch = Watch::start(&scratch.path.join("target"));
    let status = process::run(command, LIMIT, |line| output.push(line.to_owned()));
    let stayed = watch.clear();
    leftover::remove_kept(&output);
    let verdict = judge(&output, name, status?.success())?;
    ensure!(
        stayed.is_empty(),
        "the test left cgroups that cannot be removed: {stayed:?}"
    );
    Ok(verdict)
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
        assert!(matches!(verdict(&["why", red], false).unwrap(), Verdict::Failed(text) if text.contains("why")));
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
