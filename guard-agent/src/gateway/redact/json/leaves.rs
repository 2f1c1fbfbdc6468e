//! The strings, keys and numbers of a JSON value, each with what its surroundings say of it.
//!
//! The value is known to be JSON. There is no recursion: how deep it goes is for whoever sent it to choose.

use std::ops::Range;

use super::text::Text;
use crate::gateway::redact::{names, scan};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Key,
    Text,
    Number,
}

/// The text of an element of a `content` list: which list, and which element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) list: usize,
    pub(super) element: usize,
}

#[derive(Debug)]
pub(super) struct Leaf<'a> {
    pub(super) kind: Kind,
    /// Where it is written; of a string, what stands between the quotes.
    pub(super) range: Range<usize>,
    /// The end of the key it stands under, as it is written, or nothing.
    pub(super) name: &'a str,
    /// What it stands under is the name of a secret.
    pub(super) named: bool,
    pub(super) block: Option<Block>,
}

/// What is open around a place.
struct Frame<'a> {
    object: bool,
    /// The key read last. In a list: the key the list stands under.
    key: &'a str,
    /// That key names a secret.
    named: bool,
    /// `{"name": "PASSWORD", "value": …}`, or in a list `["--password", …]`: what comes next is one.
    announced: bool,
    /// In a list: the elements before. Of an object: which element it is.
    element: usize,
    /// A `content` list, by its place; an object that is an element of one.
    content: Option<usize>,
}

pub(super) fn of(source: &str) -> Vec<Leaf<'_>> {
    let mut walk = Walk {
        source,
        leaves: Vec::new(),
        frames: Vec::new(),
    };
    let mut place = 0;
    while place < source.len() {
        place = walk.step(place);
    }
    walk.leaves
}

struct Walk<'a> {
    source: &'a str,
    leaves: Vec<Leaf<'a>>,
    frames: Vec<Frame<'a>>,
}

impl<'a> Walk<'a> {
    /// Takes what starts at a place, and says where the next thing does.
    fn step(&mut self, place: usize) -> usize {
        match scan::at(self.source, place) {
            b'"' => {
                let end = string_end(self.source, place);
                self.string(place + 1..end);
                end + 1
            }
            b'-' | b'0'..=b'9' => {
                let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                let end = scan::run(self.source, place, part);
                self.value(Kind::Number, place..end);
                end
            }
            open @ (b'{' | b'[') => {
                self.open(open == b'{', place);
                place + 1
            }
            b'}' | b']' => {
                self.frames.pop();
                place + 1
            }
            b',' => {
                if let Some(frame) = self.frames.last_mut().filter(|frame| !frame.object) {
                    frame.element += 1;
                }
                place + 1
            }
            // `true`, `false`, `null`, spaces and colons.
            _ => place + 1,
        }
    }

    fn open(&mut self, object: bool, place: usize) {
        let frame = match self.frames.last() {
            Some(outer) if !object => Frame {
                object,
                key: outer.key,
                named: outer.named,
                announced: false,
                element: 0,
                content: (outer.object && outer.key == "content").then_some(place),
            },
            Some(outer) => Frame {
                object,
                key: "",
                named: false,
                announced: false,
                element: outer.element,
                content: outer.content.filter(|_| !outer.object),
            },
            None => Frame {
                object,
                key: "",
                named: false,
                announced: false,
                element: 0,
                content: None,
            },
        };
        self.frames.push(frame);
    }

    fn string(&mut self, range: Range<usize>) {
        let after = scan::run(self.source, range.end + 1, |byte| byte.is_ascii_whitespace());
        let in_object = self.frames.last().is_some_and(|frame| frame.object);
        // Only a key is followed by a colon.
        if !in_object || scan::at(self.source, after) != b':' {
            self.value(Kind::Text, range);
            return;
        }
        let raw = scan::slice(self.source, range.clone());
        if let Some(frame) = self.frames.last_mut() {
            frame.key = raw;
            frame.named = names::secret(Text::of(raw).as_str());
        }
        self.leaves.push(Leaf {
            kind: Kind::Key,
            range,
            name: "",
            named: false,
            block: None,
        });
    }

    fn value(&mut self, kind: Kind, range: Range<usize>) {
        let raw = scan::slice(self.source, range.clone());
        let mut leaf = Leaf {
            kind,
            range,
            name: "",
            named: false,
            block: None,
        };
        if let Some(frame) = self.frames.last_mut() {
            leaf.name = scan::tail(frame.key, names::LONGEST);
            leaf.named = frame.named;
            if frame.object {
                leaf.named |= frame.announced && frame.key.eq_ignore_ascii_case("value");
                if ["name", "key"]
                    .iter()
                    .any(|known| frame.key.eq_ignore_ascii_case(known))
                {
                    frame.announced = kind == Kind::Text && names::secret(Text::of(raw).as_str());
                }
                leaf.block = frame
                    .content
                    .filter(|_| frame.key == "text" && kind == Kind::Text)
                    .map(|list| Block {
                        list,
                        element: frame.element,
                    });
            } else {
                leaf.named |= frame.announced;
                frame.announced = kind == Kind::Text && raw.starts_with("--") && names::secret(raw);
            }
        }
        self.leaves.push(leaf);
    }
}

/// Where the quote is that closes the string at a place.
fn string_end(source: &str, open: usize) -> usize {
    let mut escaped = false;
    scan::run(source, open + 1, |byte| {
        let goes_on = escaped || byte != b'"';
        escaped = byte == b'\\' && !escaped;
        goes_on
    })
}
