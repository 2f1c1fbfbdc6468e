//! Ends that nobody tells, and what is told in the wrong order.

use anyhow::{Result, ensure};
use guard_tests::records::Record;
use serde_json::json;

use crate::{call, calls, duo::Duo, expect::answer, greet, on_stage, session};

#[test]
fn of_a_server_that_dies_in_a_call() -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        greet(&mut duo)?;
        let done = duo.call("1")?;
        duo.call("2")?;
        // What it said last still counts.
        duo.server(answer(&done.to_string()))?;
        duo.deed("crash", b"")?;
        duo.client_gets(&answer("1"))?;
        let line = duo.at_client()?;
        ensure!(
            line.contains("\"id\":2") && line.contains("server-ended"),
            "{line}"
        );
        duo.ends()?;
        stage.nothing_left()?;
        let records = stage.records()?;
        let end = call(&records, "1", "end")?;
        ensure!(
            end.body["status"] == "ok" && end.body["origin"] == "gateway",
            "{}",
            end.body
        );
        let end = call(&records, "2", "end")?;
        ensure!(
            end.body["status"] == "error" && end.body["origin"] == "warden" && end.body["tool"] == "do",
            "{}",
            end.body
        );
        ensure!(end.body["error"] == r#"{"reason":"signaled"}"#, "{}", end.body);
        // Its end closes the session.
        let exit = records.iter().find(|record| record.kind == "exit");
        ensure!(
            exit.is_some_and(|exit| end.seq < exit.seq),
            "the exit comes first"
        );
        Ok(())
    })
}

#[test]
fn of_a_gateway_that_dies_in_a_call() -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        greet(&mut duo)?;
        duo.call("1")?;
        let pid = i32::try_from(duo.pid())?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)?;
        duo.ends()?;
        stage.nothing_left()?;
        let records = stage.records()?;
        let end = call(&records, "1", "end")?;
        ensure!(
            end.body["status"] == "error" && end.body["origin"] == "warden",
            "{}",
            end.body
        );
        ensure!(end.body["error"] == r#"{"reason":"killed"}"#, "{}", end.body);
        let gap = records.iter().find(|record| record.kind == "gap");
        ensure!(gap.is_some_and(|gap| gap.body["gap"]["kind"] == "gateway-died"));
        Ok(())
    })
}

/// The client leaves and takes no more answers: whatever comes of its calls, each has an end.
#[test]
fn of_a_client_that_leaves_in_a_call() -> Result<()> {
    let mut numbers = Vec::new();
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        greet(&mut duo)?;
        for id in 0..5 {
            numbers.push(duo.call(&id.to_string())?);
        }
        duo.client_closes();
        duo.server(answer(&numbers[0].to_string()))?;
        duo.client_gets(&answer("0"))?;
        duo.server_sees_end()?;
        duo.deed("exit 0", b"")?;
        duo.rest()?;
        duo.ends()?;
        stage.nothing_left()?;
        let records = stage.records()?;
        ensure!(call(&records, "1", "end")?.body["status"] == "ok");
        for number in 2..=5 {
            let end = call(&records, &number.to_string(), "end")?;
            ensure!(end.body["status"] == "error", "{}", end.body);
        }
        Ok(())
    })
}

/// A server that guesses the number of a request and answers before it is asked gains nothing.
#[test]
fn an_answer_before_the_question_is_nobodys() -> Result<()> {
    let records = session(|_, duo| {
        let number = duo.call("1")?;
        duo.answered(number, "1")?;
        duo.server(answer(&(number + 1).to_string()))?;
        duo.works()
    })?;
    ensure!(calls(&records).len() == 4, "{} records", calls(&records).len());
    Ok(())
}

/// Many calls, some cancelled, some answered late, some never: each has one beginning and one end, in this order.
#[test]
fn every_call_begins_once_and_ends_once() -> Result<()> {
    const CALLS: usize = 1500;
    let records = session(|_, duo| {
        let cancel = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        let mut open: Vec<(String, u64)> = Vec::new();
        for number in 0..CALLS {
            let id = format!("\"c{number}\"");
            let sent = duo.call(&id)?;
            match number % 5 {
                0 => {
                    duo.client(cancel(&id))?;
                    duo.server_gets(&cancel(&sent.to_string()))?;
                    if number % 10 == 0 {
                        duo.server(answer(&sent.to_string()))?;
                    }
                }
                1 => open.push((id, sent)),
                _ => duo.answered(sent, &id)?,
            }
            if open.len() > 80 {
                for (id, sent) in open.drain(..).rev() {
                    duo.answered(sent, &id)?;
                }
            }
        }
        for (id, sent) in open {
            duo.answered(sent, &id)?;
        }
        Ok(())
    })?;
    let of = |phase: &str| -> Vec<&Record> {
        calls(&records)
            .into_iter()
            .filter(|record| record.body["phase"] == phase)
            .collect()
    };
    ensure!(
        of("begin").len() == CALLS && of("end").len() == CALLS,
        "{} and {}",
        of("begin").len(),
        of("end").len()
    );
    for number in 1..=CALLS {
        let name = number.to_string();
        let begin = of("begin")[number - 1];
        ensure!(begin.body["call"] == json!(name), "{}", begin.body);
    }
    for end in of("end") {
        let number: usize = end.body["call"].as_str().unwrap_or_default().parse()?;
        let wanted = if (number - 1).is_multiple_of(5) {
            "cancelled"
        } else {
            "ok"
        };
        ensure!(end.body["status"] == wanted, "{}", end.body);
        ensure!(of("begin")[number - 1].seq < end.seq);
    }
    Ok(())
}
