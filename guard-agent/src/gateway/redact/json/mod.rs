//! Takes matches out of one JSON value and leaves every other byte as it is.

mod blocks;
mod leaves;
mod text;

use std::{borrow::Cow, ops::Range};

use super::{Match, ROUNDS, Redacted, RuleId, Rules, found, mask, personal, scan};
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
    let mut left = Cow::Borrowed(source);
    for number in 0..ROUNDS {
        let Some(next) = round(rules, &left, number, &mut tally) else {
            break;
        };
        left = Cow::Owned(next);
    }
    Ok(tally.redacted(left.into_owned().into_bytes(), rules))
}

/// The value without what is found in it, if anything is.
fn round(rules: &Rules, source: &str, number: usize, tally: &mut mask::Tally) -> Option<String> {
    // After the first round there is something new only beside a mask.
    let unseen =
        |leaf: &Leaf<'_>| number == 0 || !mask::find(scan::slice(source, leaf.range.clone())).is_empty();
    let mut parts: Vec<Part<'_>> = leaves::of(source)
        .into_iter()
        .map(|leaf| {
            if unseen(&leaf) {
                part(rules, source, leaf)
            } else {
                Part::new(source, leaf)
            }
        })
        .collect();
    for part in &parts {
        part.matches.iter().for_each(|of| tally.count(of.rule));
    }
    blocks::search(rules, &mut parts, tally);
    parts.retain(|part| !part.matches.is_empty());
    parts.first()?;

    let mut out = String::with_capacity(source.len());
    let mut kept = 0;
    for part in parts {
        out.push_str(scan::slice(source, kept..part.leaf.range.start));
        replace(&mut out, rules, source, &part);
        kept = part.leaf.range.end;
    }
    out.push_str(scan::slice(source, kept..source.len()));
    Some(out)
}

impl<'a> Part<'a> {
    fn new(source: &'a str, leaf: Leaf<'a>) -> Self {
        let raw = scan::slice(source, leaf.range.clone());
        let text = match leaf.kind {
            Kind::Key | Kind::Text => Text::of(raw),
            Kind::Number => Text::plain(raw),
        };
        Self {
            leaf,
            text,
            matches: Vec::new(),
        }
    }
}

/// What is found in a leaf by itself.
fn part<'a>(rules: &Rules, source: &'a str, leaf: Leaf<'a>) -> Part<'a> {
    let Part { leaf, text, .. } = Part::new(source, leaf);
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
fn replace(out: &mut String, rules: &Rules, source: &str, part: &Part<'_>) {
    let raw = |range: Range<usize>| scan::slice(source, range);
    let start = part.leaf.range.start;
    let number = part.leaf.kind == Kind::Number;
    if number {
        out.push('"');
    }
    let mut kept = start;
    for Match { range, rule } in &part.matches {
        let within = part.text.source(range);
        out.push_str(raw(kept..start + within.start));
        mask::write(out, *rule, scan::slice(part.text.as_str(), range.clone()), rules);
        kept = start + within.end;
    }
    out.push_str(raw(kept..part.leaf.range.end));
    if number {
        out.push('"');
    }
}
