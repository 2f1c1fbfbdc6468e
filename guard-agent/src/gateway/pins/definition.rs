//! The definitions of all pages of a `tools/list`, each with its bytes and its pin.
//!
//! A pin is the SHA-256 of the canonical form of the whole object: keys in order, no white space, strings as what they
//! stand for, numbers as they are written, `required`, `enum` and `type` of the schemas as sets. Which page a tool
//! stands on and which tools stand beside it is no part of it.

use std::{collections::HashSet, ops::Range};

use super::{
    pointer::Pointer,
    tree::{Node, TooDeep},
};
use crate::{
    audit::Digest,
    config::printable,
    gateway::protocol::{json, names},
};

/// Begins what is hashed, so that another canonical form will give other pins.
const FORM: &[u8] = b"guard-agent tool definition 1\n";

/// Members a client or a decision reads: nothing else may look like them.
const OF_A_TOOL: &[&str] = &[
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "_meta",
];
const OF_A_RESULT: &[&str] = &["tools", "nextCursor"];

/// What a server may list. All beyond is refused, not cut.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Tools of all pages.
    pub tools: usize,
    /// Bytes of all pages.
    pub bytes: usize,
    /// Bytes of one definition.
    pub definition: usize,
    /// Levels of objects and arrays in one definition.
    pub depth: usize,
}

impl Limits {
    /// For what was read within others before.
    pub(super) const UNBOUNDED: Self = Self {
        tools: usize::MAX,
        bytes: usize::MAX,
        definition: usize::MAX,
        depth: usize::MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tools: 1024,
            bytes: 8 << 20,
            definition: 256 << 10,
            depth: 64,
        }
    }
}

/// Why a list of tools is not used. No tool of it is: what was not read may be what matters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("cannot read the list of tools: {0}; the server has to send a sound one")]
    Json(String),
    #[error(
        "cannot read the list of tools: {0} stands twice or looks like another member; the server has to name it once"
    )]
    Ambiguous(String),
    #[error("cannot read the list of tools: it is no object with a list `tools`; the server has to send one")]
    NoTools,
    #[error("cannot read tool {0} of the list: it is no object with a `name`; the server has to name it")]
    NoName(usize),
    #[error("cannot pin tool `{0}`: the list has two of this name; the server has to tell them apart")]
    Twice(String),
    #[error("cannot pin tool `{0}`: its definition is nested deeper than {1} levels; have it made simpler")]
    Depth(String, usize),
    #[error("cannot pin tool `{0}`: its definition has more than {1} bytes; have it made shorter")]
    Long(String, usize),
    #[error("cannot read the list of tools: it has more than {0} tools; serve fewer at once")]
    TooMany(usize),
    #[error("cannot read the list of tools: its pages have more than {0} bytes; serve fewer tools at once")]
    TooLong(usize),
}

/// What a server says of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    name: String,
    raw: Vec<u8>,
    pin: Digest,
}

impl Definition {
    /// Reads one definition, as it came or as it was kept.
    pub fn read(raw: &[u8], volatile: &[Pointer], limits: &Limits) -> Result<Self, Refused> {
        sound(raw)?;
        Self::of_sound(raw, 0, volatile, limits)
    }

    fn of_sound(raw: &[u8], index: usize, volatile: &[Pointer], limits: &Limits) -> Result<Self, Refused> {
        let members = json::members(raw, 0..raw.len());
        let name = member(raw, &members, "name", OF_A_TOOL)?
            .and_then(|range| json::text_of(raw.get(range)?))
            .filter(|name| !name.is_empty())
            .ok_or(Refused::NoName(index))?
            .into_owned();
        if raw.len() > limits.definition {
            return Err(Refused::Long(printable(&name), limits.definition));
        }
        let read = Node::read(raw, limits.depth);
        let tree = read.map_err(|TooDeep| Refused::Depth(printable(&name), limits.depth))?;
        let canonical = tree.settled(volatile).canonical();
        Ok(Self {
            pin: Digest::of(&[FORM, &canonical]),
            raw: raw.to_vec(),
            name,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// As the server wrote it.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    pub fn pin(&self) -> Digest {
        self.pin
    }

    /// It was read before, so it is not too deep now.
    pub(super) fn tree(&self) -> Node<'_> {
        Node::read(&self.raw, usize::MAX).unwrap_or(Node::Plain(""))
    }
}

/// The tools of a server, from all pages.
#[derive(Debug, Default)]
pub struct Definitions {
    limits: Limits,
    volatile: Vec<Pointer>,
    tools: Vec<Definition>,
    names: HashSet<String>,
    bytes: usize,
}

impl Definitions {
    /// No page yet. What `volatile` names is no part of a pin.
    pub fn new(limits: Limits, volatile: Vec<Pointer>) -> Self {
        Self {
            limits,
            volatile,
            ..Self::default()
        }
    }

    /// Takes the result of one `tools/list`. It takes itself along: after an error there is no list to go on with.
    pub fn page(mut self, result: &[u8]) -> Result<Self, Refused> {
        self.bytes = self.bytes.saturating_add(result.len());
        if self.bytes > self.limits.bytes {
            return Err(Refused::TooLong(self.limits.bytes));
        }
        let members = sound(result)?;
        let tools = member(result, &members, "tools", OF_A_RESULT)?
            .and_then(|range| result.get(range))
            .filter(|value| value.starts_with(b"["))
            .ok_or(Refused::NoTools)?;
        for range in json::elements(tools) {
            let index = self.tools.len();
            if index == self.limits.tools {
                return Err(Refused::TooMany(self.limits.tools));
            }
            let raw = tools.get(range).unwrap_or_default();
            let tool = Definition::of_sound(raw, index, &self.volatile, &self.limits)?;
            if !self.names.insert(tool.name.clone()) {
                return Err(Refused::Twice(printable(&tool.name)));
            }
            self.tools.push(tool);
        }
        Ok(self)
    }

    /// In the order they came in.
    pub fn tools(&self) -> &[Definition] {
        &self.tools
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn volatile(&self) -> &[Pointer] {
        &self.volatile
    }
}

/// The members of a text that all readers read alike.
pub(super) fn sound(text: &[u8]) -> Result<Vec<json::Member>, Refused> {
    let found = json::scan(text);
    if let Some(flaw) = found.flaw {
        return Err(Refused::Json(flaw.to_string()));
    }
    if let Some(at) = found.duplicate {
        return Err(Refused::Ambiguous(format!("the key that ends at byte {at}")));
    }
    Ok(found.members)
}

/// Where the value of a member is. Readers that do not mind case would take a look-alike for it.
pub(super) fn member(
    text: &[u8],
    members: &[json::Member],
    name: &str,
    known: &[&str],
) -> Result<Option<Range<usize>>, Refused> {
    let mut found = None;
    for member in members {
        let key = text
            .get(member.key.clone())
            .and_then(json::unescape)
            .unwrap_or_default();
        if names::looks_like_one(&key, known) {
            return Err(Refused::Ambiguous(format!("`{}`", printable(&key))));
        }
        if key == name {
            found = Some(member.value.clone());
        }
    }
    Ok(found)
}
