//! What a gateway that was taken over can ask for: one sandbox at a time of the one plan, and not without end.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use guard_tests::life::trail;
use serde_json::{Value, json};

use super::{
    in_a_session,
    stage::{ACTS, Calls, refused, with_audit_inside},
};

fn call(number: u64) -> Value {
    json!({"do": "say", "message": {"type": "call", "call": number}})
}

fn hear(calls: &mut Calls) -> Result<Value> {
    let answer = calls.order(&json!({"do": "hear"}))?;
    ensure!(answer["message"].is_object(), "{answer}");
    Ok(answer)
}

fn say(calls: &mut Calls, message: &Value) -> Result<()> {
    let answer = calls.order(message)?;
    ensure!(answer == json!({}), "{answer}");
    Ok(())
}

/// The cause of the one exit there is.
fn cause(calls: &Calls) -> Result<String> {
    let records = calls.stage.records()?;
    let exits = trail::kind(&records, "exit");
    ensure!(
        exits.len() == 1 && trail::kind(&records, "launch").len() == 1,
        "{records:?}"
    );
    Ok(trail::text(exits[0], "cause").to_owned())
}

/// Hears everything until the session is over; how many refusals there were.
fn until_over(calls: &mut Calls) -> Result<usize> {
    let mut refused = 0;
    loop {
        let answer = hear(calls)?;
        match answer["message"]["type"].as_str() {
            Some("call-refused") => refused += 1,
            Some("exited") => {
                ensure!(answer["message"]["reason"] == "over", "{answer}");
                return Ok(refused);
            }
            Some("ending" | "call-ended") => {}
            _ => bail!("{answer}"),
        }
        ensure!(answer["descriptors"] == 0, "{answer}");
    }
}

#[test]
fn one_at_a_time() -> Result<()> {
    in_a_session(ACTS, |calls| {
        ensure!(calls.start()? == 1);
        let init = calls.init()?;
        say(calls, &call(2))?;
        let answer = hear(calls)?;
        let refusal = &answer["message"]["refusal"];
        ensure!(
            answer["message"]["type"] == "call-refused" && answer["message"]["call"] == 2,
            "{answer}"
        );
        ensure!(answer["descriptors"] == 0, "{answer}");
        ensure!(
            refusal["why"] == "the sandbox of the call before it is still there: a session has one at a time",
            "{refusal}"
        );
        // The one that runs never noticed.
        ensure!(calls.init()? == init && calls.stage.left().sandboxes() == 1);
        ensure!(calls.act(&json!({"act": "processes"}))? == "2");
        calls.end()?;
        // It was refused, not used.
        ensure!(calls.start()? == 2);
        calls.end()?;
        Ok(())
    })
}

#[test]
fn requests_without_end_end_the_session() -> Result<()> {
    in_a_session(ACTS, |calls| {
        calls.start()?;
        for number in 2..1000 {
            // Sent without looking for an answer; at some point nobody listens any more.
            if calls.order(&call(number))? != json!({}) {
                break;
            }
        }
        ensure!(until_over(calls)? == 64, "another number of refusals");
        calls.between()?;
        ensure!(cause(calls)? == "gateway: it asks for calls without end");
        Ok(())
    })
}

/// One after the other, too. Launches that stop at once, so that any machine is fast enough.
#[test]
fn calls_follow_each_other_so_fast_and_no_faster() -> Result<()> {
    in_a_session(ACTS, |calls| {
        calls.start()?;
        calls.end()?;
        let begun = Instant::now();
        let (granted, error) = with_audit_inside(calls, |calls| {
            for granted in 1..1000 {
                let error = refused(calls)?;
                if !error.contains("it contains guard-agent's audit directory") {
                    return Ok((granted, error));
                }
            }
            bail!("never refused")
        })?;
        let refilled = begun.elapsed().as_millis() / 100 + 1;
        ensure!(
            (64..=64 + refilled).contains(&granted) && error.contains("has started 64 without a pause"),
            "{granted} in {:?}: {error}",
            begun.elapsed()
        );
        sleep(Duration::from_millis(150));
        calls.start()?;
        calls.end()?;
        Ok(())
    })
}

#[test]
fn a_number_is_used_once() -> Result<()> {
    in_a_session(ACTS, |calls| {
        calls.start()?;
        calls.end()?;
        say(calls, &call(1))?;
        ensure!(until_over(calls)? == 0);
        ensure!(cause(calls)? == "gateway: it asked to");
        Ok(())
    })?;
    in_a_session(ACTS, |calls| {
        calls.start()?;
        say(calls, &call(1))?;
        ensure!(until_over(calls)? == 0);
        ensure!(cause(calls)? == "gateway: it used the number of a call again");
        Ok(())
    })
}

#[test]
fn another_plan_is_not_to_be_had() -> Result<()> {
    for running in [true, false] {
        in_a_session(ACTS, |calls| {
            calls.start()?;
            if !running {
                calls.end()?;
            }
            say(calls, &json!({"do": "other", "root": "/usr/share"}))?;
            ensure!(until_over(calls)? == 0);
            calls.between()?;
            let expected = if running {
                "gateway: it broke the protocol"
            } else {
                "gateway: it asked to"
            };
            ensure!(cause(calls)? == expected, "{}", cause(calls)?);
            Ok(())
        })?;
    }
    Ok(())
}
