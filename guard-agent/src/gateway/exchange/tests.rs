//! What passes, to the byte, and what does not, with its answer.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Ended, Exchange, Out};
use crate::{
    gateway::protocol::{message::Read, skim::Cut},
    link::message::Exited,
};

impl Exchange {
    fn client(&mut self, text: &[u8]) -> Out {
        self.client_sent(&Read::of(text))
    }

    fn server(&mut self, text: &[u8]) -> Out {
        self.server_sent(&Read::of(text))
    }
}

fn exchange() -> Exchange {
    Exchange::new("files", vec![PathBuf::from("/srv/docs")], None)
}

/// After a greeting in this revision, with what the two sides offer.
fn greeted(version: &str, client: &Value, server: &Value) -> Exchange {
    let mut exchange = exchange();
    let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": client}});
    let out = exchange.client(hello.to_string().as_bytes());
    assert!(!out.to_server.is_empty());
    let answer =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": version, "capabilities": server}});
    let out = exchange.server(answer.to_string().as_bytes());
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
    let out = exchange.client(line.as_bytes());
    assert!(out.to_server.is_empty(), "{line} passed");
    error(&out.to_client)
}

fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

fn is_nothing(out: &Out) -> bool {
    out.to_server.is_empty() && out.to_client.is_empty() && !out.quarantined
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
        assert_eq!(passed(&exchange.client(sent.as_bytes())), expected);
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
        let out = exchange.server(format!("{{\"id\":{number},\"jsonrpc\":\"2.0\"{rest}").as_bytes());
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
    passed(&exchange.client(ping("7").as_bytes()));
    assert_eq!(
        refused(&mut exchange, &ping("7")),
        (json!(7), -32600, "id-in-use".into())
    );
    // Another one, though a careless reader takes it for the same.
    passed(&exchange.client(ping("\"7\"").as_bytes()));
    let answer = br#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    assert_eq!(
        delivered(&exchange.server(answer)),
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#
    );
    assert!(is_nothing(&exchange.server(answer)));
    for id in ["99", "7", "\"x\"", "\"03\"", "-3", "1"] {
        let stray = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert!(is_nothing(&exchange.server(stray.as_bytes())), "{id}");
    }
    passed(&exchange.client(ping("7").as_bytes()));
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
        assert!(is_nothing(&exchange.client(line.as_bytes())), "{line}");
    }
    assert_eq!(exchange.in_flight(), 0);
    passed(&exchange.client(ping("1").as_bytes()));
}

#[test]
fn a_thousand_and_twenty_four_requests_and_no_more() {
    let mut exchange = open();
    for id in 0..1024 {
        passed(&exchange.client(ping(&id.to_string()).as_bytes()));
    }
    assert_eq!(
        refused(&mut exchange, &ping("2000")),
        (json!(2000), -31001, "too-many".into())
    );
    delivered(&exchange.server(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
    passed(&exchange.client(ping("2000").as_bytes()));
}

#[test]
fn a_batch_is_split_where_the_revision_has_it() {
    let batch = format!("[{}, 7 ,{}]", ping("1"), ping("\"b\""));
    let mut exchange = greeted("2025-03-26", &json!({}), &json!({}));
    let out = exchange.client(batch.as_bytes());
    assert_eq!(text(&out.to_server), format!("{}\n{}\n", ping("2"), ping("3")));
    assert_eq!(error(&out.to_client), (json!(null), -32600, "shape".into()));
    assert_eq!(
        refused(&mut exchange, "[ ]"),
        (json!(null), -32600, "batch".into())
    );
    let mixed = format!(
        r#"[{{"jsonrpc":"2.0","id":8,"method":"x","params":{{"a":1,"a":2}}}},{}]"#,
        ping("9")
    );
    let out = exchange.client(mixed.as_bytes());
    assert_eq!(text(&out.to_server), format!("{}\n", ping("4")));
    assert_eq!(error(&out.to_client), (json!(8), -32600, "duplicate-key".into()));
    let many = format!("[{}7]", "7,".repeat(1024));
    assert_eq!(
        refused(&mut exchange, &many),
        (json!(null), -32600, "batch".into())
    );
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
        let out = exchange().client(hello(asked).as_bytes());
        assert_eq!(passed(&out), hello(if passes { asked } else { "2025-11-25" }));
    }
    let mut exchange = exchange();
    passed(&exchange.client(
        br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    ));
    let out = exchange.server(br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2099-01-01"}}"#);
    assert_eq!(
        error(delivered(&out).as_bytes()),
        (json!(1), -32603, "version".into())
    );
    // It may try again.
    passed(&exchange.client(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#));
}

#[test]
fn a_cancelled_request_is_over() {
    let mut exchange = open();
    passed(&exchange.client(ping("\"a\"").as_bytes()));
    let cancel = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"r","requestId":{id}}}}}"#
        )
    };
    assert!(is_nothing(&exchange.client(cancel("\"b\"").as_bytes())));
    assert_eq!(passed(&exchange.client(cancel("\"a\"").as_bytes())), cancel("2"));
    assert!(is_nothing(
        &exchange.server(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#)
    ));
    assert!(is_nothing(&exchange.client(cancel("\"a\"").as_bytes())));
    let mut greeting = self::exchange();
    passed(&greeting.client(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#));
    assert!(is_nothing(&greeting.client(cancel("1").as_bytes())));
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
    passed(&exchange.client(call("1", "\"1\"").as_bytes()));
    assert_eq!(
        delivered(&exchange.server(progress("\"\\u0031\"").as_bytes())),
        progress("\"\\u0031\"")
    );
    assert!(is_nothing(&exchange.server(progress("1").as_bytes())));
    delivered(&exchange.server(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
    assert!(is_nothing(&exchange.server(progress("\"1\"").as_bytes())));
}

#[test]
fn a_server_asks_for_what_the_client_offered() {
    let ask = |id: &str, method: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
    let methods = ["roots/list", "sampling/createMessage", "elicitation/create"];
    let mut closed = open();
    for method in methods.iter().chain(&["tools/call", "vendor/x"]) {
        let out = closed.server(ask("5", method).as_bytes());
        assert!(out.to_client.is_empty(), "{method} passed");
        assert_eq!(error(&out.to_server), (json!(5), -32601, "not-negotiated".into()));
    }
    delivered(&closed.server(ask("5", "ping").as_bytes()));
    let offers = json!({"roots": {}, "sampling": {}, "elicitation": {}});
    let mut opened = greeted("2025-06-18", &offers, &json!({}));
    for (id, method) in methods.iter().enumerate() {
        let line = ask(&format!("\"k{id}\""), method);
        assert_eq!(delivered(&opened.server(line.as_bytes())), line);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":"k{id}","result":{{"n":1.0,"roots":[]}}}}"#);
        assert_eq!(passed(&opened.client(answer.as_bytes())), answer);
        assert!(is_nothing(&opened.client(answer.as_bytes())));
    }
    // Before the greeting is over.
    let out = exchange().server(ask("1", "ping").as_bytes());
    assert_eq!(error(&out.to_server).1, -32601);
    let count = (0..70)
        .filter(|id| {
            !opened
                .server(ask(&id.to_string(), "ping").as_bytes())
                .to_client
                .is_empty()
        })
        .count();
    assert_eq!(count, 64);
}

#[test]
fn the_roots_of_the_client_are_those_of_the_sandbox() {
    let mut exchange = greeted("2025-06-18", &json!({"roots": {}}), &json!({}));
    delivered(&exchange.server(br#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#));
    let answer = br#"{"jsonrpc":"2.0","id":0,"result":{"roots":[{"uri":"file:///home/u"}, {"uri":"file:///srv/docs/a"}],"x":1}}"#;
    assert_eq!(
        passed(&exchange.client(answer)),
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
        let out = exchange.server(line.as_bytes());
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
        assert!(is_nothing(&exchange.server(tell(method).as_bytes())), "{method}");
    }
    let line = tell("notifications/tools/list_changed");
    assert_eq!(delivered(&exchange.server(line.as_bytes())), line);
    let mut own = greeted("2025-06-18", &json!({}), &json!({"experimental": {}}));
    delivered(&own.server(tell("vendor/x").as_bytes()));
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
        passed(&exchange.client(ping("\"p\"").as_bytes()));
        let out = exchange.server(answer.as_bytes());
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
fn an_answer_with_a_flaw_in_it_is_not_waited_for() {
    let mut exchange = greeted("2025-11-25", &json!({"sampling": {}}), &json!({}));
    for (flawed, delivers) in [
        (
            r#"{"result":{"text":"cut \ud83d"},"jsonrpc":"2.0","id":ID}"#,
            true,
        ),
        (r#"{"result":{"number":NaN},"jsonrpc":"2.0","id":ID}"#, false),
        (r#"{"result":{"a":[}},"jsonrpc":"2.0","id":"ID"}"#, false),
        (r#"{"jsonrpc":"2.0","id":ID}"#, false),
        (r#"{"jsonrpc":"2.0","id":ID,"params":{}}"#, false),
    ] {
        passed(&exchange.client(ping("\"p\"").as_bytes()));
        let line = flawed.replace("ID", &exchange.last().to_string());
        let out = exchange.server(line.as_bytes());
        if delivers {
            let expected = r#"{"result":{"text":"cut \ufffd"},"jsonrpc":"2.0","id":"p"}"#;
            assert_eq!(delivered(&out), expected);
        } else {
            assert_eq!(
                error(&out.to_client),
                (json!("p"), -32603, "bad-answer".into()),
                "{line}"
            );
        }
        assert_eq!(exchange.in_flight(), 0, "{line}");
    }
    delivered(&exchange.server(br#"{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage"}"#));
    let out = exchange.client(br#"{"result":{"text":"\ud83d"},"jsonrpc":"2.0","id":5}"#);
    assert_eq!(error(&out.to_server), (json!(5), -32603, "bad-answer".into()));
    assert!(out.to_client.is_empty());
}

#[test]
fn a_second_message_in_a_line_is_none() {
    let mut exchange = open();
    let inner = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}"#;
    let outer = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":\r{inner}\r}}");
    assert_eq!(refused(&mut exchange, &outer).2, "json");
    let out = exchange.server(outer.as_bytes());
    assert!(out.quarantined && out.to_client.is_empty());
}

#[test]
fn a_task_tells_of_its_progress_after_its_answer() {
    let mut exchange = greeted("2025-11-25", &json!({"tasks": {}}), &json!({}));
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"task":{},"_meta":{"progressToken":"t"}}}"#;
    passed(&exchange.client(call.as_bytes()));
    delivered(&exchange.server(br#"{"jsonrpc":"2.0","id":2,"result":{"task":{}}}"#));
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t"}}"#;
    assert_eq!(delivered(&exchange.server(progress.as_bytes())), progress);
    delivered(&exchange.server(br#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#));
}

#[test]
fn a_notification_with_an_id_is_none() {
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(refused(&mut open(), line), (json!(1), -32600, "shape".into()));
}

#[test]
fn what_is_too_long_is_answered_by_its_id() {
    let mut exchange = greeted("2025-06-18", &json!({"roots": {}}), &json!({}));
    let told = |out: &Out| error(&out.to_client);
    let cut = |id: &str, answer: bool| Cut {
        id: (!id.is_empty()).then(|| id.as_bytes().to_vec()),
        answer,
        method: !answer,
        whole: true,
    };
    assert_eq!(
        told(&exchange.client_sent_too_much(&cut("\"x\"", false))),
        (json!("x"), -32600, "too-large".into())
    );
    assert_eq!(
        told(&exchange.client_sent_too_much(&cut("", false))),
        (json!(null), -32600, "too-large".into())
    );
    passed(&exchange.client(ping("4").as_bytes()));
    let out = exchange.server_sent_too_much(&cut("2", true));
    assert_eq!(told(&out), (json!(4), -32603, "answer-too-large".into()));
    assert_eq!((out.quarantined, exchange.in_flight()), (true, 0));
    delivered(&exchange.server(br#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#));
    let out = exchange.client_sent_too_much(&cut("0", true));
    assert_eq!(
        error(&out.to_server),
        (json!(0), -32603, "answer-too-large".into())
    );
    let out = exchange.server_sent_too_much(&cut("9", false));
    assert_eq!(error(&out.to_server), (json!(9), -32600, "too-large".into()));
}

#[test]
fn who_waits_is_told_how_the_server_ended_and_so_is_who_comes_later() {
    let mut exchange = open();
    for id in ["1", "\"b\"", "3"] {
        passed(&exchange.client(ping(id).as_bytes()));
    }
    let exited = Exited {
        reason: "signaled".into(),
        code: None,
        signal: Some(9),
        cause: None,
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
        &exchange.client(br#"{"jsonrpc":"2.0","method":"notifications/x"}"#)
    ));
}

#[test]
fn a_server_that_stopped_reading_may_still_answer_what_it_read() {
    let mut exchange = open();
    passed(&exchange.client(ping("1").as_bytes()));
    let before = exchange.last();
    passed(&exchange.client(ping("2").as_bytes()));
    let out = exchange.deaf(before);
    assert_eq!(error(&out.to_client), (json!(2), -32603, "server-deaf".into()));
    delivered(&exchange.server(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
    assert_eq!(refused(&mut exchange, &ping("3")).2, "server-deaf");
}

#[test]
fn a_subscription_keeps_the_name_its_client_gave_it() {
    let mut exchange = exchange();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let listen =
        format!(r#"{{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{{{meta}}}}}"#);
    assert!(passed(&exchange.client(listen.as_bytes())).contains("\"id\":1,"));
    let told = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    assert_eq!(delivered(&exchange.server(told("1").as_bytes())), told("\"s\""));
    assert!(is_nothing(&exchange.server(told("7").as_bytes())));
    let out = exchange.server(br#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    assert_eq!(error(&out.to_server).1, -32601);
    let end = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    assert_eq!(delivered(&exchange.server(end("1").as_bytes())), end("\"s\""));
}
