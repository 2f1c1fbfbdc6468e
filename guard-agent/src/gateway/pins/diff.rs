//! What changed in a definition, for a person to decide on.
//!
//! Values are compared as a pin sees them: what moves no pin is no change. Everything is shown with hidden characters as
//! escapes, and bounded: a server that changes a lot gets no more room for it.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::{
    definition::Definition,
    pointer::{self, Pointer},
    shown,
    tree::Node,
};

/// Changes that are listed. The number of all is told.
const CHANGES: usize = 64;
/// Characters of a value, or of all parts of a text.
const VALUE: usize = 2000;
/// Texts longer than this are compared by their words.
const SHORT: usize = 60;
/// Of what is the same around a change so many characters are shown.
const AROUND: usize = 40;
/// Bytes of two texts that are compared word by word, and of all such texts together: the work grows with the square of
/// what differs, and the server chooses what does.
const COMPARED: usize = 8 << 10;
const COMPARED_IN_ALL: usize = 32 << 10;

/// All that differs.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    pub changes: Vec<Change>,
    /// Changes that are not listed.
    pub more: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub pointer: String,
    pub kind: Kind,
    /// In JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Where both are long texts: what stayed, went and came, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Added,
    Removed,
    Changed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "text")]
pub enum Span {
    Same(String),
    Removed(String),
    Added(String),
}

impl Diff {
    /// From an older definition to a newer one.
    pub(super) fn of(old: &Definition, new: &Definition, volatile: &[Pointer]) -> Self {
        let mut diff = Comparison::default();
        let (old, new) = (old.tree().settled(volatile), new.tree().settled(volatile));
        diff.values(&old, &new, &mut Vec::new());
        diff.found
    }

    /// All of it is new.
    pub(super) fn added(new: &Definition) -> Self {
        let mut diff = Comparison::default();
        diff.add(&[], None, Some(&new.tree()));
        diff.found
    }
}

/// A comparison on its way.
#[derive(Default)]
struct Comparison {
    found: Diff,
    /// Bytes that were compared word by word.
    compared: usize,
}

impl Comparison {
    fn values<'n>(&mut self, old: &'n Node<'_>, new: &'n Node<'_>, path: &mut Vec<Cow<'n, str>>) {
        match (old, new) {
            _ if old == new => {}
            (Node::Object(was), Node::Object(is)) => {
                let keys: BTreeSet<&str> = was.iter().chain(is).map(|(key, _)| key.as_ref()).collect();
                for key in keys {
                    path.push(Cow::Borrowed(key));
                    self.sides(old.member(key), new.member(key), path);
                    path.pop();
                }
            }
            (Node::Array(was), Node::Array(is)) => {
                // What is the same at both ends did not change; what stands between is compared by its place.
                let begin = was.iter().zip(is).take_while(|(one, other)| one == other).count();
                let most = was.len().min(is.len()) - begin;
                let ends = was.iter().rev().zip(is.iter().rev());
                let end = ends.take(most).take_while(|(one, other)| one == other).count();
                for index in begin..was.len().max(is.len()) - end {
                    let within = |side: &'n [Node<'_>]| side.get(..side.len() - end)?.get(index);
                    path.push(Cow::Owned(index.to_string()));
                    self.sides(within(was), within(is), path);
                    path.pop();
                }
            }
            _ => self.add(path, Some(old), Some(new)),
        }
    }

    fn sides<'n>(
        &mut self,
        old: Option<&'n Node<'_>>,
        new: Option<&'n Node<'_>>,
        path: &mut Vec<Cow<'n, str>>,
    ) {
        match (old, new) {
            (Some(old), Some(new)) => self.values(old, new, path),
            (None, None) => {}
            (old, new) => self.add(path, old, new),
        }
    }

    fn add(&mut self, path: &[Cow<'_, str>], old: Option<&Node<'_>>, new: Option<&Node<'_>>) {
        if self.found.changes.len() == CHANGES {
            self.found.more += 1;
            return;
        }
        let json = |node: &Node<'_>| shown::cut(&String::from_utf8_lossy(&node.canonical()), VALUE);
        let spans = match (old, new) {
            (Some(Node::Text(old)), Some(Node::Text(new))) if old.len().max(new.len()) > SHORT => {
                spans(old, new, &mut self.compared)
            }
            _ => Vec::new(),
        };
        self.found.changes.push(Change {
            pointer: shown::cut(&pointer::join(path), VALUE),
            kind: match (old, new) {
                (None, _) => Kind::Added,
                (_, None) => Kind::Removed,
                _ => Kind::Changed,
            },
            old: old.map(json),
            new: new.map(json),
            spans,
        });
    }
}

/// Word by word; what is the same only as far as it says where one is.
fn spans(old: &str, new: &str, compared: &mut usize) -> Vec<Span> {
    let head = common(old.chars(), new.chars());
    let (start, old) = old.split_at(head);
    let new = new.get(head..).unwrap_or_default();
    let tail = common(old.chars().rev(), new.chars().rev());
    let (old, end) = old.split_at(old.len() - tail);
    let new = new.get(..new.len() - tail).unwrap_or_default();

    let mut out = Spans::default();
    out.push(ChangeTag::Equal, start);
    let both = old.len() + new.len();
    *compared += both;
    if both > COMPARED || *compared > COMPARED_IN_ALL {
        out.push(ChangeTag::Delete, old);
        out.push(ChangeTag::Insert, new);
    } else {
        for change in TextDiff::from_words(old, new).iter_all_changes() {
            out.push(change.tag(), change.value());
        }
    }
    out.push(ChangeTag::Equal, end);
    out.shown()
}

/// Bytes that are the same, up to the last blank in them: words stay whole.
fn common(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>) -> usize {
    let mut whole = 0;
    let mut bytes = 0;
    for (one, other) in one.zip(other) {
        if one != other {
            return whole;
        }
        bytes += one.len_utf8();
        if one.is_whitespace() {
            whole = bytes;
        }
    }
    whole
}

/// What stayed, went and came. Words that changed one after the other are one change, with the blanks between them.
#[derive(Default)]
struct Spans {
    settled: Vec<(ChangeTag, String)>,
    old: String,
    new: String,
    /// Blanks behind a change, until it is known whether it goes on.
    blank: String,
}

impl Spans {
    fn push(&mut self, tag: ChangeTag, text: &str) {
        match tag {
            _ if text.is_empty() => {}
            ChangeTag::Equal => {
                let both = !self.old.is_empty() && !self.new.is_empty();
                if both && self.blank.is_empty() && text.trim().is_empty() {
                    text.clone_into(&mut self.blank);
                } else {
                    self.settle();
                    self.same(text);
                }
            }
            tag => {
                let blank = std::mem::take(&mut self.blank);
                self.old.push_str(&blank);
                self.new.push_str(&blank);
                let side = if tag == ChangeTag::Delete {
                    &mut self.old
                } else {
                    &mut self.new
                };
                side.push_str(text);
            }
        }
    }

    fn settle(&mut self) {
        for (tag, side) in [
            (ChangeTag::Delete, &mut self.old),
            (ChangeTag::Insert, &mut self.new),
        ] {
            if !side.is_empty() {
                self.settled.push((tag, std::mem::take(side)));
            }
        }
        let blank = std::mem::take(&mut self.blank);
        self.same(&blank);
    }

    fn same(&mut self, text: &str) {
        match self.settled.last_mut() {
            _ if text.is_empty() => {}
            Some((ChangeTag::Equal, before)) => before.push_str(text),
            _ => self.settled.push((ChangeTag::Equal, text.to_owned())),
        }
    }

    fn shown(mut self) -> Vec<Span> {
        self.settle();
        let last = self.settled.len().saturating_sub(1);
        let mut left = VALUE;
        let mut out = Vec::new();
        for (index, (tag, text)) in self.settled.into_iter().enumerate() {
            if left == 0 {
                let more = last - index + 1;
                out.push(Span::Same(format!("… and {more} parts more")));
                break;
            }
            let length = text.chars().count();
            let (room, span) = match tag {
                ChangeTag::Equal => (
                    length.min(2 * AROUND),
                    Span::Same(around(&text, index > 0, index < last)),
                ),
                ChangeTag::Delete => (length, Span::Removed(shown::cut(&text, left))),
                ChangeTag::Insert => (length, Span::Added(shown::cut(&text, left))),
            };
            left = left.saturating_sub(room);
            out.push(span);
        }
        out
    }
}

/// What is the same, next to the changes before and behind it.
fn around(text: &str, before: bool, behind: bool) -> String {
    let count = text.chars().count();
    if count <= 2 * AROUND + 10 {
        return shown::shown(text);
    }
    let first: String = text.chars().take(AROUND).collect();
    let last: String = text.chars().skip(count - AROUND).collect();
    let side = |is: bool, part: &str| if is { shown::shown(part) } else { String::new() };
    format!("{} … {}", side(before, &first), side(behind, &last))
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            writeln!(f, "{}", change.pointer)?;
            if change.spans.is_empty() {
                for (sign, value) in [('-', &change.old), ('+', &change.new)] {
                    if let Some(value) = value {
                        writeln!(f, "  {sign} {value}")?;
                    }
                }
                continue;
            }
            for span in &change.spans {
                match span {
                    Span::Same(text) => writeln!(f, "    {text}")?,
                    Span::Removed(text) => writeln!(f, "  - {text}")?,
                    Span::Added(text) => writeln!(f, "  + {text}")?,
                }
            }
        }
        if self.more > 0 {
            writeln!(f, "and {} changes more", self.more)?;
        }
        Ok(())
    }
}
