//! `guard-probe`: one escape attempt a call, told as one line of JSON.
//!
//! `guard-probe NAME [KEY=VALUE…]` · `guard-probe list --json` · `guard-probe batch` (a JSON line
//! `{"probe": …, "args": {…}}` in, a line out) · `guard-probe acts` (see `acts.rs`) ·
//! `guard-probe neighbour …` · the hogs of `hogs.rs`.

mod acts;
mod exec;
mod files;
mod hogs;
mod kernel;
mod links;
mod neighbour;
mod net;
mod positive;
mod probe;
mod processes;
mod raw;
mod spaces;
mod surroundings;

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, Write as _},
    process::ExitCode,
};

use probe::{Args, Failure, Probe, isolated};
use serde::Deserialize;
use serde_json::json;

const FAMILIES: &[&[Probe]] = &[
    files::PROBES,
    links::PROBES,
    exec::PROBES,
    net::PROBES,
    spaces::PROBES,
    processes::PROBES,
    kernel::PROBES,
    surroundings::PROBES,
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        return usage("no probe named");
    };
    let args = Args(
        words
            .filter_map(|word| {
                word.split_once('=')
                    .map(|(key, value)| (key.into(), value.into()))
            })
            .collect(),
    );
    match name.as_str() {
        "list" => list(),
        "batch" => batch(),
        "neighbour" => told(neighbour::run(&args)),
        "acts" => told(acts::run().map_err(Failure::from)),
        "plant" => told(plant(&args)),
        _ => match find(&name) {
            Some(probe) => say(&isolated(probe, &args).to_string()),
            None => match hogs::run(&name, &args) {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => usage(&format!("no probe `{name}`")),
                Err(failure) => told(Err(failure)),
            },
        },
    }
}

/// The extended attribute that two probes look for; part of the fixture, not an attempt.
fn plant(args: &Args) -> Result<(), Failure> {
    raw::call!(
        SYS_setxattr,
        raw::path(args.path("file")?),
        c"user.planted",
        c"1",
        1,
        0
    )?;
    Ok(())
}

fn all() -> impl Iterator<Item = &'static Probe> {
    FAMILIES
        .iter()
        .copied()
        .flatten()
        .chain(positive::CHECKS)
        .chain(positive::TOOLS)
}

fn find(name: &str) -> Option<&'static Probe> {
    all().find(|probe| probe.name == name)
}

/// The declarations; what must keep working is listed apart from what must be refused.
fn list() -> ExitCode {
    let probes: Vec<&Probe> = FAMILIES.iter().copied().flatten().collect();
    let checks: Vec<&str> = positive::CHECKS.iter().map(|check| check.name).collect();
    say(&json!({"probes": probes, "checks": checks}).to_string())
}

#[derive(Deserialize)]
struct Request {
    probe: String,
    #[serde(default)]
    args: BTreeMap<String, String>,
}

fn batch() -> ExitCode {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => match find(&request.probe) {
                Some(probe) => isolated(probe, &Args(request.args)),
                None => json!({"probe": request.probe, "result": "error", "outcome": "unknown"}),
            },
            Err(error) => {
                json!({"probe": "", "result": "error", "outcome": "unreadable", "detail": error.to_string()})
            }
        };
        if say(&answer.to_string()) != ExitCode::SUCCESS {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn say(line: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn told(result: Result<(), Failure>) -> ExitCode {
    let text = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Errno(errno)) => errno.to_string(),
        Err(Failure::Word(word, detail)) => format!("{word}: {detail}"),
    };
    drop(writeln!(io::stderr(), "guard-probe: {text}"));
    ExitCode::FAILURE
}

fn usage(why: &str) -> ExitCode {
    let mut err = io::stderr().lock();
    drop(writeln!(
        err,
        "guard-probe: {why}\nusage: guard-probe list|batch|neighbour|NAME [KEY=VALUE…]"
    ));
    for (name, what) in hogs::NAMES {
        drop(writeln!(err, "  {name} {what}"));
    }
    ExitCode::from(2)
}
