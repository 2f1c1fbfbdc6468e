//! The records themselves: what each says, and in which order they stand.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{asker, call, calls, session};

#[test]
fn a_call_has_a_beginning_and_an_end() -> Result<()> {
    let records = session(|_, duo| {
        let line = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"read_file","arguments":{{"path":"/a b","n":1.10,"big":9007199254740993}}}}}}"#
            )
        };
        let number = duo.forwarded("\"x\"", line)?;
        duo.server(format!(
            r#"{{"jsonrpc":"2.0","id":{number},"result":{{"content":[ ],"n":1e2}}}}"#
        ))?;
        duo.client_gets(r#"{"jsonrpc":"2.0","id":"x","result":{"content":[ ],"n":1e2}}"#)
    })?;
    let begin = call(&records, "1", "begin")?;
    let end = call(&records, "1", "end")?;
    ensure!(begin.seq < end.seq);
    let uid = asker()?;
    for (name, value) in [
        ("method", json!("tools/call")),
        ("tool", json!("read_file")),
        ("origin", json!("gateway")),
        ("server", json!("puppet")),
        (
            "arguments",
            json!(r#"{"path":"/a b","n":1.10,"big":9007199254740993}"#),
        ),
        ("arguments_bytes", json!(47)),
        ("gates", json!([{"gate": "form", "verdict": "allow"}])),
        ("status", Value::Null),
        ("result", Value::Null),
    ] {
        ensure!(begin.body[name] == value, "begin: {name} is {}", begin.body[name]);
    }
    let identity = &begin.body["identity"];
    ensure!(
        ["run", "sudo"].contains(&identity["via"].as_str().unwrap_or_default()),
        "{identity}"
    );
    ensure!(identity["via"] == "sudo" || identity["uid"] == uid, "{identity}");
    ensure!(
        begin.body["flow"] == format!("uid:{}", identity["uid"]),
        "{}",
        begin.body["flow"]
    );
    for (name, value) in [
        ("method", json!("tools/call")),
        ("tool", json!("read_file")),
        ("status", json!("ok")),
        ("result", json!(r#"{"content":[ ],"n":1e2}"#)),
        ("output_bytes", json!(23)),
        ("arguments", Value::Null),
    ] {
        ensure!(end.body[name] == value, "end: {name} is {}", end.body[name]);
    }
    ensure!(end.body["session"] == begin.body["session"]);
    ensure!(end.body["duration_us"].as_u64().is_some_and(|time| time > 0));
    Ok(())
}

#[test]
fn what_is_read_and_what_is_asked_for_are_calls_and_other_requests_are_none() -> Result<()> {
    let records = session(|_, duo| {
        for (method, params) in [
            ("tools/list", "{}"),
            ("resources/read", r#"{"uri":"file:///srv/x"}"#),
            ("prompts/get", r#"{"name":"greet","arguments":{"who":"me"}}"#),
            ("ping", "{}"),
        ] {
            let line =
                |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            let number = duo.forwarded("5", line)?;
            duo.server(format!(
                r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":-7,"message":"no"}}}}"#
            ))?;
            duo.client_gets(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-7,"message":"no"}}"#)?;
        }
        Ok(())
    })?;
    ensure!(calls(&records).len() == 4, "{} records", calls(&records).len());
    let mut told = Vec::new();
    // An end need not stand before the next beginning.
    for (number, phase) in [("1", "begin"), ("1", "end"), ("2", "begin"), ("2", "end")] {
        let body = &call(&records, number, phase)?.body;
        told.push(json!([
            number,
            phase,
            body["method"],
            body["uri"],
            body["prompt"],
            body["arguments"],
            body["error"],
            body["status"]
        ]));
    }
    let error = r#"{"code":-7,"message":"no"}"#;
    let wanted = [
        json!([
            "1",
            "begin",
            "resources/read",
            "file:///srv/x",
            null,
            null,
            null,
            null
        ]),
        json!([
            "1",
            "end",
            "resources/read",
            "file:///srv/x",
            null,
            null,
            error,
            "error"
        ]),
        json!([
            "2",
            "begin",
            "prompts/get",
            null,
            "greet",
            r#"{"who":"me"}"#,
            null,
            null
        ]),
        json!(["2", "end", "prompts/get", null, "greet", null, error, "error"]),
    ];
    ensure!(told == wanted, "{told:#?}");
    Ok(())
}

#[test]
fn a_tool_that_failed_is_an_error_with_its_result() -> Result<()> {
    let records = session(|_, duo| {
        let number = duo.call("1")?;
        let result = r#"{"content":[{"type":"text","text":"disk full"}],"isError":true}"#;
        duo.server(format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{result}}}"#))?;
        duo.at_client().map(drop)
    })?;
    let end = call(&records, "1", "end")?;
    ensure!(end.body["status"] == "error", "{}", end.body);
    ensure!(
        end.body["result"]
            .as_str()
            .is_some_and(|text| text.contains("disk full")),
        "{}",
        end.body
    );
    Ok(())
}

#[test]
fn of_what_is_long_the_length_is_told() -> Result<()> {
    let long = "y".repeat(70_000);
    let records = session(|_, duo| {
        let line = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"put","arguments":{{"a":"{long}"}}}}}}"#
            )
        };
        let number = duo.forwarded("1", line)?;
        duo.server(format!(
            r#"{{"jsonrpc":"2.0","id":{number},"result":{{"t":"{long}"}}}}"#
        ))?;
        duo.at_client().map(drop)
    })?;
    let (begin, end) = (call(&records, "1", "begin")?, call(&records, "1", "end")?);
    ensure!(begin.body["arguments"].is_null() && begin.body["arguments_bytes"] == 70_008);
    ensure!(
        end.body["result"].is_null() && end.body["output_bytes"] == 70_008,
        "{}",
        end.body
    );
    Ok(())
}

/// A client cannot fill the disk with what is refused; every one of them is counted.
#[test]
fn refusals_are_told_and_then_counted() -> Result<()> {
    const MANY: u64 = 3000;
    let records = session(|_, duo| {
        duo.refused(
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/call"}"#,
            "1",
            -32600,
            "jsonrpc",
        )?;
        for _ in 0..MANY {
            duo.client("{")?;
            duo.at_client()?;
        }
        duo.works()
    })?;
    let refused: Vec<&Value> = calls(&records)
        .into_iter()
        .map(|record| &record.body)
        .filter(|body| body["status"] == "denied")
        .collect();
    let rule = |body: &Value| body["gates"][0]["rule"].as_str().map(str::to_owned);
    let first = refused.first().copied().cloned().unwrap_or_default();
    ensure!(
        rule(&first).as_deref() == Some("jsonrpc") && first["call"].is_null(),
        "{first}"
    );
    ensure!(
        first["gates"][0]["gate"] == "form" && first["gates"][0]["verdict"] == "deny",
        "{first}"
    );
    let alike: Vec<&&Value> = refused
        .iter()
        .filter(|body| rule(body).as_deref() == Some("json"))
        .collect();
    let counted: u64 = alike
        .iter()
        .map(|body| {
            body["repeat"].as_u64().map_or(1, |repeat| {
                // The last one has no refusal of its own.
                if body["arguments_bytes"].is_null() {
                    repeat
                } else {
                    repeat + 1
                }
            })
        })
        .sum();
    ensure!(counted == MANY, "{counted} of {MANY} in {} records", alike.len());
    ensure!((65..90).contains(&alike.len()), "{} records", alike.len());
    Ok(())
}
