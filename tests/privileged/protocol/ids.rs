//! Ids: a number of ours at the server, the client's own bytes at the client.

use anyhow::{Result, ensure};

use crate::{
    expect::{answer, call},
    greeted,
};

/// Different values, and spellings that others have been known to change.
fn spellings() -> Vec<String> {
    let mut all: Vec<String> = [
        "1",
        "\"1\"",
        "0",
        "\"0\"",
        "-1",
        "\"-1\"",
        "\"01\"",
        "\"1.0\"",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "\"9007199254740993\"",
        "-9007199254740993",
        "9223372036854775808",
        "18446744073709551616",
        "123456789012345678901234567890",
        "\"\"",
        "\" \"",
        r#""\u0061""#,
        r#""\"quoted\"""#,
        r#""back\\slash""#,
        r#""\/""#,
        r#""\u0000""#,
        r#""\uD83D\ude00""#,
        "\"é\"",
        "\"e\u{301}\"",
        "\"\u{2028}\"",
        "\"null\"",
        "\"[1]\"",
        "\"550e8400-e29b-41d4-a716-446655440000\"",
    ]
    .iter()
    .map(|id| (*id).to_owned())
    .collect();
    // The longest that are taken.
    all.push(format!("\"{}\"", "s".repeat(254)));
    all.push("7".repeat(256));
    all
}

#[test]
fn each_comes_back_as_it_was_spelt() -> Result<()> {
    greeted(|duo| {
        for id in spellings() {
            let number = duo.call(&id)?;
            duo.answered(number, &id)?;
        }
        Ok(())
    })
}

/// All in flight at once, answered from the last to the first: no value is taken for another.
#[test]
fn all_at_once_and_backwards() -> Result<()> {
    greeted(|duo| {
        let ids = spellings();
        let numbers = ids.iter().map(|id| duo.call(id)).collect::<Result<Vec<_>>>()?;
        for (number, id) in numbers.iter().zip(&ids).rev() {
            let said = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{number}}}}}"#);
            duo.server(said(&number.to_string()))?;
            duo.client_gets(&said(id))?;
        }
        Ok(())
    })
}

#[test]
fn one_in_flight_is_not_used_again() -> Result<()> {
    greeted(|duo| {
        for (first, second) in [
            ("1", "1"),
            ("\"1\"", "\"1\""),
            ("\"a\"", r#""\u0061""#),
            (r#""\u0061""#, "\"a\""),
            ("9007199254740993", "9007199254740993"),
            ("\"\"", "\"\""),
        ] {
            let number = duo.call(first)?;
            duo.refused(call(second), second, -32600, "id-in-use")?;
            // The request that had it first is not touched, and then it is free.
            duo.answered(number, first)?;
            let number = duo.call(second)?;
            duo.answered(number, second)?;
        }
        Ok(())
    })
}

#[test]
fn a_number_and_a_text_are_two() -> Result<()> {
    greeted(|duo| {
        let (number, text) = (duo.call("7")?, duo.call("\"7\"")?);
        // Neighbours beyond what a float can tell apart.
        let (low, high) = (duo.call("9007199254740992")?, duo.call("9007199254740993")?);
        duo.answered(text, "\"7\"")?;
        duo.answered(high, "9007199254740993")?;
        duo.answered(number, "7")?;
        duo.answered(low, "9007199254740992")
    })
}

/// Some servers make texts of all ids.
#[test]
fn a_server_may_answer_with_our_number_as_text() -> Result<()> {
    greeted(|duo| {
        for id in ["1", "\"1\"", "\"x\""] {
            let number = duo.call(id)?;
            duo.server(answer(&format!("\"{number}\"")))?;
            duo.client_gets(&answer(id))?;
        }
        Ok(())
    })
}

#[test]
fn the_servers_ids_count_up_whatever_the_clients_do() -> Result<()> {
    greeted(|duo| {
        let mut last = 0;
        for id in ["900", "5", "\"x\"", "-3", "5"] {
            let number = duo.call(id)?;
            ensure!(number > last, "{number} after {last}");
            last = number;
            duo.answered(number, id)?;
        }
        Ok(())
    })
}

#[test]
fn too_long_ones_are_refused() -> Result<()> {
    greeted(|duo| {
        for id in [format!("\"{}\"", "s".repeat(257)), "7".repeat(257)] {
            duo.refused(call(&id), "null", -32600, "id")?;
        }
        Ok(())
    })
}

#[test]
fn no_more_than_1024_at_once() -> Result<()> {
    greeted(|duo| {
        let numbers = (0..1024)
            .map(|id| duo.call(&id.to_string()))
            .collect::<Result<Vec<_>>>()?;
        for id in ["1024", "\"one more\""] {
            duo.client(call(id))?;
            crate::expect::error(&duo.at_client()?, id, -31001, "form", "too-many")?;
        }
        // The first that is answered makes room for one.
        duo.answered(numbers[0], "0")?;
        let late = duo.call("1024")?;
        duo.client(call("1025"))?;
        crate::expect::error(&duo.at_client()?, "1025", -31001, "form", "too-many")?;
        duo.answered(late, "1024")?;
        for (id, number) in numbers.iter().enumerate().skip(1) {
            duo.answered(*number, &id.to_string())?;
        }
        Ok(())
    })
}
