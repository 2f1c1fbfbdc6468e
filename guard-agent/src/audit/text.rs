//! A record as one line for people. Nothing a server chose can steer the terminal or forge a line.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{
    body::{Exit, Field, Gap, Kernel, Launch},
    call::Call,
    record::{Body, Record, Signed},
    tail::Entry,
};
use crate::octets::Octets;

/// Control characters, and those that reorder or hide text, are spelled out.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        let hidden = matches!(character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{061c}');
        if character.is_control() || hidden || character == '\\' {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// One line, without its end.
pub fn line(entry: &Entry) -> String {
    match serde_json::from_value::<Record>(entry.value.clone()) {
        Ok(record) => typed(&record),
        Err(_) => match &entry.value {
            Value::Object(members) => untyped(members),
            _ => format!("not a record: {}", escape(&entry.text)),
        },
    }
}

fn typed(record: &Record) -> String {
    let mut line = format!(
        "{} {:>6} {:<10} ",
        record.time,
        record.seq,
        record.body.kind().name()
    );
    match &record.body {
        Body::Launch(launch) => launch_text(&mut line, launch),
        Body::Call(call) => call_text(&mut line, call),
        Body::Kernel(kernel) => kernel_text(&mut line, kernel),
        Body::Exit(exit) => exit_text(&mut line, exit),
        Body::Gap(gap) => gap_text(&mut line, gap),
        Body::Checkpoint(Signed { checkpoint }) => {
            let key = checkpoint.key_id.hex();
            add(
                &mut line,
                format_args!("record {} signed by {}", checkpoint.seq, &key[..16]),
            );
            if let Some(next) = &checkpoint.next_key {
                add(&mut line, format_args!(", followed by {}", &next.hex()[..16]));
            }
        }
    }
    line
}

fn add(line: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = line.write_fmt(text);
}

fn octets(octets: &Octets) -> String {
    match std::str::from_utf8(&octets.0) {
        Ok(text) => escape(text),
        Err(_) => octets.to_string(),
    }
}

fn words(words: &[Octets]) -> String {
    words.iter().map(octets).collect::<Vec<_>>().join(" ")
}

/// Behind the session, where a sandbox is for one call of it.
fn call(call: Option<&str>) -> String {
    call.map_or_else(String::new, |call| format!(" call={}", escape(call)))
}

fn launch_text(line: &mut String, launch: &Launch) {
    add(
        line,
        format_args!(
            "{} {}{} {} uid={} roots=[",
            escape(&launch.server),
            escape(&launch.session),
            call(launch.call.as_deref()),
            escape(&launch.tier),
            launch.user.uid
        ),
    );
    for (index, root) in launch.roots.iter().enumerate() {
        let comma = if index > 0 { " " } else { "" };
        add(
            line,
            format_args!("{comma}{}:{}", octets(&root.path), root.rights),
        );
    }
    add(line, format_args!("]"));
    let unenforced: Vec<String> = (launch.enforcement.iter())
        .filter(|(_, enforcement)| enforcement.layers.is_empty())
        .map(|(facet, _)| format!("{facet:?}").to_lowercase())
        .collect();
    if !unenforced.is_empty() {
        add(line, format_args!(" not-enforced={}", unenforced.join(",")));
    }
    add(line, format_args!(": {}", words(&launch.command)));
}

fn call_text(line: &mut String, call: &Call) {
    let number = call.call.as_deref().map_or_else(|| "-".into(), escape);
    add(
        line,
        format_args!("{} call {number} {}", escape(&call.server), call.phase.name()),
    );
    let names = [&call.method, &call.tool, &call.prompt, &call.uri];
    for name in names.into_iter().flatten() {
        add(line, format_args!(" {}", escape(name)));
    }
    if let Some(status) = call.status {
        add(line, format_args!(" {}", status.name()));
    }
    if let Some(duration) = call.duration_us {
        add(
            line,
            format_args!(" after {}.{:03}ms", duration.0 / 1000, duration.0 % 1000),
        );
    }
    if let Some(bytes) = call.output_bytes {
        add(line, format_args!(" out={bytes}"));
    }
    if let Some(kernel) = &call.kernel {
        add(
            line,
            format_args!(
                " kernel-allowed={} kernel-denied={}",
                kernel.allowed, kernel.denied
            ),
        );
    }
    if let Some(repeat) = call.repeat {
        add(line, format_args!(" repeat={repeat}"));
    }
    for verdict in call.gates.iter().filter(|verdict| verdict.verdict != "allow") {
        add(
            line,
            format_args!(" {}:{}", escape(&verdict.verdict), escape(&verdict.gate)),
        );
        if let Some(rule) = &verdict.rule {
            add(line, format_args!("/{}", escape(rule)));
        }
    }
}

fn kernel_text(line: &mut String, kernel: &Kernel) {
    let decision = kernel.decision.name();
    add(
        line,
        format_args!("{} {decision} {}", escape(&kernel.server), escape(&kernel.op)),
    );
    if let Some(path) = &kernel.path {
        add(line, format_args!(" {}", octets(path)));
        if kernel.path_complete == Some(false) {
            add(line, format_args!("…"));
        }
    }
    match (&kernel.address, kernel.port) {
        (Some(address), Some(port)) if address.contains(':') => {
            add(line, format_args!(" [{}]:{port}", escape(address)));
        }
        (Some(address), Some(port)) => add(line, format_args!(" {}:{port}", escape(address))),
        (Some(address), None) => add(line, format_args!(" {}", escape(address))),
        (None, _) => {}
    }
    if let Some(rights) = &kernel.rights {
        add(line, format_args!(" rights={}", escape(rights)));
    }
    add(line, format_args!(" layer={}", kernel.layer));
    if let Some(Field::Text(hook)) = kernel.detail.as_ref().and_then(|detail| detail.get("hook")) {
        add(line, format_args!(" hook={}", octets(hook)));
    }
    add(line, format_args!(" pid={}", kernel.pid));
    if !kernel.calls.is_empty() {
        add(line, format_args!(" calls={}", escape(&kernel.calls.join(","))));
    }
    if let Some(exe) = &kernel.exe {
        add(line, format_args!(" exe={}", octets(exe)));
    }
    if let Some(errno) = &kernel.errno {
        add(line, format_args!(" {}", escape(errno)));
    }
    if let Some(repeat) = kernel.repeat {
        add(line, format_args!(" repeat={repeat}"));
    }
    if let Some(reason) = &kernel.reason {
        add(line, format_args!(": {}", escape(reason)));
    }
}

fn exit_text(line: &mut String, exit: &Exit) {
    add(
        line,
        format_args!(
            "{} {}{} {}",
            escape(&exit.server),
            escape(&exit.session),
            call(exit.call.as_deref()),
            escape(&exit.reason)
        ),
    );
    if let Some(code) = exit.code {
        add(line, format_args!(" code={code}"));
    }
    if let Some(signal) = exit.signal {
        add(line, format_args!(" signal={signal}"));
    }
    let millis = exit.duration_us.0 / 1000;
    add(
        line,
        format_args!(" after {}.{:03}s", millis / 1000, millis % 1000),
    );
    if let Some(cause) = &exit.cause {
        add(line, format_args!(": {}", escape(cause)));
    }
}

fn gap_text(line: &mut String, gap: &Gap) {
    if let Some(session) = &gap.session {
        add(
            line,
            format_args!("{}{} ", escape(session), call(gap.call.as_deref())),
        );
    }
    add(line, format_args!("{}", gap.gap.kind.name()));
    match gap.gap.lost {
        Some(lost) => add(line, format_args!(" lost={lost}")),
        None => add(line, format_args!(" lost=unknown")),
    }
    if let Some(bytes) = gap.gap.bytes {
        add(line, format_args!(" bytes={bytes}"));
    }
    if let Some(cpu) = gap.gap.cpu {
        add(line, format_args!(" cpu={cpu}"));
    }
    if !gap.gap.saved.is_empty() {
        add(line, format_args!(" saved={}", escape(&gap.gap.saved.join(","))));
    }
}

/// A kind this build does not know: its members as they are.
fn untyped(members: &Map<String, Value>) -> String {
    let plain = |name: &str| match members.get(name) {
        Some(Value::String(text)) => escape(text),
        Some(value) => escape(&value.to_string()),
        None => "?".into(),
    };
    let mut line = format!("{} {:>6} {:<10}", plain("time"), plain("seq"), plain("kind"));
    let envelope = ["v", "seq", "time", "kind", "origin", "prev", "hash"];
    for (name, value) in members
        .iter()
        .filter(|(name, _)| !envelope.contains(&name.as_str()))
    {
        add(
            &mut line,
            format_args!(" {}={}", escape(name), escape(&value.to_string())),
        );
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(
            escape("a\u{1b}[2Jb\nc\u{202e}d\u{9b}\\"),
            r"a\u{1b}[2Jb\nc\u{202e}d\u{9b}\\"
        );
        assert_eq!(escape("docs/ä"), "docs/ä");
    }
}
