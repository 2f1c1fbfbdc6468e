//! What the trail never holds.

use std::fs;

use anyhow::{Result, ensure};

use crate::{by_policy, call, calls, duo::Duo, greet, on_stage, scope};

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

#[test]
fn secrets_pass_and_are_not_on_record() -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        greet(&mut duo)?;
        let line = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"put","arguments":{{"key":"{KEY}"}}}}}}"#
            )
        };
        // To the byte, both ways: nothing is taken out of what passes.
        let number = duo.forwarded("1", line)?;
        let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"t":"token {TOKEN}"}}}}"#);
        duo.server(answer(&number.to_string()))?;
        duo.client_gets(&answer("1"))?;
        let uri = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/read","params":{{"uri":"https://x/?key={KEY}"}}}}"#
            )
        };
        let number = duo.forwarded("2", uri)?;
        let error = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"no {TOKEN}"}}}}"#)
        };
        duo.server(error(&number.to_string()))?;
        duo.client_gets(&error("2"))?;
        duo.leave()?;
        stage.nothing_left()?;
        for entry in fs::read_dir(stage.audit())? {
            let path = entry?.path();
            if path.is_file() {
                let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
                ensure!(
                    !text.contains(KEY) && !text.contains(TOKEN),
                    "`{}` has one",
                    path.display()
                );
            }
        }
        let records = stage.records()?;
        let (begin, end) = (call(&records, "1", "begin")?, call(&records, "1", "end")?);
        ensure!(
            begin.body["arguments"] == r#"{"key":"[redacted:aws-key]"}"#,
            "{}",
            begin.body
        );
        ensure!(begin.body["redacted"]["aws-key"] == 1, "{}", begin.body);
        ensure!(
            end.body["result"] == r#"{"t":"token [redacted:github-token]"}"#,
            "{}",
            end.body
        );
        let (begin, end) = (call(&records, "2", "begin")?, call(&records, "2", "end")?);
        ensure!(
            begin.body["uri"]
                .as_str()
                .is_some_and(|uri| uri.contains("[redacted:")),
            "{}",
            begin.body
        );
        ensure!(
            end.body["error"]
                .as_str()
                .is_some_and(|text| text.contains("[redacted:")),
            "{}",
            end.body
        );
        Ok(())
    })
}

/// What is denied names what was asked for.
#[test]
fn nor_are_those_of_what_is_denied() -> Result<()> {
    on_stage(|stage| {
        let mut duo = by_policy(stage, &scope::rules(false)?, &[])?;
        greet(&mut duo)?;
        for (method, name) in [
            ("resources/read", "uri"),
            ("prompts/get", "name"),
            ("tools/call", "name"),
        ] {
            duo.client(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"{name}":"https://x/?key={KEY}","arguments":{{"t":"{TOKEN}"}}}}}}"#
            ))?;
            let answer = duo.at_client()?;
            ensure!(answer.contains("unknown"), "{answer}");
        }
        duo.leave()?;
        stage.nothing_left()?;
        let records = stage.records()?;
        let denied = calls(&records);
        ensure!(denied.len() == 3, "{} records", denied.len());
        for record in denied {
            let text = record.body.to_string();
            ensure!(!text.contains(KEY) && !text.contains(TOKEN), "{text}");
            ensure!(text.contains("[redacted:aws-key]"), "{text}");
        }
        Ok(())
    })
}
