//! What a server answers: to the request it is for, once, in a shape a client can read.

use anyhow::{Context as _, Result};

use crate::{
    ending::doomed,
    expect::{self, answer},
    greeted,
};

#[test]
fn to_nobodys_question() -> Result<()> {
    greeted(|duo| {
        let number = duo.call("1")?;
        let unknown = (number + 1).to_string();
        for id in [
            unknown.as_str(),
            "0",
            "-1",
            "4294967296",
            "\"x\"",
            "\"\"",
            "null",
            "18446744073709551616",
            &format!("{number}.0"),
            &format!("{number}e0"),
            &format!("\"{number}.0\""),
            &format!("\" {number}\""),
            &format!("\"0{number}\""),
            &format!("[{number}]"),
        ] {
            duo.server_ignored(answer(id))
                .with_context(|| format!("with id {id}"))?;
        }
        let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#;
        duo.server_ignored(refusal)?;
        duo.answered(number, "1")
    })
}

#[test]
fn a_second_time() -> Result<()> {
    greeted(|duo| {
        let number = duo.call("1")?;
        duo.answered(number, "1")?;
        for again in [
            answer(&number.to_string()),
            answer(&format!("\"{number}\"")),
            format!(r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":1,"message":"late"}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":{number},"result":1,"error":2}}"#),
        ] {
            duo.server_ignored(&again).with_context(|| again.clone())?;
        }
        // The client's id is free, and the old number does not answer the new request.
        let next = duo.call("1")?;
        duo.server_ignored(answer(&number.to_string()))?;
        duo.answered(next, "1")
    })
}

/// The client is told, once, and waits for nothing.
#[test]
fn in_a_shape_that_says_two_things_or_none() -> Result<()> {
    greeted(|duo| {
        for shape in [
            r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"m"},"result":null}"#,
            r#"{"jsonrpc":"2.0","id":ID,"result":1,"result":2}"#,
            r#"{"jsonrpc":"2.0","id":ID,"result":1,"re\u0073ult":2}"#,
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],"content":[{"type":"text","text":"x"}]}}"#,
            r#"{"jsonrpc":"2.0","id":ID,"result":{"a":[{"b":{"c":1,"\u0063":2}}]}}"#,
            r#"{"jsonrpc":"2.0","id":ID}"#,
            r#"{"jsonrpc":"2.0","id":ID,"params":{}}"#,
            r#"{"id":ID,"result":{}}"#,
            r#"{"jsonrpc":"1.0","id":ID,"result":{}}"#,
        ] {
            let number = duo.call("\"\\u0031\"")?.to_string();
            let line = shape.replace("ID", &number);
            duo.server(&line)?;
            let got = duo.at_client()?;
            expect::error(&got, "\"\\u0031\"", -32603, "form", "bad-answer").with_context(|| line.clone())?;
            // It is answered: what comes later is late.
            duo.server_ignored(answer(&number)).with_context(|| line)?;
        }
        Ok(())
    })
}

#[test]
fn an_id_twice_answers_nobody_wrongly() -> Result<()> {
    doomed(|duo| {
        let (one, two) = (duo.call("1")?, duo.call("2")?);
        duo.server(format!(
            r#"{{"jsonrpc":"2.0","id":{one},"id":{two},"result":{{}}}}"#
        ))?;
        // Whether it is told to somebody or not, nobody gets the result.
        duo.server(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#,
        )?;
        loop {
            let got = duo.at_client()?;
            if got.contains("notifications/message") {
                break;
            }
            let error = expect::error(&got, "1", -32603, "form", "bad-answer");
            error.or_else(|_| expect::error(&got, "2", -32603, "form", "bad-answer"))?;
        }
        duo.works()?;
        duo.client_closes();
        Ok(())
    })
}

#[test]
fn each_once_in_the_order_of_the_server() -> Result<()> {
    greeted(|duo| {
        let numbers = (0..200)
            .map(|id| duo.call(&id.to_string()))
            .collect::<Result<Vec<_>>>()?;
        let (mut said, mut wanted) = (String::new(), Vec::new());
        for (id, number) in numbers.iter().enumerate().rev() {
            // A word between answers stays between them.
            let note = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{id}}}}}"#
            );
            said.push_str(&format!("{}\n{note}\n", answer(&number.to_string())));
            wanted.extend([answer(&id.to_string()), note]);
        }
        duo.server_raw(said)?;
        for line in wanted {
            duo.client_gets(&line)?;
        }
        duo.works()
    })
}
