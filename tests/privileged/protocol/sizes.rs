//! How long a message may be, and that what is longer costs neither memory nor the session.

use anyhow::{Context as _, Result, ensure};

use crate::{
    duo::Duo,
    expect::{self, answer},
    greeted,
};

/// The longest message, without its line end.
const LIMIT: usize = 8 << 20;

/// So much longer that its end lies beyond what is kept.
const FAR: usize = 1000;

/// What the gateway may need for a line that is too long, KiB: some copies of the longest that is taken.
const ROOM: u64 = 40 << 10;

/// A call of this many bytes.
fn call(id: &str, length: usize) -> String {
    let (start, end) = (
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"do","arguments":{{"v":""#
        ),
        r#""}}}"#,
    );
    format!("{start}{}{end}", "v".repeat(length - start.len() - end.len()))
}

/// The same with its id after everything else.
fn call_id_last(id: &str, length: usize) -> String {
    let (start, end) = (
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"do","arguments":{"v":""#,
        format!(r#""}}}},"id":{id}}}"#),
    );
    format!("{start}{}{end}", "v".repeat(length - start.len() - end.len()))
}

fn said(id: &str, length: usize) -> String {
    let (start, end) = (
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"v":""#),
        r#""}}"#,
    );
    format!("{start}{}{end}", "r".repeat(length - start.len() - end.len()))
}

fn said_id_last(id: &str, length: usize) -> String {
    let (start, end) = (
        r#"{"jsonrpc":"2.0","result":{"v":""#,
        format!(r#""}},"id":{id}}}"#),
    );
    format!("{start}{}{end}", "r".repeat(length - start.len() - end.len()))
}

/// Both ways, with the id as wide at either end.
fn there_and_back(duo: &mut Duo, length: usize) -> Result<()> {
    let id = "\"size\"";
    let text = call(id, length);
    duo.client(&text)?;
    let (head, tail) = text.split_once(id).context("the id is in it")?;
    let number = duo.takes(|id| format!("{head}{id}{tail}"))?.to_string();
    let text = said(&number, length);
    ensure!(text.len() == length, "{} of {length} bytes", text.len());
    duo.server(&text)?;
    let (head, tail) = text
        .split_once(&format!("\"id\":{number}"))
        .context("the id is in it")?;
    duo.client_gets(&format!("{head}\"id\":{id}{tail}"))
}

#[test]
fn lengths_at_which_others_break() -> Result<()> {
    greeted(|duo| {
        for around in [1 << 12, 1 << 13, 1 << 16, 1 << 20] {
            for length in [around - 1, around, around + 1] {
                there_and_back(duo, length).with_context(|| format!("of {length} bytes"))?;
            }
        }
        duo.works()
    })
}

#[test]
fn the_longest_passes() -> Result<()> {
    greeted(|duo| {
        for length in [LIMIT - 1, LIMIT] {
            there_and_back(duo, length).with_context(|| format!("of {length} bytes"))?;
        }
        // The line end does not count, in either spelling.
        let id = "\"windows\"";
        let text = call(id, LIMIT);
        duo.client_raw(format!("{text}\r\n"))?;
        let (head, tail) = text.split_once(id).context("the id is in it")?;
        let number = duo.takes(|id| format!("{head}{id}{tail}"))?;
        duo.answered(number, id)?;
        duo.works()
    })
}

#[test]
fn one_more_byte_of_a_client_is_refused() -> Result<()> {
    greeted(|duo| {
        for id in ["7", "\"\\u0061\""] {
            duo.refused(call(id, LIMIT + 1), id, -32600, "too-large")?;
            duo.refused(call_id_last(id, LIMIT + FAR), id, -32600, "too-large")?;
        }
        // An id that is none, or two, or somebody else's.
        let long = "y".repeat(LIMIT);
        for start in [
            r#""id":1.0,"#,
            r#""id":null,"#,
            r#""id":7,"id":8,"#,
            r#""id":7,"\u0069d":7,"#,
            r#""x":{"id":7},"#,
            r#""x":"\"id\":7,","#,
            "",
        ] {
            let line = format!(
                r#"{{{start}"jsonrpc":"2.0","method":"tools/call","params":{{"id":7,"y":"{long}"}}}}"#
            );
            duo.refused(line, "null", -32600, "too-large")
                .with_context(|| start.to_owned())?;
        }
        let (start, end) = (
            &b"{\"id\":\"\xff\",\"jsonrpc\":\"2.0\",\"method\":\""[..],
            &b"\"}"[..],
        );
        duo.refused(
            [start, long.as_bytes(), end].concat(),
            "null",
            -32600,
            "too-large",
        )?;
        // No message of its own is made of the rest.
        let hidden = format!("{}{}", "x".repeat(LIMIT + 1), expect::call("\"hidden\""));
        duo.refused(hidden, "null", -32600, "too-large")?;
        duo.refused(call("7", 3 * LIMIT), "7", -32600, "too-large")?;
        duo.works()
    })
}

#[test]
fn one_more_byte_of_a_server_is_an_error() -> Result<()> {
    greeted(|duo| {
        for length in [LIMIT + 1, 3 * LIMIT] {
            let number = duo.call("\"\\u0061\"")?.to_string();
            duo.server(said(&number, length))?;
            expect::error(
                &duo.at_client()?,
                "\"\\u0061\"",
                -32603,
                "form",
                "answer-too-large",
            )?;
            duo.server_ignored(answer(&number))?;
        }
        // Whose it is may stand at the very end.
        let (one, two) = (duo.call("1")?, duo.call("2")?);
        duo.server(said_id_last(&two.to_string(), LIMIT + FAR))?;
        expect::error(&duo.at_client()?, "2", -32603, "form", "answer-too-large")?;
        duo.answered(one, "1")?;
        duo.server_ignored(said_id_last(&one.to_string(), LIMIT + FAR))
    })
}

/// What is no answer ends no request, not even the only one.
#[test]
fn something_else_that_is_too_long() -> Result<()> {
    greeted(|duo| {
        let number = duo.call("1")?;
        let note = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{}"}}}}"#,
            "n".repeat(LIMIT)
        );
        duo.server(note)?;
        // The next that the client gets: there is no other request that could take the blame.
        let next = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"next"}}"#;
        duo.server(next)?;
        duo.client_gets(next)?;
        let number_text = number.to_string();
        let question = format!(
            r#"{{"jsonrpc":"2.0","id":{number_text},"method":"ping","params":{{"data":"{}"}}}}"#,
            "n".repeat(LIMIT)
        );
        duo.server(question)?;
        expect::error_to_server(&duo.at_server()?, &number_text, -32600)?;
        duo.server("x".repeat(2 * LIMIT))?;
        duo.server(next)?;
        duo.client_gets(next)?;
        duo.answered(number, "1")
    })
}

fn grew(duo: &Duo, before: u64) -> Result<()> {
    let after = duo.peak()?;
    eprintln!("most memory of the gateway, KiB: {before} -> {after}");
    ensure!(
        after < before + ROOM,
        "the gateway's memory grew from {before} to {after} KiB"
    );
    Ok(())
}

#[test]
fn a_client_that_ends_no_line() -> Result<()> {
    greeted(|duo| {
        let before = duo.peak()?;
        for _ in 0..96 {
            duo.client_raw(vec![b'x'; 1 << 20])?;
        }
        duo.refused("", "null", -32600, "too-large")?;
        grew(duo, before)
    })
}

#[test]
fn a_server_that_ends_no_line() -> Result<()> {
    greeted(|duo| {
        let before = duo.peak()?;
        duo.deed(&format!("fill {}", 96 << 20), b"")?;
        duo.server_ignored("")?;
        let number = duo.call("1")?;
        duo.server_raw(format!(r#"{{"jsonrpc":"2.0","id":{number},"result":""#))?;
        duo.deed(&format!("fill {}", 96 << 20), b"")?;
        duo.server("\"}")?;
        expect::error(&duo.at_client()?, "1", -32603, "form", "answer-too-large")?;
        duo.works()?;
        grew(duo, before)
    })
}
