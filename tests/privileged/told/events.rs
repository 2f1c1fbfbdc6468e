//! The join: what the server does belongs to the call it does it in.

use anyhow::{Context as _, Result, ensure};
use guard_tests::{life::stage::Stage, tier::Tier};

use crate::{call, duo::Duo, expect::answer, names, of_path, session};

/// As many as have a bit of their own.
const BITS: usize = 64;

/// Without programs nobody sees what a server opens.
fn observed() -> Result<bool> {
    Ok(Tier::current()?.is_root())
}

fn opens(duo: &Duo, path: &str) -> Result<()> {
    duo.deed(&format!("open {}", path.len()), path.as_bytes())
}

/// A file that is there, and a name that is nowhere: an open that is allowed, and one that is not.
fn paths(stage: &Stage, name: &str) -> Result<[String; 2]> {
    let file = stage.work(name);
    std::fs::write(&file, name)?;
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    Ok([file.display().to_string(), format!("/nowhere/{name}")])
}

#[test]
fn one_call_after_the_other_has_what_was_done_in_it() -> Result<()> {
    if !observed()? {
        return Ok(());
    }
    let mut all = Vec::new();
    let records = session(|stage, duo| {
        for number in 1..=5 {
            let paths = paths(stage, &format!("file-{number}"))?;
            let sent = duo.call("7")?;
            // Three times: once on record, and counted.
            for path in paths.iter().flat_map(|path| [path; 3]) {
                opens(duo, path)?;
            }
            duo.answered(sent, "7")?;
            all.push((number.to_string(), paths));
        }
        let between = paths(stage, "between")?;
        for path in &between {
            opens(duo, path)?;
        }
        // Done when this one is answered.
        let sent = duo.call("8")?;
        duo.answered(sent, "8")?;
        all.push(("idle".into(), between));
        Ok(())
    })?;
    for (number, paths) in &all {
        for (path, decision) in paths.iter().zip(["allow", "deny"]) {
            let found = of_path(&records, path);
            ensure!(!found.is_empty(), "nothing is told of `{path}`");
            for record in &found {
                let body = &record.body;
                ensure!(body["decision"] == decision, "{body}");
                let idle = number == "idle";
                let (word, calls) = if idle {
                    ("idle", vec![])
                } else {
                    ("sole", vec![number.clone()])
                };
                ensure!(
                    body["attribution"] == word && names(&body["calls"]) == calls,
                    "`{path}` in call {number}: {body}"
                );
            }
            if number != "idle" {
                let count: u64 = found
                    .iter()
                    .map(|record| record.body["repeat"].as_u64().unwrap_or(1))
                    .sum();
                ensure!(count == 3, "{count} opens of `{path}`");
                // All of it stands before the end of its call.
                let (begin, end) = (call(&records, number, "begin")?, call(&records, number, "end")?);
                ensure!(
                    found
                        .iter()
                        .all(|record| begin.seq < record.seq && record.seq < end.seq)
                );
            }
        }
        if number != "idle" {
            let kernel = &call(&records, number, "end")?.body["kernel"];
            ensure!(
                kernel["allowed"] == 3 && kernel["denied"] == 3,
                "call {number}: {kernel}"
            );
            ensure!(
                kernel["by_op"]["open"]["allowed"] == 3 && kernel["by_op"]["open"]["denied"] == 3,
                "{kernel}"
            );
        }
    }
    Ok(())
}

/// Whichever of them it was, it is in the list, and with as many calls as bits no other than those in flight.
#[test]
fn of_calls_in_flight_together_the_true_one_is_always_named() -> Result<()> {
    if !observed()? {
        return Ok(());
    }
    for count in [BITS, BITS + 36] {
        let mut told = Vec::new();
        let records = session(|stage, duo| {
            let mut sent = Vec::new();
            for number in 1..=count {
                sent.push(duo.call(&format!("\"call-{number}\""))?);
            }
            // Answered in an order of their own, each after it opened its file.
            let order: Vec<usize> = (0..count).map(|at| (at * 29 + 3) % count).collect();
            ensure!(
                order.iter().collect::<std::collections::BTreeSet<_>>().len() == count,
                "the order leaves some out"
            );
            for (done, at) in order.iter().copied().enumerate() {
                let number = at + 1;
                let [file, nowhere] = paths(stage, &format!("file-{number}"))?;
                opens(duo, &file)?;
                opens(duo, &nowhere)?;
                duo.server(answer(&sent[at].to_string()))?;
                duo.client_gets(&answer(&format!("\"call-{number}\"")))?;
                let over: Vec<String> = order[..done].iter().map(|at| (at + 1).to_string()).collect();
                told.push((number.to_string(), [file, nowhere], over));
            }
            Ok(())
        })?;
        for (number, paths, over) in &told {
            for path in paths {
                let found = of_path(&records, path);
                let [record] = found.as_slice() else {
                    anyhow::bail!("{} records of `{path}`", found.len());
                };
                let calls = names(&record.body["calls"]);
                ensure!(
                    calls.contains(number),
                    "`{path}` of call {number} is told of {calls:?}"
                );
                let wrong = calls.iter().find(|call| over.contains(call));
                ensure!(
                    count > BITS || wrong.is_none(),
                    "call {wrong:?} was over when {number} did it"
                );
                let word = if calls.len() == 1 { "sole" } else { "one-of" };
                ensure!(record.body["attribution"] == word, "{}", record.body);
            }
            let kernel = &call(&records, number, "end")?.body["kernel"];
            let both = kernel["allowed"].as_u64() >= Some(1) && kernel["denied"].as_u64() >= Some(1);
            ensure!(both, "call {number}: {kernel}");
        }
    }
    Ok(())
}

/// The server need not notice that a call is cancelled: what it does on is still told of it.
#[test]
fn a_cancelled_call_has_what_is_done_after_all() -> Result<()> {
    if !observed()? {
        return Ok(());
    }
    let mut path = String::new();
    let records = session(|stage, duo| {
        let sent = duo.call("7")?;
        let cancel = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        duo.client(cancel("7"))?;
        duo.server_gets(&cancel(&sent.to_string()))?;
        let other = duo.call("8")?;
        [path, _] = paths(stage, "late")?;
        opens(duo, &path)?;
        duo.server(answer(&sent.to_string()))?;
        duo.answered(other, "8")
    })?;
    let found = of_path(&records, &path);
    let record = found.first().context("nothing is told of it")?;
    ensure!(names(&record.body["calls"]) == ["1", "2"], "{}", record.body);
    let end = call(&records, "1", "end")?;
    ensure!(
        end.body["status"] == "cancelled" && end.body["kernel"]["allowed"] == 1,
        "{}",
        end.body
    );
    ensure!(call(&records, "2", "end")?.body["status"] == "ok");
    Ok(())
}
