//! `guard-echo`: the server of `cargo xtask bench call`. Its tool `echo` answers with so many bytes of ordinary text as
//! `bytes` says.
//!
//! It does as little as it can, so that what stands between it and its client is what is measured: of a message it
//! looks for the id and one number, and texts it has made once it keeps. It is for that bench's own messages and for
//! nobody else's.

use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Write},
    ops::Range,
};

#[path = "../bench/text.rs"]
mod text;

const TOOLS: &str = r#"{"tools":[{"name":"echo","description":"Answers with as many bytes as it is asked for.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"},"text":{"type":"string"}},"required":["bytes"]}}]}"#;

fn main() -> io::Result<()> {
    let (mut input, mut output) = (
        BufReader::with_capacity(1 << 16, io::stdin().lock()),
        io::stdout(),
    );
    let (mut line, mut answer) = (Vec::new(), Vec::new());
    let mut results = HashMap::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        answer.clear();
        if let Some((id, method)) = looked_at(&line) {
            answer.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
            answer.extend_from_slice(&line[id]);
            answer.extend_from_slice(br#","result":"#);
            match method {
                b"tools/call" => {
                    let bytes = after(&line, b"\"bytes\":").map_or(0, |at| number(&line[at..]));
                    let result = results.entry(bytes).or_insert_with(|| result(bytes));
                    answer.extend_from_slice(result.as_bytes());
                }
                b"tools/list" => answer.extend_from_slice(TOOLS.as_bytes()),
                b"initialize" => answer.extend_from_slice(opened(&line).as_bytes()),
                _ => answer.extend_from_slice(b"{}"),
            }
            answer.extend_from_slice(b"}\n");
            output.write_all(&answer)?;
            output.flush()?;
        }
    }
}

/// Where the id of a request is, and its method. Neither stands behind the text of a call: clients write them before
/// `params`, or the id last of all.
fn looked_at(line: &[u8]) -> Option<(Range<usize>, &[u8])> {
    let ends = |part: usize| line.len().saturating_sub(part);
    let from = after(&line[..line.len().min(96)], b"\"id\":")
        .or_else(|| after(&line[ends(40)..], b"\"id\":").map(|at| ends(40) + at))?;
    let length = line[from..].iter().position(|byte| matches!(byte, b',' | b'}'))?;
    let method = after(&line[..line.len().min(96)], b"\"method\":")? + 1;
    let name = line[method..].iter().position(|byte| *byte == b'"')?;
    Some((from..from + length, &line[method..method + name]))
}

/// Where what follows this member's name begins.
fn after(line: &[u8], name: &[u8]) -> Option<usize> {
    let at = line.windows(name.len()).position(|window| window == name)? + name.len();
    Some(at + line[at..].iter().take_while(|byte| **byte == b' ').count())
}

fn number(text: &[u8]) -> usize {
    text.iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

fn result(bytes: usize) -> String {
    let text = serde_json::Value::String(text::of(bytes));
    format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)
}

/// The revision that was asked for: the bench asks for one that everybody speaks.
fn opened(line: &[u8]) -> String {
    let asked = after(line, b"\"protocolVersion\":").and_then(|at| line.get(at + 1..at + 11));
    let revision = asked.map_or_else(|| "2025-06-18".into(), String::from_utf8_lossy);
    format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"guard-echo","version":"0"}}}}"#
    )
}
