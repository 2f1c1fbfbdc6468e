//! What passes, to the byte, and what does not, with its answer.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Ended, Exchange, Out};
use crate::{gateway::protocol::skim::Cut, link::message::Exited};

fn exchange() -> Exchange {
    Exchange::new("files", vec![PathBuf::from("/srv/docs")])
}

/// After a greeting in this revision, with what the two sides offer.
fn greeted(version: &str, client: &Value, server: &Value) -> Exchange {
    let mut exchange = exchange();
    let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": client}});
    let out = exchange.from_client(hello.to_string().as_bytes());
    assert!(!out.to_server.is_empty());
    let answer =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": version, "capabilities": server}});
    let out = exchange.from_server(answer.to_string().as_bytes());
    assert!(text(&out.to_client).contains("\"hello\""));
    exchange
}

fn open() -> Exchange {
    greeted("2025-06-18", &json!({}), &json!({}))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Passed to the server, and nothing else.
fn passed(out: &Out) -> String {
    assert!(out.to_client.is_empty() && !out.quarantined, "{out:?}");
    text(out.to_server.strip_suffix(b"\n").unwrap())
}

/// Passed to the client, and nothing else.
fn delivered(out: &Out) -> String {
    assert!(out.to_server.is_empty() && !out.quarantined, "{out:?}");
    text(out.to_client.strip_suffix(b"\n").unwrap())
}

/// An error for one side: its id, code and rule.
fn error(line: &[u8]) -> (Value, i64, String) {
    let message: Value = serde_json::from_slice(line).unwrap();
    let error = &message["error"];
    assert!(error["message"].as_str().unwrap().starts_with("guard-agent: "));
    (
        message["id"].clone(),
        error["code"].as_i64().unwrap(),
        error["data"]["rule"].as_str().unwrap().to_owned(),
    )
}

/// The client's line is answered with an error, and the server sees nothing of it.
fn refused(exchange: &mut Exchange, line: &str) -> (Value, i64, String) {
    let out = exchange.from_client(line.as_bytes());
    assert!(out.to_server.is_empty(), "{line} passed");
    error(&out.to_client)
}

fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

fn is_nothing(out: &Out) -> bool {
    *out == Out::default()
}

#[test]
fn an_id_comes_back_as_it_was_written_and_all_other_bytes_pass() {
    let mut exchange = open();
    let ids = ["1", "\"1\"", "\"\\u0061\"", "9007199254740993", "-7", "\"\""];
    for (index, id) in ids.iter().enumerate() {
        let number = index + 2;
        let rest = r#", "method":"tools\/call" ,"params":{"name":"x","n":1.10,"big":12345678901234567890123,"v":{"b":1,"a":null}}, "extra":[ ]}"#;
        let sent = format!("{{ \"jsonrpc\":\"2.0\",\"id\" : {id}{rest}");
        let expected = format!("{{ \"jsonrpc\":\"2.0\",\"id\" : {number}{rest}");
        assert_eq!(passed(&exchange.from_client(sent.as_bytes())), expected);
    }
    assert_eq!(exchange.in_flight(), ids.len());
    // In another order, one with its number in quotes.
    for (index, id) in ids.iter().enumerate().rev() {
        let number = if index == 3 {
            "\"5\"".to_owned()
        } else {
            (index + 2).to_string()
        };
        let rest = r#","result":{"id":1,"x":1e2,"t":"é\u00e9"},"x":0}"#;
        let out = exchange.from_server(format!("{{\"id\":{number},\"jsonrpc\":\"2.0\"{rest}").as_bytes());
        assert_eq!(
            delivered(&out),
            format!("{{\"id\":{id},\"jsonrpc\":\"2.0\"{rest}")
        );
    }
    assert_eq!(exchange.in_flight(), 0);
}

#[test]
fn an_answer_finds_its_request_once() {
    let mut exchange = open();
    passed(&exchange.from_client(ping("7").as_bytes()));
    assert_eq!(
        refused(&mut exchange, &ping("7")),
        (json!(7), -32600, "id-in-use".into())
    );
    // Another one, though a careless reader takes it for the same.
    passed(&exchange.from_client(ping("\"7\"").as_bytes()));
    let answer = br#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    assert_eq!(
        delivered(&exchange.from_server(answer)),
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#
    );
    assert!(is_nothing(&exchange.from_server(answer)));
    for id in ["99", "7", "\"x\"", "\"03\"", "-3", "1"] {
        let stray = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert!(is_nothing(&exchange.from_server(stray.as_bytes())), "{id}");
    }
    passed(&exchange.from_client(ping("7").as_bytes()));
    assert_eq!(exchange.in_flight(), 2);
}

#[test]
fn what_is_refused_costs_the_session_nothing() {
    let mut exchange = open();
    let cases: [(&str, Value, i64, &str); 9] = [
        ("{", json!(null), -32700, "json"),
        ("[]", json!(null), -32600, "batch"),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            json!(null),
            -32600,
            "id",
        ),
        (
            r#"{"jsonrpc":"2.0","id":"k","method":"x","params":{"a":1,"a":2}}"#,
            json!("k"),
            -32600,
            "duplicate-key",
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"x","params":{"URI":1}}"#,
            json!(3),
            -32600,
            "look-alike-key",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{}}"#,
            json!(null),
            -32600,
            "no-id",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"initialize"}"#,
            json!(null),
            -32600,
            "no-id",
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}"#,
            json!(3),
            -32600,
            "initialized-twice",
        ),
        (r#"{"jsonrpc":"2.0","id":3}"#, json!(3), -32600, "shape"),
    ];
    for (line, id, code, rule) in cases {
        assert_eq!(
            refused(&mut exchange, line),
            (id, code, rule.to_owned()),
            "{line}"
        );
    }
    // An answer is not answered, whatever it is.
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ] {
        assert!(is_nothing(&exchange.from_client(line.as_bytes())), "{line}");
    }
    assert_eq!(exchange.in_flight(), 0);
    passed(&exchange.from_client(ping("1").as_bytes()));
}

#[test]
fn a_thousand_and_twenty_four_requests_and_no_more() {
    let mut exchange = open();
    for id in 0..1024 {
        passed(&exchange.from_client(ping(&id.to_string()).as_bytes()));
    }
    assert_eq!(
        refused(&mut exchange, &ping("2000")),
        (json!(2000), -31001, "too-many".into())
    );
    delivered(&exchange.from_server(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
    passed(&exchange.from_client(ping("2000").as_bytes()));
}

#[test]
fn a_batch_is_split_where_the_revision_has_it() {
    let batch = format!("[{}, 7 ,{}]", ping("1"), ping("\"b\""));
    let mut exchange = greeted("2025-03-26", &json!({}), &json!({}));
    let out = exchange.from_client(batch.as_bytes());
    assert_eq!(text(&out.to_server), format!("{}\n{}\n", ping("2"), ping("3")));
    assert_eq!(error(&out.to_client), (json!(null), -32600, "shape".into()));
    assert_eq!(
        refused(&mut exchange, "[ ]"),
        (json!(null), -32600, "batch".into())
    );
    let hidden = r#"[{"jsonrpc":"2.0","id":8,"method":"x","params":{"a":1,"a":2}}]"#;
    assert_eq!(refused(&mut exchange, hidden).2, "batch");
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut exchange = greeted(version, &json!({}), &json!({}));
        assert_eq!(refused(&mut exchange, &batch).2, "batch");
    }
}

#[test]
fn a_version_from_the_future_is_asked_for_as_the_last_one_known() {
    for (asked, passes) in [
        ("2024-11-05", true),
        ("2025-11-25", true),
        ("2026-07-28", false),
        ("2099-01-01", false),
    ] {
        let hello = |version| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{version}"}}}}"#
            )
        };
        let out = exchange().from_client(hello(asked).as_bytes());
        assert_eq!(passed(&out), hello(if passes { asked } else { "2025-11-25" }));
    }
    let mut exchange = exchange();
    passed(&exchange.from_client(
        br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    ));
    let out = exchange.from_server(br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2099-01-01"}}"#);
    assert_eq!(
        error(delivered(&out).as_bytes()),
        (json!(1), -32603, "version".into())
    );
    // It may try again.
    passed(&exchange.from_client(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#));
}

#[test]
fn a_cancelled_request_is_over() {
    let mut exchange = open();
    passed(&exchange.from_client(ping("\"a\"").as_bytes()));
    let cancel = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"r","requestId":{id}}}}}"#
        )
    };
    assert!(is_nothing(&exchange.from_client(cancel("\"b\"").as_bytes())));
    assert_eq!(
        passed(&exchange.from_client(cancel("\"a\"").as_bytes())),
        cancel("2")
    );
    assert!(is_nothing(
        &exchange.from_server(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#)
    ));
    assert!(is_nothing(&exchange.from_client(cancel("\"a\"").as_bytes())));
    let mut greeting = self::exchange();
    passed(&greeting.from_client(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#));
    assert!(is_nothing(&greeting.from_client(cancel("1").as_bytes())));
    assert_eq!(greeting.in_flight(), 1);
}

#[test]
fn progress_is_of_a_request_in_flight() {
    let mut exchange = open();
    let call = |id, token| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"x","_meta":{{"progressToken":{token}}}}}}}"#
        )
    };
    let progress = |token| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        )
    };
    passed(&exchange.from_client(call("1", "\"1\"").as_bytes()));
    assert_eq!(
        delivered(&exchange.from_server(progress("\"\\u0031\"").as_bytes())),
        progress("\"\\u0031\"")
    );
    assert!(is_nothing(&exchange.from_server(progress("1").as_bytes())));
    delivered(&exchange.from_server(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
    assert!(is_nothing(&exchange.from_server(progress("\"1\"").as_bytes())));
}

#[test]
fn a_server_asks_for_what_the_client_offered() {
    let ask = |id: &str, method: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
    let methods = ["roots/list", "sampling/createMessage", "elicitation/create"];
    let mut closed = open();
    for method in methods.iter().chain(&["tools/call", "vendor/x"]) {
        let out = closed.from_server(ask("5", method).as_bytes());
        assert!(out.to_client.is_empty(), "{method} passed");
        assert_eq!(error(&out.to_server), (json!(5), -32601, "not-negotiated".into()));
    }
    delivered(&closed.from_server(ask("5", "ping").as_bytes()));
    let offers = json!({"roots": {}, "sampling": {}, "elicitation": {}});
    let mut opened = greeted("2025-06-18", &offers, &json!({}));
    for (id, method) in methods.iter().enumerate() {
        let line = ask(&format!("\"k{id}\""), method);
        assert_eq!(delivered(&opened.from_server(line.as_bytes())), line);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":"k{id}","result":{{"n":1.0}}}}"#);
        assert_eq!(passed(&opened.from_client(answer.as_bytes())), answer);
        assert!(is_nothing(&opened.from_client(answer.as_bytes())));
    }
    // Before the greeting is over.
    let out = exchange().from_server(ask("1", "ping").as_bytes());
    assert_eq!(error(&out.to_server).1, -32601);
    let count = (0..70)
        .filter(|id| {
            !opened
                .from_server(ask(&id.to_string(), "ping").as_bytes())
                .to_client
                .is_empty()
        })
        .count();
    assert_eq!(count, 64);
}

#[test]
fn the_roots_of_the_client_are_those_of_the_sandbox() {
    let mut exchange = greeted("2025-06-18", &json!({"roots": {}}), &json!({}));
    delivered(&exchange.from_server(br#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#));
    let answer = br#"{"jsonrpc":"2.0","id":0,"result":{"roots":[{"uri":"file:///home/u"}, {"uri":"file:///srv/docs/a"}],"x":1}}"#;
    assert_eq!(
        passed(&exchange.from_client(answer)),
        r#"{"jsonrpc":"2.0","id":0,"result":{"roots":[{"uri":"file:///srv/docs/a"}],"x":1}}"#
    );
}

#[test]
fn what_is_no_message_of_the_server_is_for_the_log() {
    let mut exchange = open();
    for line in [
        "Server listening on stdio",
        "\u{feff}{}",
        "\u{1b}[1m",
        "[]",
        "{\"level\":\"info\"}",
        "7",
    ] {
        let out = exchange.from_server(line.as_bytes());
        assert!(
            out.quarantined && out.to_client.is_empty() && out.to_server.is_empty(),
            "{line}"
        );
    }
    let quiet = [
        "vendor/x",
        "notifications/other",
        "tools/call",
        "notifications/initialized",
    ];
    let tell = |method: &str| format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{}}}}"#);
    for method in quiet {
        assert!(
            is_nothing(&exchange.from_server(tell(method).as_bytes())),
            "{method}"
        );
    }
    let line = tell("notifications/tools/list_changed");
    assert_eq!(delivered(&exchange.from_server(line.as_bytes())), line);
    let mut own = greeted("2025-06-18", &json!({}), &json!({"experimental": {}}));
    delivered(&own.from_server(tell("vendor/x").as_bytes()));
}

#[test]
fn a_malformed_answer_is_the_servers_fault_and_ends_the_waiting() {
    let answers = [
        r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"a":1,"a":2}}"#,
        r#"{"id":2,"result":{}}"#,
    ];
    for answer in answers {
        let mut exchange = open();
        passed(&exchange.from_client(ping("\"p\"").as_bytes()));
        let out = exchange.from_server(answer.as_bytes());
        assert!(out.quarantined);
        assert_eq!(
            error(&out.to_client),
            (json!("p"), -32603, "bad-answer".into()),
            "{answer}"
        );
        assert_eq!(exchange.in_flight(), 0);
    }
}

#[test]
fn what_is_too_long_is_answered_by_its_id() {
    let mut exchange = greeted("2025-06-18", &json!({"roots": {}}), &json!({}));
    let told = |out: &Out| error(&out.to_client);
    let cut = |id: &str, answer: bool| Cut {
        id: (!id.is_empty()).then(|| id.as_bytes().to_vec()),
        answer,
        method: !answer,
    };
    assert_eq!(
        told(&exchange.cut_from_client(&cut("\"x\"", false))),
        (json!("x"), -32600, "too-large".into())
    );
    assert_eq!(
        told(&exchange.cut_from_client(&cut("", false))),
        (json!(null), -32600, "too-large".into())
    );
    passed(&exchange.from_client(ping("4").as_bytes()));
    let out = exchange.cut_from_server(&cut("2", true));
    assert_eq!(told(&out), (json!(4), -32603, "answer-too-large".into()));
    assert_eq!((out.quarantined, exchange.in_flight()), (true, 0));
    delivered(&exchange.from_server(br#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#));
    let out = exchange.cut_from_client(&cut("0", true));
    assert_eq!(
        error(&out.to_server),
        (json!(0), -32603, "answer-too-large".into())
    );
    let out = exchange.cut_from_server(&cut("9", false));
    assert_eq!(error(&out.to_server), (json!(9), -32600, "too-large".into()));
}

#[test]
fn who_waits_is_told_how_the_server_ended_and_so_is_who_comes_later() {
    let mut exchange = open();
    for id in ["1", "\"b\"", "3"] {
        passed(&exchange.from_client(ping(id).as_bytes()));
    }
    let exited = Exited {
        reason: "signaled".into(),
        code: None,
        signal: Some(9),
        refused: Vec::new(),
    };
    let out = exchange.end(Ended::Server(Some(exited)));
    let lines: Vec<Value> = text(&out.to_client)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: Vec<&Value> = lines.iter().map(|line| &line["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!("b"), &json!(3)]);
    assert_eq!(
        lines[0]["error"],
        json!({"code": -32603, "message": "guard-agent: server \"files\" ended before it answered",
            "data": {"gate": "execution", "rule": "server-ended", "reason": "signaled", "signal": 9}})
    );
    assert_eq!(exchange.in_flight(), 0);
    assert_eq!(
        refused(&mut exchange, &ping("4")),
        (json!(4), -32603, "server-ended".into())
    );
    assert!(is_nothing(
        &exchange.from_client(br#"{"jsonrpc":"2.0","method":"notifications/x"}"#)
    ));
}

#[test]
fn a_server_that_stopped_reading_may_still_answer_what_it_read() {
    let mut exchange = open();
    passed(&exchange.from_client(ping("1").as_bytes()));
    let before = exchange.last();
    passed(&exchange.from_client(ping("2").as_bytes()));
    let out = exchange.deaf(before);
    assert_eq!(error(&out.to_client), (json!(2), -32603, "server-deaf".into()));
    delivered(&exchange.from_server(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
    assert_eq!(refused(&mut exchange, &ping("3")).2, "server-deaf");
}

#[test]
fn a_subscription_keeps_the_name_its_client_gave_it() {
    let mut exchange = exchange();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let listen =
        format!(r#"{{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{{{meta}}}}}"#);
    assert!(passed(&exchange.from_client(listen.as_bytes())).contains("\"id\":1,"));
    let told = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    assert_eq!(
        delivered(&exchange.from_server(told("1").as_bytes())),
        told("\"s\"")
    );
    assert!(is_nothing(&exchange.from_server(told("7").as_bytes())));
    let out = exchange.from_server(br#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    assert_eq!(error(&out.to_server).1, -32601);
    let end = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    assert_eq!(
        delivered(&exchange.from_server(end("1").as_bytes())),
        end("\"s\"")
    );
}
