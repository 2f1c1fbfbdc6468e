//! Takes matches out of one JSON value and leaves every other byte as it is.

mod blocks;
mod leaves;
mod text;

use std::ops::Range;

use super::{Match, Redacted, RuleId, Rules, found, mask, personal, scan};
use leaves::{Kind, Leaf};
use text::Text;

/// Nothing is given out: what is not understood cannot be redacted.
#[derive(Debug, thiserror::Error)]
pub enum NotRedacted {
    #[error("cannot redact a value that is not UTF-8: {0}")]
    NotUtf8(std::str::Utf8Error),
    #[error("cannot redact a value that is not JSON: {0}")]
    NotJson(serde_json::Error),
}

/// A leaf, the text it stands for, and what of that is to go.
struct Part<'a> {
    leaf: Leaf<'a>,
    text: Text<'a>,
    matches: Vec<Match>,
}

pub(super) fn redact(rules: &Rules, bytes: &[u8]) -> Result<Redacted, NotRedacted> {
    let source = std::str::from_utf8(bytes).map_err(NotRedacted::NotUtf8)?;
    // Whether it is JSON is for the parser that everybody else uses to say; the walk then knows that it is.
    serde_json::from_str::<serde::de::IgnoredAny>(source).map_err(NotRedacted::NotJson)?;

    let mut tally = mask::Tally::default();
    let mut parts: Vec<Part<'_>> = leaves::of(source)
        .into_iter()
        .map(|leaf| part(rules, source, leaf))
        .collect();
    for part in &parts {
        part.matches.iter().for_each(|of| tally.count(of.rule));
    }
    blocks::search(rules, &mut parts, &mut tally);

    let mut out = Vec::with_capacity(bytes.len());
    let mut kept = 0;
    for part in parts {
        if part.matches.is_empty() {
            continue;
        }
        out.extend_from_slice(scan::slice(source, kept..part.leaf.range.start).as_bytes());
        replace(&mut out, rules, source, &part);
        kept = part.leaf.range.end;
    }
    out.extend_from_slice(scan::slice(source, kept..source.len()).as_bytes());
    Ok(tally.redacted(out, rules))
}

/// What is found in a leaf by itself.
fn part<'a>(rules: &Rules, source: &'a str, leaf: Leaf<'a>) -> Part<'a> {
    let raw = scan::slice(source, leaf.range.clone());
    let text = match leaf.kind {
        Kind::Key | Kind::Text => Text::of(raw),
        Kind::Number => Text::plain(raw),
    };
    let mut found = found::Found::new(rules);
    // The value of a secret's name is one whatever it looks like.
    if leaf.named && !mask::is(text.as_str()) {
        found.add(RuleId::NamedSecret, 0..text.as_str().len());
    }
    if leaf.kind == Kind::Number {
        personal::number(text.as_str(), leaf.name, &mut found);
    } else {
        for Match { range, rule } in rules.find_named(text.as_str(), leaf.name) {
            found.add(rule, range);
        }
    }
    let matches = found.settle(text.as_str());
    Part { leaf, text, matches }
}

/// Writes a leaf without its matches. A number becomes a string.
fn replace(out: &mut Vec<u8>, rules: &Rules, source: &str, part: &Part<'_>) {
    let raw = |range: Range<usize>| scan::slice(source, range).as_bytes();
    let start = part.leaf.range.start;
    let number = part.leaf.kind == Kind::Number;
    if number {
        out.push(b'"');
    }
    let mut kept = start;
    for Match { range, rule } in &part.matches {
        let within = part.text.source(range);
        out.extend_from_slice(raw(kept..start + within.start));
        mask::write(out, *rule, scan::slice(part.text.as_str(), range.clone()), rules);
        kept = start + within.end;
    }
    out.extend_from_slice(raw(kept..part.leaf.range.end));
    if number {
        out.push(b'"');
    }
}
