//! What a client may not say: each has its code, its id, its rule; nothing of it reaches the server.

use anyhow::{Context as _, Result};

use crate::{duo::Duo, expect, greeted, raw};

const PARSE: i32 = -32700;
pub(crate) const INVALID: i32 = -32600;

/// Each row is a line, and the id of its error.
pub(crate) fn all(duo: &mut Duo, rule: &str, code: i32, rows: &[(&str, &str)]) -> Result<()> {
    for (line, id) in rows {
        duo.refused(line, id, code, rule)
            .with_context(|| format!("of {:?}", expect::clipped(line)))?;
    }
    Ok(())
}

#[test]
fn what_is_no_json() -> Result<()> {
    let mut lines: Vec<Vec<u8>> = [
        "tools/list",
        "{",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list""#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list",}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"} x"#,
        r"{'jsonrpc':'2.0','id':1,'method':'tools/list'}",
        r#"{jsonrpc:"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"/* no */}"#,
        r#"{"jsonrpc":"2.0","id":01,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":+1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":0x1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":.5}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":1.}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":NaN}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":Infinity}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":-Infinity}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":nul}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":[1,]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":"\x41"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":"\u12"}}"#,
        // Halves of a pair, alone, in the wrong order, in a key, in an id.
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":"\ud800"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":"\udc00"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":"\ude00\ud83d"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":"\ud83dx\ude00"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"\ud800":1}}"#,
        r#"{"jsonrpc":"2.0","id":"\ud800","method":"tools/call"}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"n\":\"a\tb\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"n\":\"a\0b\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"n\":\"a\rb\"}}",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\u{a0}\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\u{b}\"method\":\"tools/list\"}",
        "\0",
        "GET / HTTP/1.1",
        "Content-Length: 45",
    ]
    .iter()
    .map(|line| line.as_bytes().to_vec())
    .collect();
    for bad in [
        &b"\xff"[..],
        b"\xc3",
        b"\xc3(",
        b"\xe2\x82",
        // An overlong slash, a surrogate, beyond the last character.
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
    ] {
        let (start, end) = (
            &br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":""#[..],
            &br#""}}"#[..],
        );
        lines.push([start, bad, end].concat());
    }
    for depth in [140, 100_000] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{{"n":{open}{close}}}}}}}"#
        );
        lines.push(line.into_bytes());
    }
    greeted(|duo| {
        for line in &lines {
            // With the id where that is certain, so that nobody waits for it.
            let answered = |duo: &mut Duo| {
                duo.client(line)?;
                let error = duo.at_client()?;
                expect::error(&error, "1", PARSE, "form", "json")
                    .or_else(|_| expect::error(&error, "null", PARSE, "form", "json"))?;
                duo.works()
            };
            answered(duo).with_context(|| format!("of {:?}", expect::clipped(line)))?;
        }
        Ok(())
    })
}

#[test]
fn what_is_no_object() -> Result<()> {
    greeted(|duo| {
        let batch = [
            ("[]", "null"),
            ("[1]", "null"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#, "null"),
            (r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#, "null"),
        ];
        all(duo, "batch", INVALID, &batch)?;
        let shape = [
            ("1", "null"),
            ("\"tools/list\"", "null"),
            ("null", "null"),
            ("true", "null"),
            ("-1.5e3", "null"),
        ];
        all(duo, "shape", INVALID, &shape)
    })
}

#[test]
fn another_jsonrpc() -> Result<()> {
    greeted(|duo| {
        let rows = [
            (r#"{"id":1,"method":"tools/list"}"#, "1"),
            (r#"{"jsonrpc":"1.0","id":"x","method":"tools/list"}"#, "\"x\""),
            (r#"{"jsonrpc":"2","id":1,"method":"tools/list"}"#, "1"),
            (r#"{"jsonrpc":2.0,"id":1,"method":"tools/list"}"#, "1"),
            (r#"{"jsonrpc":null,"id":1,"method":"tools/list"}"#, "1"),
            (r#"{"jsonrpc":"2.0 ","id":-1,"method":"tools/list"}"#, "-1"),
            (r#"{"method":"notifications/x"}"#, "null"),
        ];
        all(duo, "jsonrpc", INVALID, &rows)
    })
}

#[test]
fn an_id_that_is_none() -> Result<()> {
    greeted(|duo| {
        for id in [
            "null",
            "1.0",
            "1.5",
            "1e3",
            "1E3",
            "-1e0",
            "true",
            "false",
            "{}",
            "[]",
            "[1]",
            r#"{"id":1}"#,
        ] {
            for method in ["tools/call", "notifications/initialized"] {
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
                duo.refused(&line, "null", INVALID, "id")
                    .with_context(|| line.clone())?;
            }
        }
        Ok(())
    })
}

#[test]
fn a_message_of_no_shape() -> Result<()> {
    greeted(|duo| {
        let rows = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","error":{"code":1,"message":"x"}}"#,
                "1",
            ),
            (r#"{"jsonrpc":"2.0","id":"s"}"#, "\"s\""),
            (r#"{"jsonrpc":"2.0"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":1,"params":{}}"#, "1"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":1}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"x"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":true}"#,
                "1",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, "1"),
            (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, "1"),
        ];
        all(duo, "shape", INVALID, &rows)
    })
}

/// A server that acts on what it need not answer would act unseen.
#[test]
fn a_request_without_an_id() -> Result<()> {
    greeted(|duo| {
        for method in [
            "initialize",
            "ping",
            "tools/list",
            "tools/call",
            r"tools\/call",
            r"\u0074ools/call",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
            "tasks/get",
            "tasks/result",
            "tasks/list",
            "tasks/cancel",
            "tasks/update",
            "server/discover",
            "subscriptions/listen",
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"name":"do"}}}}"#);
            duo.refused(&line, "null", INVALID, "no-id")
                .with_context(|| line.clone())?;
        }
        Ok(())
    })
}

/// Nothing is open, so nothing is answered.
#[test]
fn an_answer_nobody_waits_for_goes_nowhere() -> Result<()> {
    greeted(|duo| {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#,
        ] {
            duo.client_ignored(line).with_context(|| line.to_owned())?;
        }
        Ok(())
    })
}

/// The rules hold before a greeting as after it.
#[test]
fn before_any_greeting() -> Result<()> {
    raw(|duo| {
        let rows = [
            ("nonsense", "null", PARSE, "json"),
            ("[]", "null", INVALID, "batch"),
            (
                r#"{"jsonrpc":"2.0","method":"initialize"}"#,
                "null",
                INVALID,
                "no-id",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.0,"method":"initialize"}"#,
                "null",
                INVALID,
                "id",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"Method":"x","method":"initialize"}"#,
                "1",
                INVALID,
                "look-alike-key",
            ),
        ];
        for (line, id, code, rule) in rows {
            duo.client(line)?;
            expect::error(&duo.at_client()?, id, code, "form", rule).with_context(|| line.to_owned())?;
        }
        duo.greet(&crate::greeting::Greeting::default())?;
        duo.works()
    })
}
