//! How the sandbox of a call ends when nobody asks for it, and that nothing outlives who is responsible for it.

use std::fs;

use anyhow::{Result, ensure};
use guard_tests::{
    life::{
        left::{Role, held, namespaces, ticks},
        trail,
    },
    records::Record,
};
use serde_json::json;

use super::{
    in_a_session,
    stage::{ACTS, Calls},
    with_limit,
};

fn exits(calls: &Calls) -> Result<Vec<Record>> {
    let records = calls.stage.records()?;
    Ok(trail::kind(&records, "exit").into_iter().cloned().collect())
}

#[test]
fn a_server_that_ends_by_itself() -> Result<()> {
    in_a_session(&["guard-puppet", "complain=no luck", "exit=3"], |calls| {
        for call in 1..=2 {
            ensure!(calls.start()? == call);
            let answer = calls.order(&json!({"do": "wait"}))?;
            let exited = &answer["exited"];
            ensure!(exited["reason"] == "exited" && exited["code"] == 3, "{answer}");
            calls.between()?;
        }
        for (exit, call) in exits(calls)?.iter().zip(["1", "2"]) {
            ensure!(trail::text(exit, "call") == call, "{:?}", exit.body);
            ensure!(
                exit.body["code"] == 3 && exit.body["stderr_tail"] == "no luck\n",
                "{:?}",
                exit.body
            );
        }
        Ok(())
    })
}

#[test]
fn a_call_that_takes_too_long() -> Result<()> {
    with_limit(&["guard-puppet", "stubborn", "forever"], Some(300), |calls| {
        ensure!(calls.start()? == 1);
        let answer = calls.order(&json!({"do": "wait"}))?;
        ensure!(answer["exited"]["reason"] == "killed", "{answer}");
        calls.between()?;
        let told = exits(calls)?;
        ensure!(
            told.len() == 1
                && trail::text(&told[0], "cause") == "warden: the call took longer than its limit",
            "{told:?}"
        );
        ensure!(calls.start()? == 2);
        calls.end()?;
        Ok(())
    })
}

/// Its launch and exit have the call, and a gap says why.
fn ended_with(calls: &Calls, gap: &str, cause: &str) -> Result<()> {
    let records = calls.stage.records()?;
    trail::complete(&records)?;
    let told = exits(calls)?;
    ensure!(told.len() == 2, "{told:?}");
    let last = &told[1];
    ensure!(
        trail::text(last, "call") == "2" && trail::text(last, "cause") == cause,
        "{:?}",
        last.body
    );
    let gaps = trail::kind(&records, "gap");
    let ours: Vec<_> = gaps
        .iter()
        .filter(|record| record.body["gap"]["kind"] == gap)
        .collect();
    ensure!(
        ours.len() == 1
            && trail::text(ours[0], "call") == "2"
            && trail::text(ours[0], "session") == calls.session,
        "{gaps:?}"
    );
    Ok(())
}

/// One call that was, one that runs, with a process that nobody asked for.
fn in_a_call(calls: &mut Calls) -> Result<()> {
    calls.start()?;
    calls.end()?;
    calls.start()?;
    let beats = calls.stage.work("beats");
    ensure!(calls.act(&json!({"act": "daemon", "path": beats}))? == "ok");
    calls.stage.wait_until("its daemon does nothing", || {
        fs::metadata(&beats).ok().filter(|file| file.len() > 0)
    })?;
    ensure!(!calls.stage.left().pids(Role::Server).is_empty());
    Ok(())
}

fn death(of: impl FnOnce(&mut Calls) -> Result<()>, gap: &str, cause: &str) -> Result<()> {
    let mut calls = Calls::begin(guard_tests::life::stage::Stage::new("calls")?, ACTS, None)?;
    let result = (|| {
        in_a_call(&mut calls)?;
        let (spaces, at) = (namespaces(calls.init()?), ticks());
        ensure!(spaces.len() == 6, "{spaces:?}");
        of(&mut calls)?;
        calls.stage.nothing_left()?;
        ensure!(held(&spaces, at).is_empty(), "{:?}", held(&spaces, at));
        let beats = calls.stage.work("beats");
        let length = fs::metadata(&beats)?.len();
        std::thread::sleep(std::time::Duration::from_millis(10));
        ensure!(fs::metadata(&beats)?.len() == length, "its daemon lives");
        ended_with(&calls, gap, cause)?;
        calls.stage.verify()?;
        calls.stage.works()
    })();
    if result.is_err() {
        calls.stage.keep();
        eprintln!("{}", calls.stage.log());
    }
    result
}

#[test]
fn the_gateway_dies() -> Result<()> {
    death(
        Calls::kill_gateway,
        "gateway-died",
        "gateway: it ended before its server",
    )
}

#[test]
fn the_warden_dies() -> Result<()> {
    death(Calls::kill_warden, "warden-died", "warden: it died")
}
