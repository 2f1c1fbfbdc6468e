//! Everything but the id passes as it was written, in both directions.

use anyhow::Result;

use crate::{duo::Duo, greeted, greeting::Greeting, raw};

/// JSON values that a parser and a printer would not leave alone.
fn values() -> Vec<String> {
    let mut values: Vec<String> = [
        r#"{"z":1,"a":2,"m":{"b":[],"a":{}}}"#,
        "{ \"a\" : 1 ,\t\"b\":[ 1 , 2 ] , \"c\" : { } }",
        "[1.0,1.10,1e2,1E+2,1e-07,-0,-0.0,0.1e1,12345678901234567890123,1.7976931348623157e309]",
        "[9007199254740993,-9223372036854775809,18446744073709551616,0.30000000000000004]",
        r#"["\/","\u00e9","é","\u0041","\uD83D\uDE00","😀","\b\f\n\r\t","\"\\"]"#,
        r#"{"\u006eame":"\u0000","":1,"__proto__":2,"constructor":null}"#,
        "[\"\u{2028}\",\"\u{2029}\",\"\u{85}\",\"\u{feff}\",\"\u{202e}\",\"\u{7f}\",\"\u{fffe}\"]",
        r#"{"nested":{"name":1,"Name":2,"NAME":3,"name\u0000":4,"na\u017fme":5,"method":6,"Method":7}}"#,
        "[null,true,false,[],{},\"\",[[[[[[]]]]]]]",
        "\"text\"",
    ]
    .iter()
    .map(|value| (*value).to_owned())
    .collect();
    // Deep, but not too deep.
    values.push(format!("{}{}", "[".repeat(110), "]".repeat(110)));
    values
}

/// Whole requests with the id where it likes to be.
fn requests(id: &str) -> Vec<String> {
    let mut lines = vec![
        format!(r#"{{"id":{id},"jsonrpc":"2.0","method":"tools/list"}}"#),
        format!(r#"{{"method":"tools/list","jsonrpc":"2.0","id":{id}}}"#),
        format!(
            "  {{ \"jsonrpc\"\t: \"2.0\" , \"id\" :  {id}\t, \"method\" : \"tools/list\" , \"params\" : {{ }} }}  "
        ),
        format!(r#"{{"jsonrpc":"2.0","\u0069d":{id},"\u006dethod":"tools\/call","params":{{"name":"x"}}}}"#),
        format!(
            r#"{{"jsonrpc":"\u0032.0","id":{id},"method":"vendor/do","params":[1,{{"id":5}},"x"],"x-extra":{{"id":6}}}}"#
        ),
        format!(
            r#"{{"vendor":{{"id":1,"method":"x"}},"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"n","arguments":{{"id":2}},"_meta":{{"a/b":1}},"vendor":3}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/read","params":{{"uri":"file:///%41?x=\u0026"}}}}"#
        ),
    ];
    lines.extend(values().into_iter().map(|value| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"arguments":{{"v":{value}}},"name":"x"}}}}"#)
    }));
    lines
}

fn responses(id: &str) -> Vec<String> {
    let mut lines = vec![
        format!(r#"{{"id":{id},"jsonrpc":"2.0","result":{{}}}}"#),
        format!(r#"{{"result":{{"id":9}},"id":{id},"jsonrpc":"2.0"}}"#),
        format!("\t{{ \"id\" : {id} , \"result\" : null , \"jsonrpc\" : \"2.0\" }} "),
        format!(r#"{{"jsonrpc":"2.0","\u0069d":{id},"vendorField":{{"id":1}},"result":[1.0]}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32042,"message":"\u0061 ","data":{{"n":1.50}},"x":[]}}}}"#
        ),
        format!(r#"{{"error":{{"message":"m","code":-1}},"jsonrpc":"2.0","id":{id}}}"#),
    ];
    lines.extend(
        values()
            .into_iter()
            .map(|value| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"structuredContent":{{"v":{value}}},"isError":false}}}}"#)),
    );
    lines
}

#[test]
fn of_requests() -> Result<()> {
    greeted(|duo| {
        for at in 0..requests("0").len() {
            let id = format!("\"r-{at}\"");
            let number = duo.forwarded(&id, |id| requests(id).swap_remove(at))?;
            duo.answered(number, &id)?;
        }
        Ok(())
    })
}

#[test]
fn of_answers() -> Result<()> {
    greeted(|duo| {
        for at in 0..responses("0").len() {
            let id = format!("\"\\u0072-{at}\"");
            let number = duo.call(&id)?.to_string();
            duo.server(responses(&number).swap_remove(at))?;
            duo.client_gets(&responses(&id).swap_remove(at))?;
        }
        Ok(())
    })
}

#[test]
fn of_the_clients_notifications() -> Result<()> {
    greeted(|duo| {
        let mut lines = vec![
            r#"{ "method" : "notifications/roots/list_changed", "jsonrpc":"2.0" }"#.to_owned(),
            r#"{"jsonrpc":"2.0","method":"vendor/told","params":[1.0],"x":{"id":1}}"#.to_owned(),
        ];
        lines.extend(values().iter().map(|value| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/vendor","params":{{"v":{value}}}}}"#)
        }));
        for line in lines {
            duo.client(&line)?;
            duo.server_gets(&line)?;
        }
        duo.works()
    })
}

#[test]
fn of_the_servers_notifications() -> Result<()> {
    greeted(|duo| {
        for value in values() {
            let line = format!(
                r#"{{"params":{{"level":"info", "data":{value}}},"x":1.0,"method":"notifications\/message" ,"jsonrpc":"2.0"}}"#
            );
            duo.server(&line)?;
            duo.client_gets(&line)?;
        }
        duo.works()
    })
}

/// What the server asks and what the client answers, with ids of the server's spelling.
#[test]
fn of_the_servers_questions_and_their_answers() -> Result<()> {
    let greeting = Greeting {
        client: r#"{"sampling":{},"elicitation":{}}"#,
        ..Greeting::default()
    };
    raw(|duo: &mut Duo| {
        duo.greet(&greeting)?;
        for (at, value) in values().into_iter().enumerate() {
            let id = [
                format!("\"\\u0073-{at}\""),
                format!("{}", 9_007_199_254_740_993 + at as u64),
            ];
            for id in id {
                let line = format!(
                    r#"{{"params": {{"messages":[],"x":{value}}},"id" :{id},"method":"sampling/createMessage","jsonrpc":"2.0"}}"#
                );
                duo.server(&line)?;
                duo.client_gets(&line)?;
                let line = format!(r#"{{"result" : {{"v":{value}}}, "y":1.0,"id": {id},"jsonrpc":"2.0"}}"#);
                duo.client(&line)?;
                duo.server_gets(&line)?;
            }
        }
        duo.works()
    })
}

#[test]
fn of_an_argument_of_a_mebibyte() -> Result<()> {
    greeted(|duo| {
        let long = format!("{}\\u00e9\u{2028}", "abc\\n☃".repeat((1 << 20) / 8));
        let line = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"x","arguments":{{"v":"{long}"}}}}}}"#
            )
        };
        let number = duo.forwarded("\"long\"", line)?;
        let said = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"v":"{long}"}}}}"#);
        duo.server(said(&number.to_string()))?;
        duo.client_gets(&said("\"long\""))?;
        duo.works()
    })
}
