//! What a server writes to its stdout that is no message: for the log, never for the client.

use anyhow::{Context as _, Result, ensure};

use crate::{duo::Duo, expect::answer, greeted, on_stage, raw};

/// Each line, and what stands for it on our stderr.
fn rubbish() -> Vec<(Vec<u8>, String)> {
    let mut rows: Vec<(Vec<u8>, String)> = [
        ("Server listening on stdio", "Server listening on stdio"),
        ("\u{1b}[32m✓\u{1b}[0m ready", "\\u{1b}[32m✓\\u{1b}[0m ready"),
        ("a\u{202e}b\u{7}", "a\\u{202e}b\\u{7}"),
        ("null", "null"),
        ("17", "17"),
        ("\"text\"", "\"text\""),
        ("[]", "[]"),
        (
            r#"{"level":"info","msg":"started"}"#,
            r#"{"level":"info","msg":"started"}"#,
        ),
        (r#"{"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0"}"#),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/message""#,
            r#"{"jsonrpc":"2.0","method":"notifications/message""#,
        ),
        (
            r#"{"method":"notifications/message","params":{}}"#,
            r#"{"method":"notifications/message","params":{}}"#,
        ),
        (
            r#"[{"jsonrpc":"2.0","method":"notifications/message","params":{}}]"#,
            r#"[{"jsonrpc":"2.0","method":"notifications/message","params":{}}]"#,
        ),
        (
            r#"{"jsonrpc":"2.0","method":7}"#,
            r#"{"jsonrpc":"2.0","method":7}"#,
        ),
        ("Content-Length: 30", "Content-Length: 30"),
    ]
    .iter()
    .map(|(line, shown)| (line.as_bytes().to_vec(), (*shown).to_owned()))
    .collect();
    rows.push((b"caf\xe9 \xff".to_vec(), "caf\u{fffd} \u{fffd}".to_owned()));
    rows
}

#[test]
fn each_goes_to_the_log() -> Result<()> {
    greeted(|duo| {
        for (line, shown) in rubbish() {
            duo.server_ignored(&line).with_context(|| shown.clone())?;
            duo.complains(&format!("[puppet] stdout: {shown}"))?;
        }
        Ok(())
    })
}

/// A mark before a message that is otherwise whole.
#[test]
fn a_byte_order_mark_makes_it_no_message() -> Result<()> {
    greeted(|duo| {
        duo.server_ignored(
            "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}",
        )?;
        duo.complains_of(|said| {
            said.starts_with("[puppet] stdout: ") && said.contains("notifications/message")
        })
    })
}

#[test]
fn a_banner_before_the_greeting() -> Result<()> {
    raw(|duo| {
        duo.server_raw("  ____\n |banner|\nstarting…\n")?;
        duo.greet(&crate::greeting::Greeting::default())?;
        for line in ["  ____", " |banner|", "starting…"] {
            duo.complains(&format!("[puppet] stdout: {line}"))?;
        }
        duo.works()
    })
}

#[test]
fn a_long_one_is_cut() -> Result<()> {
    greeted(|duo| {
        let number = duo.call("1")?;
        duo.server("y".repeat(100_000))?;
        duo.answered(number, "1")?;
        let start = format!("[puppet] stdout: {}", "y".repeat(200));
        // That it goes on may be marked, no more of it be told.
        duo.complains_of(|said| {
            said.strip_prefix(&start)
                .is_some_and(|rest| rest.len() <= 4 && !rest.contains('y'))
        })
    })
}

/// It looks like an answer and is none, so the call is still open.
#[test]
fn half_an_answer() -> Result<()> {
    greeted(|duo| {
        let number = duo.call("1")?;
        let whole = answer(&number.to_string());
        let (first, second) = whole.split_at(30);
        duo.server_ignored(first)?;
        duo.server_ignored(second)?;
        duo.answered(number, "1")
    })
}

/// Between messages, in the same write.
#[test]
fn between_messages() -> Result<()> {
    greeted(|duo| {
        let (one, two) = (duo.call("1")?.to_string(), duo.call("2")?.to_string());
        duo.server_raw(format!(
            "log a\n{}\nlog b\n{}\nlog c\n",
            answer(&two),
            answer(&one)
        ))?;
        duo.client_gets(&answer("2"))?;
        duo.client_gets(&answer("1"))?;
        for line in ["log a", "log b", "log c"] {
            duo.complains(&format!("[puppet] stdout: {line}"))?;
        }
        duo.works()
    })
}

/// A server that says nothing else is not worth waiting for.
#[test]
fn ten_thousand_are_enough() -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        duo.greet(&crate::greeting::Greeting::default())?;
        let some = |count: usize| "n\n".repeat(count);
        duo.server_raw(some(9_990))?;
        duo.works()?;
        duo.call("\"open\"")?;
        duo.server_raw(some(11))?;
        let rest = duo.rest()?;
        ensure!(rest.len() == 1, "the client got {rest:?}");
        let start = r#"{"jsonrpc":"2.0","id":"open","error":{"code":-32603,"message":"guard-agent: "#;
        ensure!(rest[0].starts_with(start), "{}", rest[0]);
        duo.ends()?;
        Ok(())
    })
}
