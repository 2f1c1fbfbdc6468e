//! What the trail tells of calls: each is on record before it is passed on and when it is over, and what its server did
//! meanwhile belongs to it.

mod ends;
mod events;
mod limits;
mod records;
mod scope;
mod secrets;
mod show;

#[path = "../protocol/duo.rs"]
#[allow(dead_code, reason = "shared with the tests of the protocol")]
mod duo;
#[path = "../protocol/expect.rs"]
#[allow(dead_code, reason = "shared with the tests of the protocol")]
mod expect;
#[path = "../protocol/pipes.rs"]
#[allow(dead_code, reason = "shared with the tests of the protocol")]
mod pipes;

use std::fs;

use anyhow::{Context as _, Result};
use duo::Duo;
use guard_tests::{control::User, life::stage::Stage, programs, records::Record, tier::Tier};
use serde_json::Value;

/// A stage of its own for a test; whatever the test does, nothing is left, and the chain holds.
fn on_stage(test: impl FnOnce(&Stage) -> Result<()>) -> Result<()> {
    let mut stage = Stage::new("told")?;
    stage.protocol = "mcp";
    fs::copy(programs::scripted()?, stage.path().join("bin/guard-scripted"))?;
    let result = test(&stage)
        .and_then(|()| stage.nothing_left().map(drop))
        .and_then(|()| stage.verify());
    if result.is_err() {
        stage.keep();
    }
    result
}

/// A session after its greeting, which ends well; then its records of calls.
fn session(test: impl FnOnce(&Stage, &mut Duo) -> Result<()>) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        greet(&mut duo)?;
        test(stage, &mut duo)?;
        duo.leave()?;
        stage.nothing_left()?;
        records = stage.records()?;
        Ok(())
    })?;
    Ok(records)
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

fn greet(duo: &mut Duo) -> Result<()> {
    duo.forwarded("0", |id| HELLO.replacen("\"id\":0", &format!("\"id\":{id}"), 1))
        .and_then(|number| {
            let answer = |id: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-06-18","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}}}"#
                )
            };
            duo.server(answer(&number.to_string()))?;
            duo.client_gets(&answer("0"))
        })?;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    duo.client(ready)?;
    duo.server_gets(ready)
}

/// A server of a policy: what it says of the server, then of others.
fn by_policy(stage: &Stage, says: &str, flags: &[&str]) -> Result<Duo> {
    let user = if Tier::current()?.is_root() {
        format!("user = \"{}\"\n", User::of_tests()?.name)
    } else {
        String::new()
    };
    let path = |name: &str| stage.path().join(name);
    let mut duo = Duo::start_by(stage, |words| {
        let policy = format!(
            "[server.puppet]\ncommand = {words:?}\n{user}roots = [{{ path = \"{}\", rights = \"rx\" }}, {{ path = \"{}\", rights = \"rw\" }}]\n{says}",
            path("bin").display(),
            path("work").display(),
        );
        drop(fs::write(path("policy.toml"), policy));
        stage.policy_command(&path("policy.toml"), flags)
    })?;
    duo.read();
    Ok(duo)
}

/// Who asks: the tests' user where the agent is an ordinary one's, and the person behind sudo.
fn asker() -> Result<u32> {
    if !Tier::current()?.is_root() {
        return Ok(User::of_tests()?.uid);
    }
    let behind = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    Ok(behind.unwrap_or_else(|| nix::unistd::getuid().as_raw()))
}

fn calls(records: &[Record]) -> Vec<&Record> {
    records.iter().filter(|record| record.kind == "call").collect()
}

/// The one record of this call and phase.
fn call<'a>(records: &'a [Record], number: &str, phase: &str) -> Result<&'a Record> {
    let mut found = records.iter().filter(|record| {
        record.kind == "call" && record.body["call"] == number && record.body["phase"] == phase
    });
    let one = found
        .next()
        .with_context(|| format!("no `{phase}` of call {number}"))?;
    anyhow::ensure!(found.next().is_none(), "call {number} has two of `{phase}`");
    Ok(one)
}

/// What the kernel half told of this path.
fn of_path<'a>(records: &'a [Record], path: &str) -> Vec<&'a Record> {
    let is = |record: &&Record| record.kind == "kernel" && record.body["path"] == path;
    records.iter().filter(is).collect()
}

fn names(value: &Value) -> Vec<String> {
    let names = value.as_array().into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}
