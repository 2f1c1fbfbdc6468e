//! A failure injected at every step of a launch: the child never runs, the error names the step, nothing is left.

#[path = "faults/calls.rs"]
mod calls;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use guard_tests::{
    life::{
        left::Role,
        stage::{Done, Stage},
        steps, trail,
    },
    programs,
    tier::Tier,
};
use libtest_mimic::{Arguments, Failed, Trial};

/// What a failure at a step may and may not do.
#[derive(Clone, Copy)]
struct Expected {
    /// Exit status of `run`.
    code: i32,
    /// The first line names the step; else the second does.
    first_line: bool,
    /// Whether the child may have run.
    ran: bool,
}

const BEFORE: Expected = Expected {
    code: 4,
    first_line: true,
    ran: false,
};
const WRITE: Expected = Expected {
    code: 4,
    first_line: false,
    ran: false,
};
const GATEWAY: Expected = Expected {
    code: 4,
    first_line: true,
    ran: true,
};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each has a warden of its own and measures times.
    arguments.test_threads.get_or_insert(1);
    let mut trials = vec![
        Trial::test("every_step_is_here", || told(steps::complete())),
        Trial::test("the_agent_takes_faults", || {
            told(programs::agent().and_then(|agent| steps::require_faults(&agent)))
        }),
    ];
    let tier = match Tier::current() {
        Ok(tier) => tier,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    for (steps, expected) in [
        (steps::warden(tier), BEFORE),
        (
            vec!["reaper.ready"],
            Expected {
                first_line: false,
                ..BEFORE
            },
        ),
        (steps::launch(tier), BEFORE),
        (steps::LAUNCH_WRITES.to_vec(), WRITE),
        (steps::gateway(tier), GATEWAY),
    ] {
        trials.extend(
            steps
                .into_iter()
                .map(|step| Trial::test(format!("fail::{step}"), move || told(refused(step, expected)))),
        );
    }
    trials.extend(
        [steps::END_WRITES, steps::CLOSE_WRITES]
            .concat()
            .into_iter()
            .map(|step| Trial::test(format!("end::{step}"), move || told(unwritten(step)))),
    );
    trials.extend(
        ["init.landlock", "launch.verify"]
            .map(|step| Trial::test(format!("undone::{step}"), move || told(undone(step)))),
    );
    trials.push(Trial::test("end::warden.leave", || told(leaves())));
    trials.extend(calls::trials());
    trials.push(Trial::test("without_a_fault", || told(control())));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn told(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

/// A stage that is kept for inspection when its test fails.
fn on_stage(name: &str, test: impl FnOnce(&Stage) -> Result<()>) -> Result<()> {
    steps::require_faults(&programs::agent()?)?;
    let mut stage = Stage::new(name)?;
    let result = test(&stage);
    if result.is_err() {
        stage.keep();
    }
    result
}

/// The command whose first act is to leave a mark.
fn run(stage: &Stage, fault: Option<&str>) -> Result<Done> {
    let words = [format!("mark={}", stage.work("mark").display()), "say=ran".into()];
    let mut command = stage.puppet_at(fault.unwrap_or_default(), words);
    if let Some(step) = fault {
        command.env("GUARD_AGENT_FAULT", format!("{step}=fail"));
    }
    stage.finish(&mut command, b"")
}

/// The same command without a fault leaves its mark: its absence elsewhere proves something.
fn control() -> Result<()> {
    on_stage("fault", |stage| {
        let done = run(stage, None)?;
        ensure!(
            done.code() == Some(0),
            "ended with {}:\n{}{}",
            done.status,
            done.stderr,
            stage.log()
        );
        ensure!(stage.work("mark").exists(), "the command left no mark");
        stage.nothing_left()?;
        ended_well(stage)
    })
}

fn refused(step: &str, expected: Expected) -> Result<()> {
    on_stage("fault", |stage| {
        let done = run(stage, Some(step))?;
        ensure!(
            done.code() == Some(expected.code),
            "ended with {} instead of {}:\n{}{}",
            done.status,
            expected.code,
            done.stderr,
            stage.log()
        );
        explained(step, &done.stderr, expected.first_line)?;
        if !expected.ran {
            ensure!(!stage.work("mark").exists(), "the child ran");
            ensure!(done.stdout.is_empty(), "the child ran and said {:?}", done.text());
        }
        stage.nothing_left()?;
        ended_well(stage)
    })
}

/// The sandbox is gone when the refusal is told: nobody waits for the warden to leave and clear up.
fn undone(step: &str) -> Result<()> {
    on_stage("undone", |stage| {
        let mut command = stage.puppet(["say=ran"]);
        command
            .env("GUARD_AGENT_FAULT", format!("{step}=fail"))
            .env("GUARD_AGENT_IDLE_MS", "3000");
        let done = stage.finish(&mut command, b"")?;
        ensure!(
            done.code() == Some(4),
            "ended with {} instead of 4:\n{}",
            done.status,
            done.stderr
        );
        let left = stage.left();
        ensure!(
            left.pids(Role::Warden).len() == 1,
            "the warden is gone, too: {:?}",
            left.lines()
        );
        ensure!(
            left.pids(Role::Init).is_empty() && left.sandboxes() == 0,
            "of the sandbox is left: {:?}",
            left.lines()
        );
        stage.wait_until("the warden stays", || stage.left().is_empty().then_some(()))
    })
}

/// Three lines, and the step by its name.
fn explained(step: &str, stderr: &str, first_line: bool) -> Result<()> {
    let name = format!("`{}`", step.split('#').next().unwrap_or(step));
    let mut lines = stderr.lines().skip_while(|line| !line.starts_with("error: "));
    let (what, why, fix) = (lines.next(), lines.next(), lines.next());
    ensure!(
        why.is_some_and(|line| line.starts_with("  why: "))
            && fix.is_some_and(|line| line.starts_with("  fix: "))
            && lines.next().is_none(),
        "not the three lines of an error:\n{stderr}"
    );
    let named = if first_line { what } else { why };
    ensure!(
        named.is_some_and(|line| line.contains(&name)),
        "{name} is not named:\n{stderr}"
    );
    Ok(())
}

/// The next run works, nothing is left of it either, and the trail is whole.
fn ended_well(stage: &Stage) -> Result<()> {
    stage.works()?;
    stage.nothing_left()?;
    stage.verify()?;
    trail::complete(&stage.records()?)
}

/// What cannot be written when a session ends is written by the next warden, behind a gap.
fn unwritten(step: &str) -> Result<()> {
    on_stage("fault", |stage| {
        let done = run(stage, Some(step))?;
        ensure!(
            stage.work("mark").exists(),
            "the child did not run:\n{}{}",
            done.stderr,
            stage.log()
        );
        stage.wait_until("the sandbox stays", || {
            stage.left().is_clean_but_for_files().then_some(())
        })?;
        ended_well(stage)
    })
}

/// A failure while leaving changes nothing that anybody sees.
fn leaves() -> Result<()> {
    on_stage("fault", |stage| {
        let done = run(stage, Some("warden.leave"))?;
        ensure!(
            done.code() == Some(0),
            "ended with {}:\n{}",
            done.status,
            done.stderr
        );
        stage.nothing_left()?;
        ended_well(stage)
    })
}
