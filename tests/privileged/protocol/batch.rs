//! Arrays of messages: one revision has them, and there each member is judged as if it stood alone.

use anyhow::{Result, ensure};

use crate::{
    duo::Duo,
    expect::{self, answer, call},
    greeting::{Greeting, INITIALIZED},
    raw,
};

fn of_march_2025(test: impl FnOnce(&mut Duo) -> Result<()>) -> Result<()> {
    raw(|duo| {
        duo.greet(&Greeting {
            version: "2025-03-26",
            ..Greeting::default()
        })?;
        test(duo)
    })
}

#[test]
fn each_member_is_a_message_of_its_own() -> Result<()> {
    of_march_2025(|duo| {
        let odd = |id: &str| {
            format!(
                r#"{{ "method":"vendor/x","id" : {id}, "jsonrpc":"2.0","params":[1.0, {{"é":"\u00e9"}}] }}"#
            )
        };
        let told = r#"{"jsonrpc":"2.0","method":"vendor/told","params":{"a":1e2}}"#;
        duo.client(format!(" [ {} ,{},\t{told} ] ", call("1"), odd("\"1\"")))?;
        let first = duo.takes(call)?;
        let second = duo.takes(odd)?;
        duo.server_gets(told)?;
        duo.answered(second, "\"1\"")?;
        duo.answered(first, "1")?;
        duo.works()
    })
}

#[test]
fn a_bad_member_spoils_no_good_one() -> Result<()> {
    of_march_2025(|duo| {
        let hidden = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"rm"}}"#;
        let smuggled = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","Method":"tools/call"}"#;
        duo.client(format!("[{},{hidden},{smuggled},{}]", call("1"), call("1")))?;
        let number = duo.takes(call)?;
        expect::error(&duo.at_client()?, "null", -32600, "form", "no-id")?;
        expect::error(&duo.at_client()?, "2", -32600, "form", "look-alike-key")?;
        expect::error(&duo.at_client()?, "1", -32600, "form", "id-in-use")?;
        duo.answered(number, "1")?;
        duo.works()
    })
}

/// Not even one that two readers would read differently: the rule is for it alone.
#[test]
fn a_key_twice_in_one_member() -> Result<()> {
    of_march_2025(|duo| {
        let twice = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"a","name":"b"}}"#;
        duo.client(format!("[{},{twice},{}]", call("1"), call("2")))?;
        let (one, two) = (duo.takes(call)?, duo.takes(call)?);
        expect::error(&duo.at_client()?, "9", -32600, "form", "duplicate-key")?;
        duo.answered(two, "2")?;
        duo.answered(one, "1")?;
        duo.works()
    })
}

#[test]
fn an_empty_one_is_refused() -> Result<()> {
    of_march_2025(|duo| {
        duo.refused("[]", "null", -32600, "batch")?;
        duo.refused(" [ ] ", "null", -32600, "batch")
    })
}

#[test]
fn a_greeting_has_no_place_in_one() -> Result<()> {
    of_march_2025(|duo| {
        duo.client(format!("[{}]", Greeting::default().question("\"in\"")))?;
        let got = duo.at_client()?;
        // Of the member, or of the whole.
        let of_member = expect::error(&got, "\"in\"", -32600, "form", "batch");
        of_member.or_else(|_| expect::error(&got, "null", -32600, "form", "batch"))?;
        duo.works()
    })
}

/// What the server answers is what counts, and until it has answered nothing does.
#[test]
fn none_before_the_revision_is_agreed_on() -> Result<()> {
    raw(|duo| {
        let asked = Greeting {
            version: "2025-03-26",
            ..Greeting::default()
        };
        duo.client(format!("[{}]", call("1")))?;
        expect::error(&duo.at_client()?, "null", -32600, "form", "batch")?;
        let number = duo.forwarded("0", |id| asked.question(id))?;
        duo.client(format!("[{}]", call("1")))?;
        expect::error(&duo.at_client()?, "null", -32600, "form", "batch")?;
        let other = Greeting {
            version: "2024-11-05",
            ..Greeting::default()
        };
        duo.server(other.answer(&number.to_string()))?;
        duo.client_gets(&other.answer("0"))?;
        duo.client(INITIALIZED)?;
        duo.server_gets(INITIALIZED)?;
        duo.refused(format!("[{}]", call("1")), "null", -32600, "batch")
    })
}

/// A server has no arrays to send, whatever the revision.
#[test]
fn the_servers_do_not_pass() -> Result<()> {
    of_march_2025(|duo| {
        let number = duo.call("1")?.to_string();
        let array = format!("[{}]", answer(&number));
        duo.server(&array)?;
        duo.complains(&format!("[puppet] stdout: {array}"))?;
        duo.works()?;
        ensure!(!duo.stderr().contains("panicked"), "{}", duo.stderr());
        // What it says alone still counts.
        duo.server(answer(&number))?;
        duo.client_gets(&answer("1"))
    })
}
