//! What an end should get, to the byte.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// A call with this id, as the client spells it and, with its own number, as the server gets it.
pub(crate) fn call(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"do","arguments":{{}}}}}}"#
    )
}

/// The answer to it.
pub(crate) fn answer(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"done"}}]}}}}"#)
}

/// The end of a long text says as much as its beginning.
pub(crate) fn clipped(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match text.len() {
        ..=1200 => shown(text),
        length => format!(
            "{}… ({length} bytes) …{}",
            shown(&text[..600]),
            shown(&text[length - 600..])
        ),
    }
}

pub(crate) fn same(end: &str, got: &str, wanted: &str) -> Result<()> {
    if got == wanted {
        return Ok(());
    }
    let at = got
        .bytes()
        .zip(wanted.bytes())
        .take_while(|(one, other)| one == other)
        .count();
    anyhow::bail!(
        "the {end} got\n  {}\ninstead of\n  {}\n(they differ from byte {at} on)",
        clipped(got),
        clipped(wanted)
    )
}

/// The number the agent gave a request: what stands where its id stood.
pub(crate) fn id_of(got: &str, line: impl Fn(&str) -> String) -> Result<u64> {
    const PLACE: &str = "<the id>";
    let wanted = line(PLACE);
    let (before, after) = wanted.split_once(PLACE).context("a request has an id")?;
    got.strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after))
        .and_then(|number| number.parse().ok())
        .with_context(|| {
            format!(
                "the server got\n  {}\ninstead of\n  {}",
                clipped(got),
                clipped(&wanted)
            )
        })
}

/// An error of the agent's own: everything but the words of its message.
pub(crate) fn error(line: &str, id: &str, code: i32, gate: &str, rule: &str) -> Result<()> {
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"guard-agent: "#);
    let end = format!(r#"","data":{{"gate":"{gate}","rule":"{rule}"}}}}}}"#);
    let words = line
        .strip_prefix(&start)
        .and_then(|rest| rest.strip_suffix(&end))
        .with_context(|| format!("the client got\n  {}\ninstead of\n  {start}…{end}", clipped(line)))?;
    ensure!(words.len() > 3, "the message says nothing: {line}");
    serde_json::from_str::<Value>(line).with_context(|| format!("no JSON: {line}"))?;
    Ok(())
}

/// An error of the agent's for the server, which asked what it may not ask.
pub(crate) fn error_to_server(line: &str, id: &str, code: i32) -> Result<()> {
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"#);
    ensure!(
        line.starts_with(&start),
        "the server got\n  {}\ninstead of\n  {start}…",
        clipped(line)
    );
    serde_json::from_str::<Value>(line).with_context(|| format!("no JSON: {line}"))?;
    Ok(())
}

/// The request was not answered before its server ended.
pub(crate) fn server_ended(line: &str, id: &str, how: &str) -> Result<()> {
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
    ensure!(
        line.starts_with(&start),
        "{} does not start with {start}",
        clipped(line)
    );
    let got: Value = serde_json::from_str(line)?;
    let data: Value =
        serde_json::from_str(&format!(r#"{{"gate":"execution","rule":"server-ended",{how}}}"#))?;
    let wanted = serde_json::json!({"code": -32603, "message": "guard-agent: server \"puppet\" ended before it answered", "data": data});
    ensure!(
        got["error"] == wanted,
        "the client got {} instead of {wanted}",
        got["error"]
    );
    ensure!(got.as_object().is_some_and(|all| all.len() == 3), "{line}");
    Ok(())
}
