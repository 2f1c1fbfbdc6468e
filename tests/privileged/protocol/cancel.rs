//! What a client takes back: the server hears of it under its own number, and the client hears no more of the request.

use anyhow::{Context as _, Result};

use crate::{
    ending::doomed,
    expect::{answer, call},
    greeted,
};

fn cancels(id: &str) -> String {
    format!(
        r#"{{ "method":"notifications/cancelled","params":{{"reason":"\u0062ecause 1.0","requestId" : {id},"x":{{"requestId":1}}}},"jsonrpc":"2.0"}}"#
    )
}

#[test]
fn a_request_in_flight() -> Result<()> {
    greeted(|duo| {
        for id in ["1", "\"1\"", r#""\u0061""#, "9007199254740993", "-1"] {
            let number = duo.call(id)?.to_string();
            duo.client(cancels(id))?;
            duo.server_gets(&cancels(&number))?;
            // Servers that answer all the same are not heard.
            duo.server_ignored(answer(&number))
                .with_context(|| id.to_owned())?;
            duo.server_ignored(format!(
                r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":-32800,"message":"cancelled"}}}}"#
            ))?;
        }
        Ok(())
    })
}

/// By value: the client may spell it anew.
#[test]
fn in_another_spelling() -> Result<()> {
    greeted(|duo| {
        let number = duo.call(r#""\u0061""#)?.to_string();
        duo.client(cancels("\"a\""))?;
        duo.server_gets(&cancels(&number))?;
        duo.server_ignored(answer(&number))
    })
}

#[test]
fn what_is_not_in_flight() -> Result<()> {
    greeted(|duo| {
        let number = duo.call("7")?;
        for other in ["\"7\"", "8", "-7", "\"\"", "null", "7.0", "[7]"] {
            duo.client_ignored(cancels(other))
                .with_context(|| other.to_owned())?;
        }
        if number != 7 {
            duo.client_ignored(cancels(&number.to_string()))?;
        }
        for nothing in [
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[7]}"#,
        ] {
            duo.client_ignored(nothing).with_context(|| nothing.to_owned())?;
        }
        // The one in flight never noticed.
        duo.answered(number, "7")?;
        // What is answered is not in flight any more; the greeting never was to be taken back.
        duo.client_ignored(cancels("7"))?;
        duo.client_ignored(cancels("0"))
    })
}

#[test]
fn one_of_many() -> Result<()> {
    greeted(|duo| {
        let numbers = (0..20)
            .map(|id| duo.call(&id.to_string()))
            .collect::<Result<Vec<_>>>()?;
        for id in (0..20).step_by(2) {
            duo.client(cancels(&id.to_string()))?;
            duo.server_gets(&cancels(&numbers[id].to_string()))?;
        }
        let all: String = numbers
            .iter()
            .map(|number| answer(&number.to_string()) + "\n")
            .collect();
        duo.server_raw(all)?;
        for id in (1..20).step_by(2) {
            duo.client_gets(&answer(&id.to_string()))?;
        }
        duo.works()
    })
}

/// It does not wait behind the calls before it, nor for an answer to them.
#[test]
fn at_once_while_others_wait() -> Result<()> {
    doomed(|duo| {
        let mut said = String::new();
        for id in 0..300 {
            said.push_str(&format!("{}\n", call(&id.to_string())));
        }
        said.push_str(&format!("{}\n", cancels("299")));
        duo.client_raw(said)?;
        let mut number = 0;
        for _ in 0..300 {
            number = duo.takes(call)?;
        }
        duo.server_gets(&cancels(&number.to_string()))?;
        duo.deed("crash", b"")
    })
}
