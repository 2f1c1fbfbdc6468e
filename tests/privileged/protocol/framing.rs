//! Where a message begins and ends: at line ends alone, whatever pieces it comes in.

use anyhow::Result;

use crate::{
    expect::{answer, call},
    greeted,
};

const NOTE: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"é☃😀\u{2028}\u{85}\\n\"}}";

#[test]
fn line_ends_of_windows() -> Result<()> {
    greeted(|duo| {
        duo.client_raw(format!("{}\r\n", call("1")))?;
        let number = duo.takes(call)?;
        duo.server_raw(format!("{}\r\n", answer(&number.to_string())))?;
        duo.client_gets(&answer("1"))?;
        duo.server_raw(format!("{NOTE}\r\n"))?;
        duo.client_gets(NOTE)?;
        duo.works()
    })
}

/// One is part of the line end, others are white space like any.
#[test]
fn a_carriage_return_elsewhere_ends_a_line_to_some_readers() -> Result<()> {
    greeted(|duo| {
        let hidden = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hidden"}}"#;
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":\r{hidden}\r}}");
        duo.client_raw(format!("{line}\n"))?;
        crate::expect::error(&duo.at_client()?, "1", -32700, "form", "json")?;
        duo.server_raw(format!("{line}\n"))?;
        duo.works()
    })
}

#[test]
fn blank_lines_say_nothing() -> Result<()> {
    greeted(|duo| {
        duo.client_raw("\n\r\n\n\n")?;
        duo.server_raw("\n\r\n\n\n")?;
        duo.works()?;
        duo.client_raw(format!("\n{}\r\n\n{}\n\n", call("1"), call("2")))?;
        let (one, two) = (duo.takes(call)?, duo.takes(call)?);
        duo.server_raw(format!(
            "\r\n{}\n\n\n{}\n",
            answer(&two.to_string()),
            answer(&one.to_string())
        ))?;
        duo.client_gets(&answer("2"))?;
        duo.client_gets(&answer("1"))?;
        duo.works()
    })
}

/// A write for each byte, so that characters and escapes come apart too.
#[test]
fn in_as_many_writes_as_bytes() -> Result<()> {
    greeted(|duo| {
        for byte in format!("{NOTE}\n").into_bytes() {
            duo.client_raw([byte])?;
        }
        duo.server_gets(NOTE)?;
        for byte in format!("{NOTE}\n").into_bytes() {
            duo.server_raw([byte])?;
        }
        duo.client_gets(NOTE)?;
        duo.works()
    })
}

/// The pieces are really apart: something else happens in between.
#[test]
fn in_pieces_with_time_between() -> Result<()> {
    greeted(|duo| {
        for at in [1, 10, 62, 63, 64, NOTE.len() - 1, NOTE.len()] {
            let (first, second) = NOTE.as_bytes().split_at(at);
            duo.client_raw(first)?;
            std::thread::sleep(std::time::Duration::from_millis(30));
            duo.client_raw([second, b"\n"].concat())?;
            duo.server_gets(NOTE)?;
            duo.server_raw(first)?;
            duo.deed("pause 30", b"")?;
            duo.server_raw([second, b"\n"].concat())?;
            duo.client_gets(NOTE)?;
        }
        duo.works()
    })
}

#[test]
fn many_in_one_write() -> Result<()> {
    greeted(|duo| {
        let said: String = (0..500).map(|id| call(&id.to_string()) + "\n").collect();
        duo.client_raw(said)?;
        let mut numbers = Vec::new();
        for _ in 0..500 {
            numbers.push(duo.takes(call)?);
        }
        let said: String = numbers
            .iter()
            .map(|number| answer(&number.to_string()) + "\n")
            .collect();
        duo.server_raw(said)?;
        for id in 0..500 {
            duo.client_gets(&answer(&id.to_string()))?;
        }
        duo.works()
    })
}

/// What others take for a line end is part of a text.
#[test]
fn separators_of_unicode_end_no_line() -> Result<()> {
    greeted(|duo| {
        for separator in ["\u{2028}", "\u{2029}", "\u{85}"] {
            let line = |id: &str| {
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"a{separator}b\"}}}}"
                )
            };
            let number = duo.forwarded("1", line)?;
            let said =
                |id: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"a{separator}b\":1}}}}");
            duo.server(said(&number.to_string()))?;
            duo.client_gets(&said("1"))?;
        }
        duo.works()
    })
}

/// A bad line between good ones, all in one write: neither neighbour is lost.
#[test]
fn a_bad_line_among_good_ones() -> Result<()> {
    greeted(|duo| {
        duo.client_raw(format!("{}\nnonsense\n{}\n", call("1"), call("2")))?;
        let (one, two) = (duo.takes(call)?, duo.takes(call)?);
        crate::expect::error(&duo.at_client()?, "null", -32700, "form", "json")?;
        duo.answered(one, "1")?;
        duo.answered(two, "2")?;
        duo.works()
    })
}
