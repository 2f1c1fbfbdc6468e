//! What a server may ask of the client: what the client said that it answers, and nothing else.

use anyhow::{Context as _, Result};

use crate::{
    duo::Duo,
    expect, greeted,
    greeting::{Greeting, INITIALIZED},
    raw,
};

fn asks(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"x":1.0}}}}"#)
}

fn says(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":1.0}}}}"#)
}

/// The server hears that nobody answers this, and the client hears nothing.
fn denied(duo: &mut Duo, id: &str, method: &str) -> Result<()> {
    duo.server(asks(id, method))?;
    let got = duo.at_server()?;
    expect::error_to_server(&got, id, -32601).with_context(|| method.to_owned())?;
    duo.works()
}

fn passes(duo: &mut Duo, id: &str, method: &str) -> Result<()> {
    duo.server(asks(id, method))?;
    duo.client_gets(&asks(id, method))
        .with_context(|| method.to_owned())?;
    duo.client(says(id))?;
    duo.server_gets(&says(id))
}

fn with_client(client: &str, test: impl FnOnce(&mut Duo) -> Result<()>) -> Result<()> {
    raw(|duo| {
        duo.greet(&Greeting {
            client,
            version: "2025-11-25",
            ..Greeting::default()
        })?;
        test(duo)
    })
}

const GATED: [(&str, &str); 3] = [
    ("roots", "roots/list"),
    ("sampling", "sampling/createMessage"),
    ("elicitation", "elicitation/create"),
];

#[test]
fn nothing_that_was_not_declared() -> Result<()> {
    with_client("{}", |duo| {
        for (at, (_, method)) in GATED.into_iter().enumerate() {
            denied(duo, &at.to_string(), method)?;
            denied(duo, &format!("\"\\u0073-{at}\""), method)?;
        }
        passes(duo, "1", "ping")
    })
}

#[test]
fn only_what_was_declared() -> Result<()> {
    for (name, allowed) in GATED {
        with_client(&format!(r#"{{"{name}":{{}}}}"#), |duo| {
            for (at, (_, method)) in GATED.into_iter().enumerate() {
                let id = at.to_string();
                if method == "roots/list" && method == allowed {
                    // What the client says of its roots is cut: `roots` tells how.
                    duo.server(asks(&id, method))?;
                    duo.client_gets(&asks(&id, method))?;
                    let nothing = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"roots":[]}}}}"#);
                    duo.client(&nothing)?;
                    duo.server_gets(&nothing)?;
                } else if method == allowed {
                    passes(duo, &id, method)?;
                } else {
                    denied(duo, &id, method)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn nothing_that_a_client_answers_nobody() -> Result<()> {
    with_client(
        r#"{"roots":{},"sampling":{},"elicitation":{},"experimental":{"x":{}}}"#,
        |duo| {
            for method in [
                "tools/call",
                "tools/list",
                "initialize",
                "vendor/ask",
                "roots/List",
                "Roots/list",
                "roots/list ",
                "notifications/cancelled",
                "",
            ] {
                denied(duo, "\"q\"", method)?;
            }
            Ok(())
        },
    )
}

/// Nobody has said yet what it answers.
#[test]
fn nothing_before_the_greeting_is_over() -> Result<()> {
    raw(|duo| {
        let greeting = Greeting {
            client: r#"{"roots":{},"sampling":{},"elicitation":{}}"#,
            ..Greeting::default()
        };
        let refused = |duo: &mut Duo| -> Result<()> {
            for (_, method) in GATED {
                duo.server(asks("1", method))?;
                expect::error_to_server(&duo.at_server()?, "1", -32601)?;
            }
            Ok(())
        };
        refused(duo)?;
        let number = duo.forwarded("0", |id| greeting.question(id))?;
        refused(duo)?;
        duo.server(greeting.answer(&number.to_string()))?;
        duo.client_gets(&greeting.answer("0"))?;
        duo.client(INITIALIZED)?;
        duo.server_gets(INITIALIZED)?;
        passes(duo, "1", "sampling/createMessage")
    })
}

#[test]
fn ids_are_the_servers_to_the_byte() -> Result<()> {
    greeted(|duo| {
        for id in ["0", "-7", "9007199254740993", "\"\"", r#""\u0061""#, "\"1\"", "1"] {
            passes(duo, id, "ping")?;
        }
        // The same as one of the client's in flight is no other's.
        let number = duo.call("1")?;
        passes(duo, "1", "ping")?;
        passes(duo, &number.to_string(), "ping")?;
        duo.answered(number, "1")
    })
}

#[test]
fn an_answer_passes_once() -> Result<()> {
    greeted(|duo| {
        duo.server(asks("5", "ping"))?;
        duo.client_gets(&asks("5", "ping"))?;
        // Another value, or another type.
        for other in ["6", "\"5\"", "-5"] {
            duo.client_ignored(says(other))?;
        }
        duo.client(says("5"))?;
        duo.server_gets(&says("5"))?;
        duo.client_ignored(says("5"))
    })
}

/// The server waits for one, and does not get what two readers would read differently.
#[test]
fn an_answer_that_says_two_things() -> Result<()> {
    greeted(|duo| {
        for answer in [
            r#"{"jsonrpc":"2.0","id":"q","result":{},"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":"q","result":{"a":1,"a":2}}"#,
        ] {
            duo.server(asks("\"q\"", "ping"))?;
            duo.client_gets(&asks("\"q\"", "ping"))?;
            duo.client(answer)?;
            expect::error_to_server(&duo.at_server()?, "\"q\"", -32603)?;
            duo.client_ignored(says("\"q\""))?;
        }
        Ok(())
    })
}

#[test]
fn an_answer_may_be_an_error() -> Result<()> {
    greeted(|duo| {
        duo.server(asks("5", "ping"))?;
        duo.client_gets(&asks("5", "ping"))?;
        let error = r#"{"id":5,"error":{"message":"no","code":-1,"data":1.0},"jsonrpc":"2.0"}"#;
        duo.client(error)?;
        duo.server_gets(error)?;
        duo.works()
    })
}

#[test]
fn no_more_than_64_at_once() -> Result<()> {
    greeted(|duo| {
        for id in 0..64 {
            duo.server(asks(&id.to_string(), "ping"))?;
            duo.client_gets(&asks(&id.to_string(), "ping"))?;
        }
        for id in ["64", "\"one more\""] {
            duo.server(asks(id, "ping"))?;
            expect::error_to_server(&duo.at_server()?, id, -32603)?;
        }
        duo.works()?;
        duo.client(says("63"))?;
        duo.server_gets(&says("63"))?;
        passes(duo, "64", "ping")?;
        for id in 0..63 {
            duo.client(says(&id.to_string()))?;
            duo.server_gets(&says(&id.to_string()))?;
        }
        Ok(())
    })
}
