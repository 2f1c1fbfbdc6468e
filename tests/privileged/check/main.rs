//! `guard-agent check` on this machine and on machines that lack something: each verdict, each reason and what to
//! change; `run` on the same machine does what `check` says; nothing is left.
//!
//! `GUARD_TEST_WITHOUT_FAULTS` leaves out what needs an agent that fails on request.
//! `GUARD_TEST_MACHINE` names the machine a leg is about (`machine.rs`); without it nothing is assumed of it.

mod checked;
mod failing;
mod lacking;
mod left;
mod machine;
mod same;

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // What is left behind is looked for on the whole machine.
    arguments.test_threads.get_or_insert(1);
    let mut trials = Vec::new();
    let mut add = |module: &str, tests: Vec<(&str, Test)>| {
        trials.extend(tests.into_iter().map(|(name, test)| {
            Trial::test(format!("{module}::{name}"), move || {
                test().map_err(|error| Failed::from(format!("{error:#}")))
            })
        }));
    };
    add("machine", machine::tests());
    // On a machine that lacks something these would only lack more.
    if machine::is_whole() {
        add("same", same::tests());
        add("lacking", lacking::tests());
        add("left", left::tests());
        // Minutes in an emulator, and the same attacks that the others see refused.
        if std::env::var_os("GUARD_TEST_WITHOUT_FAULTS").is_none() {
            add("failing", failing::tests());
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Test = fn() -> Result<()>;
