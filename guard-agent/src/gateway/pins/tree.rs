//! A JSON value as a tree that loses nothing a pin covers, and its canonical form.
//!
//! `serde_json::Value` would read 9007199254740993 as it is but 1.0 and 1.00 as the same, and RFC 8785 merges integers
//! beyond 2^53. Here a number is its source text: another spelling is another definition, and a person may look at it.

use std::borrow::Cow;

use super::pointer::Pointer;
use crate::gateway::protocol::json;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node<'a> {
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
    Array(Vec<Node<'a>>),
    Text(Cow<'a, str>),
    /// A number, `true`, `false` or `null`, as it is written.
    Plain(&'a str),
}

/// The value is nested deeper than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooDeep;

/// What an object or array is for in JSON Schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Tool,
    Schema,
    /// Its members are schemas, under names that mean nothing.
    Schemas,
    Data,
}

impl<'a> Node<'a> {
    /// Reads a value that `json::scan` found nothing wrong with, down to `depth` levels of objects and arrays.
    pub(super) fn read(text: &'a [u8], depth: usize) -> Result<Self, TooDeep> {
        let part = |range| text.get(range).unwrap_or_default();
        match text.first() {
            Some(b'{' | b'[') if depth == 0 => Err(TooDeep),
            Some(b'{') => json::members(text, 0..text.len())
                .into_iter()
                .map(|member| {
                    let key = json::unescape(part(member.key)).unwrap_or_default();
                    Ok((key, Self::read(part(member.value), depth - 1)?))
                })
                .collect::<Result<_, _>>()
                .map(Self::Object),
            Some(b'[') => json::elements(text)
                .into_iter()
                .map(|range| Self::read(part(range), depth - 1))
                .collect::<Result<_, _>>()
                .map(Self::Array),
            _ => Ok(match json::text_of(text) {
                Some(string) => Self::Text(string),
                None => Self::Plain(std::str::from_utf8(text).unwrap_or_default()),
            }),
        }
    }

    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        members
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// As it is hashed and compared: without what is volatile, keys and sets in order.
    pub(super) fn settled(mut self, volatile: &[Pointer]) -> Self {
        let wanted: Vec<&[String]> = volatile.iter().map(Pointer::tokens).collect();
        if !wanted.is_empty() {
            self.leave_out(&wanted);
        }
        self.order(Place::Tool);
        self
    }

    /// One pass for all pointers: an element that goes does not move the others'.
    fn leave_out(&mut self, pointers: &[&[String]]) {
        let keep = |token: &str, value: &mut Self| {
            let inside: Vec<&[String]> = pointers
                .iter()
                .filter_map(|pointer| pointer.split_first())
                .filter(|(first, _)| first.as_str() == token)
                .map(|(_, rest)| rest)
                .collect();
            let stays = inside.iter().all(|rest| !rest.is_empty());
            if stays && !inside.is_empty() {
                value.leave_out(&inside);
            }
            stays
        };
        match self {
            Self::Object(members) => members.retain_mut(|(key, value)| keep(key, value)),
            Self::Array(elements) => {
                let mut index = 0_usize;
                elements.retain_mut(|value| {
                    index += 1;
                    keep(&(index - 1).to_string(), value)
                });
            }
            Self::Text(_) | Self::Plain(_) => {}
        }
    }

    fn order(&mut self, place: Place) {
        match self {
            Self::Object(members) => {
                for (key, value) in members.iter_mut() {
                    value.order(place.of(key));
                    if place == Place::Schema {
                        value.sort_set(key);
                    }
                }
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
            }
            // Of an array of schemas (`allOf`) each element is one.
            Self::Array(elements) => elements.iter_mut().for_each(|element| element.order(place)),
            Self::Text(_) | Self::Plain(_) => {}
        }
    }

    /// The value of a keyword whose order means nothing. What stands twice is no set: its order counts.
    fn sort_set(&mut self, keyword: &str) {
        let Self::Array(elements) = self else { return };
        let texts = elements.iter().all(|element| matches!(element, Self::Text(_)));
        if !(keyword == "enum" || texts && matches!(keyword, "required" | "type")) {
            return;
        }
        let mut sorted: Vec<(Vec<u8>, &Self)> = elements
            .iter()
            .map(|element| (element.canonical(), element))
            .collect();
        sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
        if sorted
            .windows(2)
            .any(|pair| matches!(pair, [one, other] if one.0 == other.0))
        {
            return;
        }
        *elements = sorted.into_iter().map(|(_, element)| element.clone()).collect();
    }

    /// Of a settled value: its canonical form.
    pub(super) fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Object(members) => {
                out.push(b'{');
                for (number, (key, value)) in members.iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    quote(out, key);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
            Self::Array(elements) => {
                out.push(b'[');
                for (number, element) in elements.iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    element.write(out);
                }
                out.push(b']');
            }
            Self::Text(text) => quote(out, text),
            Self::Plain(text) => out.extend_from_slice(text.as_bytes()),
        }
    }

    /// Every key and every string, with the tokens of its pointer.
    pub(super) fn texts<'n>(
        &'n self,
        path: &mut Vec<Cow<'n, str>>,
        each: &mut impl FnMut(&[Cow<'n, str>], &'n str),
    ) {
        match self {
            Self::Object(members) => {
                for (key, value) in members {
                    path.push(Cow::Borrowed(key));
                    each(path, key);
                    value.texts(path, each);
                    path.pop();
                }
            }
            Self::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    path.push(Cow::Owned(index.to_string()));
                    element.texts(path, each);
                    path.pop();
                }
            }
            Self::Text(text) => each(path, text),
            Self::Plain(_) => {}
        }
    }
}

impl Place {
    /// What the value under a key of it is for. What is not known is data, whose order counts.
    fn of(self, key: &str) -> Self {
        match (self, key) {
            (Self::Tool, "inputSchema" | "outputSchema") | (Self::Schemas, _) => Self::Schema,
            (
                Self::Schema,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            ) => Self::Schemas,
            (
                Self::Schema,
                "allOf"
                | "anyOf"
                | "oneOf"
                | "prefixItems"
                | "items"
                | "additionalItems"
                | "additionalProperties"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contains"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else",
            ) => Self::Schema,
            _ => Self::Data,
        }
    }
}

/// It cannot fail: the text goes to memory.
fn quote(out: &mut Vec<u8>, text: &str) {
    let _ = serde_json::to_writer(out, text);
}
