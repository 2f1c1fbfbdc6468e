//! A call whose record cannot be written.

use std::fs;

use anyhow::{Result, ensure};
use guard_tests::{
    life::{
        stage::{Done, Stage},
        steps,
    },
    programs,
};
use libtest_mimic::Trial;

use crate::{ended_well, told};

const CALL: &str = r#"{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"x"}}"#;
/// As the server has it: its first request.
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

pub(super) fn trials() -> Vec<Trial> {
    let trial =
        |name: &str, test: fn() -> Result<()>| Trial::test(format!("calls::{name}"), move || told(test()));
    vec![
        trial("without_a_fault_it_reaches_the_server", control),
        trial(
            "a_call_that_cannot_be_put_on_record_does_not_reach_the_server",
            begin,
        ),
        trial("nor_when_the_warden_dies_of_it", killed),
        trial("a_refusal_that_cannot_be_put_on_record_ends_the_session", refused),
        trial("an_end_that_cannot_be_put_on_record_ends_the_session", end),
    ]
}

/// A session with what the client says, and a server that keeps what it hears.
fn session(stage: &mut Stage, fault: Option<&str>, says: &str, words: &[String]) -> Result<(Done, String)> {
    stage.protocol = "mcp";
    let heard = stage.work("heard");
    let mut all = words.to_vec();
    all.push(format!("keep={}", heard.display()));
    let mut command = stage.puppet(all);
    if let Some(fault) = fault {
        command.env("GUARD_AGENT_FAULT", fault);
    }
    let done = stage.finish(&mut command, format!("{says}\n").as_bytes())?;
    stage.protocol = "none";
    Ok((done, fs::read_to_string(heard).unwrap_or_default()))
}

fn on_mcp(test: impl FnOnce(&mut Stage) -> Result<()>) -> Result<()> {
    steps::require_faults(&programs::agent()?)?;
    let mut stage = Stage::new("call")?;
    let result = test(&mut stage);
    if result.is_err() {
        stage.keep();
    }
    result
}

fn control() -> Result<()> {
    on_mcp(|stage| {
        let (_, heard) = session(stage, None, CALL, &[])?;
        ensure!(
            heard == CALL.replace("\"mine\"", "1") + "\n",
            "the server heard {heard:?}"
        );
        stage.nothing_left()?;
        ended_well(stage)
    })
}

fn begin() -> Result<()> {
    on_mcp(|stage| {
        let (done, heard) = session(stage, Some("call.begin=fail"), CALL, &[])?;
        ensure!(heard.is_empty(), "the server heard {heard:?}");
        ensure!(
            done.code() == Some(1),
            "ended with {}:\n{}",
            done.status,
            done.stderr
        );
        let text = done.text();
        ensure!(
            text.contains("\"id\":\"mine\"") && text.contains("server-ended"),
            "the client got {text:?}"
        );
        ensure!(
            done.stderr.contains("the audit cannot be written"),
            "{}",
            done.stderr
        );
        stage.nothing_left()?;
        ended_well(stage)
    })
}

fn killed() -> Result<()> {
    on_mcp(|stage| {
        let (done, heard) = session(stage, Some("call.begin=kill"), CALL, &[])?;
        ensure!(heard.is_empty(), "the server heard {heard:?}");
        ensure!(
            done.code() == Some(4),
            "ended with {}:\n{}",
            done.status,
            done.stderr
        );
        ensure!(
            done.text().contains("\"id\":\"mine\""),
            "the client got {:?}",
            done.text()
        );
        stage.nothing_left_but_files()?;
        ended_well(stage)
    })
}

fn refused() -> Result<()> {
    on_mcp(|stage| {
        let said = format!("{{\n{CALL}");
        let (done, heard) = session(stage, Some("call.refused=fail"), &said, &["sleep=500".into()])?;
        ensure!(heard.is_empty(), "the server heard {heard:?}");
        ensure!(
            done.code() == Some(1),
            "ended with {}:\n{}",
            done.status,
            done.stderr
        );
        stage.nothing_left()?;
        ended_well(stage)
    })
}

fn end() -> Result<()> {
    on_mcp(|stage| {
        let words = ["sleep=300".to_owned(), format!("say={ANSWER}")];
        let (done, _) = session(stage, Some("call.end=fail"), CALL, &words)?;
        ensure!(
            done.code() == Some(1),
            "ended with {}:\n{}",
            done.status,
            done.stderr
        );
        ensure!(
            done.text().contains("\"id\":\"mine\",\"result\""),
            "the client got {:?}",
            done.text()
        );
        stage.nothing_left()?;
        ended_well(stage)
    })
}
