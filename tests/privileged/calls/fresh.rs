//! Each call has a sandbox that nothing ran in before, and what happens there is told as that call's.

use std::{collections::BTreeSet, fs, thread::sleep, time::Duration};

use anyhow::{Result, bail, ensure};
use guard_tests::{life::trail, records::Record, tier::in_a_guest};
use serde_json::{Value, json};

use super::{
    in_a_session,
    stage::{ACTS, Calls, refused, with_audit_inside},
};

/// Machines that are emulated take a second for a launch.
fn rounds() -> u64 {
    if in_a_guest() { 6 } else { 20 }
}

fn act(name: &str, path: &str) -> Value {
    json!({"act": name, "path": path})
}

fn of_call<'a>(records: &'a [Record], kind: &str, call: u64) -> Vec<&'a Record> {
    let call = call.to_string();
    trail::kind(records, kind)
        .into_iter()
        .filter(|record| trail::text(record, "call") == call)
        .collect()
}

/// One call: what it finds, what it leaves, what it is refused.
fn one(calls: &mut Calls, number: u64, outside: &str) -> Result<i32> {
    ensure!(calls.start()? == number, "another number");
    let init = calls.init()?;
    for scratch in ["/tmp/left", "/dev/shm/left"] {
        ensure!(
            calls.act(&act("open", scratch))? == "ENOENT",
            "call {number}: {scratch}"
        );
        ensure!(
            calls.act(&act("create", scratch))? == "ok",
            "call {number}: {scratch}"
        );
    }
    // Init and the server: a process that the call before left is not there.
    ensure!(calls.act(&json!({"act": "processes"}))? == "2", "call {number}");
    let beats = calls.stage.work(&format!("beats-{number}"));
    ensure!(
        calls.act(&act("daemon", &beats.display().to_string()))? == "ok",
        "call {number}"
    );
    ensure!(calls.act(&json!({"act": "processes"}))? == "3", "call {number}");
    calls.stage.wait_until("its daemon does nothing", || {
        fs::metadata(&beats).ok().filter(|file| file.len() > 0)
    })?;
    ensure!(calls.act(&act("open", outside))? == "ENOENT", "call {number}");
    ensure!(
        calls.act(&json!({"act": "connect", "number": number}))? == "EPERM",
        "call {number}"
    );
    ensure!(calls.stage.left().sandboxes() == 1, "call {number}");
    let exited = calls.end()?;
    ensure!(exited["reason"] == "killed", "{exited}");
    calls.between()?;
    let after = fs::metadata(&beats)?.len();
    sleep(Duration::from_millis(10));
    ensure!(
        fs::metadata(&beats)?.len() == after,
        "call {number}: its daemon lives"
    );
    Ok(init)
}

#[test]
fn calls_in_a_row() -> Result<()> {
    in_a_session(ACTS, |calls| {
        let outside = calls.stage.path().join("policy.toml").display().to_string();
        let inits = (1..=rounds())
            .map(|number| one(calls, number, &outside))
            .collect::<Result<BTreeSet<i32>>>()?;
        ensure!(inits.len() as u64 == rounds(), "{inits:?}");
        let records = calls.stage.records()?;
        told(&records, &calls.session, &outside)
    })
}

/// Each call's own launch and exit, in order, of the same plan; each denial with its call.
fn told(records: &[Record], session: &str, outside: &str) -> Result<()> {
    let count = usize::try_from(rounds())?;
    let (launches, exits) = (trail::kind(records, "launch"), trail::kind(records, "exit"));
    ensure!(
        launches.len() == count && exits.len() == count,
        "{} and {}",
        launches.len(),
        exits.len()
    );
    let plan = |launch: &Record| {
        let mut body = launch.body.clone();
        for own in ["call", "seq", "time", "prev", "hash"] {
            body.as_object_mut().map(|body| body.remove(own));
        }
        body
    };
    let mut before = 0;
    for call in 1..=rounds() {
        let (launch, exit) = (of_call(records, "launch", call), of_call(records, "exit", call));
        let ([launch], [exit]) = (launch.as_slice(), exit.as_slice()) else {
            bail!("call {call}: {launch:?} {exit:?}");
        };
        ensure!(before < launch.seq && launch.seq < exit.seq, "call {call}");
        before = exit.seq;
        ensure!(trail::text(launch, "session") == session && trail::text(exit, "session") == session);
        ensure!(
            plan(launch) == plan(launches[0]),
            "{:?} is not {:?}",
            launch.body,
            launches[0].body
        );
        ensure!(
            trail::text(exit, "cause") == "gateway: it asked to",
            "{:?}",
            exit.body
        );
        let kernel: Vec<&Value> = records
            .iter()
            .filter(|record| record.kind == "kernel" && launch.seq < record.seq && record.seq < exit.seq)
            .map(|record| &record.body)
            .collect();
        for record in &kernel {
            ensure!(
                record["calls"] == json!([call.to_string()]) && record["attribution"] == "exact",
                "call {call}: {record}"
            );
        }
        let connect = kernel
            .iter()
            .filter(|record| record["op"] == "connect" && record["port"] == call);
        let open = kernel.iter().filter(|record| record["path"] == outside);
        ensure!(
            connect.count() == 1 && open.count() == 1,
            "call {call}: {kernel:?}"
        );
    }
    // None outside of a call.
    let all = trail::kind(records, "kernel").len();
    let attributed = records
        .iter()
        .filter(|record| record.body["attribution"] == "exact")
        .count();
    ensure!(
        all == attributed,
        "{all} kernel records, {attributed} with a call"
    );
    Ok(())
}

/// What was opened for the plan is what every call gets, whatever lies at its path by then.
#[test]
fn the_plan_stays_the_same() -> Result<()> {
    in_a_session(ACTS, |calls| {
        calls.start()?;
        let work = calls.stage.path().join("work");
        let at = |name: &str| work.join(name).display().to_string();
        ensure!(calls.act(&act("create", &at("first")))? == "ok");
        ensure!(calls.act(&act("create", &at(".envrc")))? == "ok");
        calls.end()?;
        let aside = calls.stage.path().join("aside");
        fs::rename(&work, &aside)?;
        fs::create_dir(&work)?;
        fs::write(work.join("planted"), "GUARD")?;
        let bin = calls.stage.path().join("bin");
        fs::rename(bin.join("guard-probe"), bin.join("aside"))?;
        fs::rename(bin.join("guard-puppet"), bin.join("guard-probe"))?;
        calls.start()?;
        ensure!(
            calls.act(&act("open", &at("planted")))? == "ENOENT",
            "another directory was given"
        );
        ensure!(
            calls.act(&act("open", &at("first")))? != "ENOENT",
            "the directory is another one"
        );
        ensure!(calls.act(&act("create", &at("second")))? == "ok");
        // What programs outside obey is held, also when an earlier call made it.
        ensure!(
            calls.act(&act("open-write", &at(".envrc")))? == "EROFS",
            "a protected name can be written"
        );
        calls.end()?;
        ensure!(aside.join("second").exists() && !work.join("second").exists());
        Ok(())
    })
}

/// A root that came to hold what no root may hold is not given to the next call; the session goes on.
#[test]
fn a_root_is_looked_at_again() -> Result<()> {
    in_a_session(ACTS, |calls| {
        calls.start()?;
        calls.end()?;
        let error = with_audit_inside(calls, refused)?;
        ensure!(
            error.contains("it contains guard-agent's audit directory"),
            "{error}"
        );
        calls.between()?;
        ensure!(calls.start()? == 3, "the number of a refused call is used again");
        calls.end()?;
        Ok(())
    })
}
