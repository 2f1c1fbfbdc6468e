//! A list as a client may see it: without some of its items, every other byte as it was.

use std::{borrow::Cow, ops::Range};

use super::definition::{Refused, member, sound};
use crate::gateway::protocol::json;

/// Which list, and what its items are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// Why a list is not passed on. An item that cannot be named cannot be held either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFiltered {
    #[error("cannot filter the list `{list}`: {why}")]
    Unsound { list: &'static str, why: Refused },
    #[error("cannot filter the list `{list}`: the result has none; the server has to send one")]
    Missing { list: &'static str },
    #[error("cannot filter the list `{list}`: item {index} has no `{id}`; the server has to name it")]
    Unnamed {
        list: &'static str,
        index: usize,
        id: &'static str,
    },
}

impl Filter {
    fn list(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    fn id(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The result of a list request without the items that `keep` does not want. What is left must not outlive the
    /// decision in a cache, nor reach somebody else: where a modern result says how it may be cached, it says so.
    pub fn apply(
        self,
        result: &[u8],
        mut keep: impl FnMut(&str) -> bool,
    ) -> Result<Cow<'_, [u8]>, NotFiltered> {
        let list = self.list();
        let unsound = |why| NotFiltered::Unsound { list, why };
        let members = sound(result).map_err(unsound)?;
        let find = |name| {
            member(
                result,
                &members,
                name,
                &[list, "nextCursor", "ttlMs", "cacheScope"],
            )
        };
        let array = find(list)
            .map_err(unsound)?
            .filter(|range| result.get(range.start) == Some(&b'['))
            .ok_or(NotFiltered::Missing { list })?;
        let text = result.get(array.clone()).unwrap_or_default();
        let elements = json::elements(text);
        let mut kept = Vec::with_capacity(elements.len());
        for (index, range) in elements.iter().enumerate() {
            let item = text.get(range.clone()).unwrap_or_default();
            kept.push(keep(&self.id_of(item, index)?));
        }
        if kept.iter().all(|kept| *kept) {
            return Ok(Cow::Borrowed(result));
        }
        let items = without(text, &elements, &kept);
        let mut parts: Vec<(Range<usize>, &[u8])> = vec![(array, &items)];
        for (name, value) in [("ttlMs", &b"0"[..]), ("cacheScope", b"\"private\"")] {
            if let Some(range) = find(name).map_err(unsound)? {
                parts.push((range, value));
            }
        }
        Ok(Cow::Owned(replaced(result, parts)))
    }

    fn id_of(self, item: &[u8], index: usize) -> Result<Cow<'_, str>, NotFiltered> {
        let (list, id) = (self.list(), self.id());
        let members = json::members(item, 0..item.len());
        let range = member(item, &members, id, &[id]).map_err(|why| NotFiltered::Unsound { list, why })?;
        range
            .and_then(|range| json::text_of(item.get(range)?))
            .ok_or(NotFiltered::Unnamed { list, index, id })
    }
}

/// The array without what is not kept. An item takes along what stands before it, from its comma on.
fn without(array: &[u8], elements: &[Range<usize>], kept: &[bool]) -> Vec<u8> {
    let part = |range: Range<usize>| array.get(range).unwrap_or_default();
    let mut out = vec![b'['];
    let mut before = 1;
    let mut first = true;
    for (range, kept) in elements.iter().zip(kept) {
        if *kept {
            let opening = elements.first().map_or(1..1, |range| 1..range.start);
            out.extend_from_slice(part(if first { opening } else { before..range.start }));
            out.extend_from_slice(part(range.clone()));
            first = false;
        }
        before = range.end;
    }
    out.extend_from_slice(if first { b"]" } else { part(before..array.len()) });
    out
}

/// The text with other parts; they do not overlap.
fn replaced(text: &[u8], mut parts: Vec<(Range<usize>, &[u8])>) -> Vec<u8> {
    parts.sort_by_key(|(range, _)| range.start);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for (range, part) in parts {
        out.extend_from_slice(text.get(at..range.start).unwrap_or_default());
        out.extend_from_slice(part);
        at = range.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    out
}
