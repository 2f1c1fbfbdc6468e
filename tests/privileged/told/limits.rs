//! Calls that take too long, and servers.

use std::{fs, process::Command, time::Duration};

use anyhow::{Result, ensure};
use guard_tests::{
    control::User,
    life::{limit, stage::Stage},
    tier::Tier,
};

use crate::{HELLO, call, duo::Duo, expect, greet, on_stage};

/// A server of a policy with these limits.
fn start(stage: &Stage, limits: &str) -> Result<Duo> {
    let user = if Tier::current()?.is_root() {
        format!("user = \"{}\"\n", User::of_tests()?.name)
    } else {
        String::new()
    };
    let path = |name: &str| stage.path().join(name);
    let mut duo = Duo::start_by(stage, |words| {
        let policy = format!(
            "[server.puppet]\ncommand = {words:?}\n{user}roots = [{{ path = \"{}\", rights = \"rx\" }}, {{ path = \"{}\", rights = \"rw\" }}]\nlimits = {{ {limits} }}\n",
            path("bin").display(),
            path("work").display(),
        );
        drop(fs::write(path("policy.toml"), policy));
        let ours = stage.run_command(["x"]);
        let mut command = Command::new(ours.get_program());
        // Who starts it, and how, is the stage's; what it runs is the policy's.
        let words: Vec<_> = ours.get_args().collect();
        let own = |word: &&std::ffi::OsStr| *word == "run";
        let before = words.iter().take_while(|word| !own(word)).count();
        command.args(&words[..=before]);
        command.args(Tier::insisted().unwrap_or_default());
        command
            .arg("--state")
            .arg(stage.state())
            .arg("--audit")
            .arg(stage.audit());
        command.arg("--policy").arg(path("policy.toml"));
        command.env_remove("GUARD_AGENT_FAULT");
        command.env("GUARD_AGENT_IDLE_MS", stage.idle.to_string());
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        command
    })?;
    duo.read();
    Ok(duo)
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
