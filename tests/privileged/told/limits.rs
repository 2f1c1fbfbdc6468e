//! Calls that take too long, and servers.

use std::time::Duration;

use anyhow::{Result, ensure};
use guard_tests::life::{limit, stage::Stage};

use crate::{HELLO, by_policy, call, duo::Duo, expect, greet, on_stage};

/// A server of a policy with these limits.
fn start(stage: &Stage, limits: &str) -> Result<Duo> {
    by_policy(stage, &format!("limits = {{ {limits} }}\n"), &[])
}

#[test]
fn a_call_that_takes_too_long_is_answered_and_the_session_goes_on() -> Result<()> {
    on_stage(|stage| {
        let mut duo = start(stage, "call_timeout = \"1s\"")?;
        greet(&mut duo)?;
        let sent = duo.call("\"slow\"")?;
        expect::error(&duo.at_client()?, "\"slow\"", -31002, "execution", "timeout")?;
        duo.server_gets(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"it took longer than its limit","requestId":{sent}}}}}"#
        ))?;
        // It shows that it is there, though not at once.
        let ping = duo.at_server()?;
        let number = expect::id_of(&ping, |id| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
        })?;
        duo.deed("pause 300", b"")?;
        duo.server(format!(
            r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":-32601,"message":"no"}}}}"#
        ))?;
        // Its late answer is nobody's.
        duo.server(expect::answer(&sent.to_string()))?;
        std::thread::sleep(limit(Duration::from_secs(6)));
        duo.works()?;
        duo.leave()?;
        stage.nothing_left()?;
        let records = stage.records()?;
        let end = call(&records, "1", "end")?;
        ensure!(end.body["status"] == "timeout", "{}", end.body);
        let took = end.body["duration_us"].as_u64().unwrap_or_default();
        ensure!(
            (1_000_000..10_000_000).contains(&took),
            "it was waited for for {took} µs"
        );
        ensure!(call(&records, "2", "end")?.body["status"] == "ok");
        Ok(())
    })
}

#[test]
fn a_server_that_answers_nothing_any_more_is_killed() -> Result<()> {
    on_stage(|stage| {
        let mut duo = start(stage, "call_timeout = \"1s\"")?;
        greet(&mut duo)?;
        duo.call("1")?;
        expect::error(&duo.at_client()?, "1", -31002, "execution", "timeout")?;
        let rest = duo.rest()?;
        ensure!(rest.is_empty(), "the client got {rest:?}");
        let status = duo.ends()?;
        ensure!(status.code() == Some(1), "the agent ended with {status}");
        let said = duo.stderr();
        ensure!(
            said.contains(
                "ended: it has not answered a call, nor the question whether it is there, within 1 s"
            ) && said.contains("`limits.call_timeout`"),
            "{said}"
        );
        stage.nothing_left()?;
        let records = stage.records()?;
        ensure!(call(&records, "1", "end")?.body["status"] == "timeout");
        let exit = records.iter().find(|record| record.kind == "exit");
        ensure!(exit.is_some_and(|exit| exit.body["reason"] == "killed"));
        Ok(())
    })
}

#[test]
fn a_server_that_never_says_a_word_is_killed() -> Result<()> {
    on_stage(|stage| {
        let mut duo = start(stage, "start_timeout = \"2s\"")?;
        // As long as nobody asks it has all the time.
        std::thread::sleep(Duration::from_secs(3));
        duo.client(HELLO)?;
        let line = duo.at_client()?;
        ensure!(
            line.contains("\"id\":0") && line.contains("server-ended"),
            "{line}"
        );
        let status = duo.ends()?;
        ensure!(status.code() == Some(1), "the agent ended with {status}");
        let said = duo.stderr();
        ensure!(
            said.contains("ended: it has not given its first answer within 2 s"),
            "{said}"
        );
        ensure!(said.contains("`limits.start_timeout`"), "{said}");
        Ok(())
    })
}
