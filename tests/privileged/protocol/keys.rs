//! Keys that two readers would read differently.

use anyhow::Result;

use crate::{
    greeted,
    strict::{INVALID, all},
};

#[test]
fn a_key_twice() -> Result<()> {
    greeted(|duo| {
        let rows = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":"a","method":"tools/list"}"#,
                "\"a\"",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{},"params":{}}"#,
                "1",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}"#, "null"),
            (
                r#"{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"tools/list"}"#,
                "null",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"tools/call"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"x","arguments":{"path":"/a","path":"/b"}}}"#,
                "9007199254740993",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"l":[0,{"d":{"a":1,"b":2,"a":3}}]}}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"é":1,"\u00e9":2}}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":1,"x":1}}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","x":{"":1,"":2}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1,"a":2}}"#,
                "null",
            ),
        ];
        all(duo, "duplicate-key", INVALID, &rows)
    })
}

#[test]
fn a_key_that_looks_like_another() -> Result<()> {
    greeted(|duo| {
        let rows = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","METHOD":"tools/call"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method\u0000":"tools/call"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","me\u0007thod":"tools/call"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","\u004dethod":"tools/call"}"#,
                "1",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","ID":2}"#, "1"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","JsonRPC":"2.0"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","j\u017fonrpc":"2.0"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","jſonrpc":"2.0"}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Params":{}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","param\u017f":{}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","re\u017fult":{}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","ERROR":{}}"#,
                "1",
            ),
            (r#"{"jsonrpc":"2.0","Id":1,"method":"tools/list"}"#, "null"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name\u0000":"b"}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"NAME":"b"}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","argument\u017f":{}}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Arguments":{}}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:a","URI":"x:b"}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_META":{}}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressto\u212aen":1}}}"#,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"ProgressToken":1}}}"#,
                "1",
            ),
        ];
        all(duo, "look-alike-key", INVALID, &rows)
    })
}

/// The rule is for the names that decide, not for what a tool calls its arguments.
#[test]
fn a_key_that_looks_like_another_elsewhere_passes() -> Result<()> {
    greeted(|duo| {
        for params in [
            r#"{"name":"a","arguments":{"name":1,"Name":2,"Method":3,"ID":4,"URI":5,"method\u0000":6}}"#,
            r#"{"name":"a","arguments":{"deep":[{"Params":1,"param\u017f":2}]}}"#,
            r#"{"name":"a","vendor":{"Name":1},"_meta":{"com.example/Name":1,"x":{"PROGRESSTOKEN":1}}}"#,
        ] {
            let line = |id: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params},"vendor":{{"ID":1}}}}"#
                )
            };
            let number = duo.forwarded("1", line)?;
            duo.answered(number, "1")?;
        }
        Ok(())
    })
}
