//! What the audit has of the sessions of one pair.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use guard_tests::{programs, records::Record, refused::Stage};
use serde_json::Value;

use crate::wire::{Call, Start};

/// The chain holds, every start has its launch and its exit, and each call that a client made has one `begin` and one
/// `end`, in the order of the calls and with what it asked.
pub(crate) fn holds(stage: &Stage, starts: &[Start]) -> Result<()> {
    verify(stage)?;
    let records = stage.bench.records()?;
    let launches: Vec<&Record> = of_kind(&records, "launch").collect();
    let exits = of_kind(&records, "exit").count();
    ensure!(
        launches.len() == starts.len() && exits == starts.len(),
        "{} starts, {} launches, {exits} exits",
        starts.len(),
        launches.len()
    );
    for (start, launch) in starts.iter().zip(launches) {
        let calls = start.calls()?;
        let session = launch.field("session").context("a launch has a session")?;
        told(&records, session, &calls).with_context(|| format!("session {session}: {calls:?}"))?;
    }
    // By itself, or at the signal that every ladder of clients has: none was shot.
    for exit in of_kind(&records, "exit") {
        let well = exit.body["code"] == 0 || exit.body["signal"] == 15;
        ensure!(
            well && exit.body.get("degraded").is_none(),
            "ended badly: {exit:?}"
        );
    }
    let others = of_kind(&records, "gap").count();
    ensure!(others == 0, "{others} gaps");
    Ok(())
}

fn of_kind<'a>(records: &'a [Record], kind: &'a str) -> impl Iterator<Item = &'a Record> {
    records.iter().filter(move |record| record.kind == kind)
}

fn told(records: &[Record], session: &Value, calls: &[Call]) -> Result<()> {
    let of_session = |phase: &'static str| {
        of_kind(records, "call")
            .filter(move |record| record.field("session") == Some(session) && record.body["phase"] == phase)
    };
    let begins: Vec<&Record> = of_session("begin").collect();
    let ends: Vec<&Record> = of_session("end").collect();
    ensure!(
        begins.len() == calls.len() && ends.len() == calls.len(),
        "{} calls, {} begins, {} ends",
        calls.len(),
        begins.len(),
        ends.len()
    );
    for (at, (call, begin)) in calls.iter().zip(begins).enumerate() {
        let number = (at + 1).to_string();
        ensure!(begin.body["call"] == *number, "not call {number}: {begin:?}");
        ensure!(begin.body["method"] == *call.method, "not {call:?}: {begin:?}");
        let member = match call.method.as_str() {
            "tools/call" => "tool",
            "prompts/get" => "prompt",
            _ => "uri",
        };
        ensure!(begin.body[member] == *call.name, "not {call:?}: {begin:?}");
        if let Some(text) = begin.body["arguments"].as_str() {
            let arguments: Value = serde_json::from_str(text)?;
            ensure!(arguments == call.arguments, "not {call:?}: {begin:?}");
        } else {
            ensure!(call.arguments.is_null(), "no arguments of {call:?}: {begin:?}");
        }
        let mut own = ends.iter().filter(|end| end.body["call"] == *number);
        let end = own.next().with_context(|| format!("no end of call {number}"))?;
        ensure!(own.next().is_none(), "two ends of call {number}");
        ensure!(end.body["status"] == call.status, "not {call:?}: {end:?}");
        ensure!(end.seq > begin.seq, "ended before it began: {end:?}");
    }
    Ok(())
}

fn verify(stage: &Stage) -> Result<()> {
    let output = Command::new(programs::agent()?)
        .args(["audit", "verify", "--audit"])
        .arg(stage.bench.audit())
        .output()?;
    ensure!(
        output.status.success(),
        "`audit verify` ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    Ok(())
}
