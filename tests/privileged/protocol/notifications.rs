//! What a server may tell without being asked.

use anyhow::{Context as _, Result};

use crate::{duo::Duo, expect::answer, greeted, greeting::Greeting, raw};

fn told(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"x":1.0}}}}"#)
}

fn progress(token: &str, at: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{at}}}}}"#
    )
}

fn cancelled(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"r"}}}}"#
    )
}

/// A call with a token.
fn call(id: &str, token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"do","_meta":{{"progressToken":{token}}}}}}}"#
    )
}

fn passes(duo: &mut Duo, line: &str) -> Result<()> {
    duo.server(line)?;
    duo.client_gets(line)
}

const KNOWN: [&str; 9] = [
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
    "notifications/elicitation/complete",
    "notifications/tasks/status",
    "notifications/subscriptions/acknowledged",
    "notifications/tasks",
];

const OTHERS: [&str; 7] = [
    "notifications/initialized",
    "notifications/roots/list_changed",
    "notifications/vendor",
    "notifications/Message",
    "vendor/told",
    "tools/call",
    "",
];

#[test]
fn what_is_known_and_nothing_else() -> Result<()> {
    greeted(|duo| {
        for method in KNOWN {
            passes(duo, &told(method))?;
        }
        for method in OTHERS {
            duo.server_ignored(told(method))
                .with_context(|| method.to_owned())?;
        }
        Ok(())
    })
}

/// Who extends the protocol says so.
#[test]
fn others_of_a_server_that_declares_more() -> Result<()> {
    for server in [
        r#"{"tools":{},"experimental":{"vendor":{}}}"#,
        r#"{"extensions":{"com.example/x":{}}}"#,
    ] {
        raw(|duo| {
            duo.greet(&Greeting {
                server,
                ..Greeting::default()
            })?;
            passes(duo, &told("notifications/vendor"))?;
            passes(duo, &told("vendor/told"))?;
            passes(duo, &told("notifications/message"))
        })?;
    }
    Ok(())
}

/// What a client declares gives its server nothing.
#[test]
fn others_when_only_the_client_declares_more() -> Result<()> {
    raw(|duo| {
        duo.greet(&Greeting {
            client: r#"{"experimental":{"x":{}},"extensions":{"y":{}}}"#,
            ..Greeting::default()
        })?;
        duo.server_ignored(told("notifications/vendor"))
    })
}

#[test]
fn progress_of_what_is_in_flight() -> Result<()> {
    greeted(|duo| {
        for token in ["\"t\"", "7", "\"7\"", r#""\u0074\n""#, "9007199254740993", "0"] {
            let number = duo.forwarded("1", |id| call(id, token))?;
            for at in 0..3 {
                passes(duo, &progress(token, at))?;
            }
            duo.answered(number, "1")?;
            duo.server_ignored(progress(token, 3))
                .with_context(|| format!("after the answer, token {token}"))?;
        }
        Ok(())
    })
}

/// A token is a value of a type; how it is spelt is not part of it.
#[test]
fn progress_of_nothing_in_flight() -> Result<()> {
    greeted(|duo| {
        let number = duo.forwarded("\"id\"", |id| call(id, "7"))?;
        for token in [
            "\"7\"",
            "8",
            "\"id\"",
            "-7",
            &number.to_string(),
            "null",
            "true",
            "[7]",
            "\"\"",
        ] {
            if token != "7" {
                duo.server_ignored(progress(token, 1))
                    .with_context(|| format!("token {token}"))?;
            }
        }
        duo.server_ignored(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)?;
        duo.server_ignored(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#)?;
        passes(duo, &progress("7", 1))?;
        duo.answered(number, "\"id\"")?;
        let number = duo.forwarded("1", |id| call(id, r#""\u0061""#))?;
        passes(duo, &progress("\"a\"", 1))?;
        duo.answered(number, "1")
    })
}

/// No word after the answer, none before its turn, all in one write.
#[test]
fn progress_comes_before_its_answer() -> Result<()> {
    greeted(|duo| {
        for round in 0..50 {
            let number = duo.forwarded("1", |id| call(id, "\"t\""))?;
            let mut said = String::new();
            for at in 0..40 {
                said.push_str(&progress("\"t\"", at));
                said.push('\n');
            }
            said.push_str(&answer(&number.to_string()));
            said.push('\n');
            said.push_str(&progress("\"t\"", 40));
            said.push('\n');
            duo.server_raw(said)?;
            for at in 0..40 {
                duo.client_gets(&progress("\"t\"", at))
                    .with_context(|| format!("round {round}"))?;
            }
            duo.client_gets(&answer("1"))?;
        }
        duo.works()
    })
}

#[test]
fn progress_after_a_cancellation() -> Result<()> {
    greeted(|duo| {
        let number = duo.forwarded("1", |id| call(id, "\"t\""))?;
        duo.client(cancelled("1"))?;
        duo.server_gets(&cancelled(&number.to_string()))?;
        duo.server_ignored(progress("\"t\"", 1))
    })
}

/// A server takes back what it asked, and nothing that the client asked.
#[test]
fn a_cancellation_of_the_servers_own() -> Result<()> {
    greeted(|duo| {
        let asked = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        for id in ["5", r#""\u0061""#] {
            passes(duo, &asked(id))?;
            duo.server_ignored(cancelled("\"another\""))?;
            passes(duo, &cancelled(id))?;
        }
        let number = duo.call("9")?;
        duo.server_ignored(cancelled("9"))?;
        duo.server_ignored(cancelled(&number.to_string()))?;
        duo.server_ignored(cancelled("\"5\""))?;
        duo.answered(number, "9")
    })
}
