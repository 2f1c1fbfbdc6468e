//! BTF read and written, as `Documentation/bpf/btf.rst` of the kernel describes it.
//!
//! Values of enumerations, variables and sections are passed over: no fixture keeps them.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail, ensure};

const MAGIC: u16 = 0xeb9f;
const HEADER: u32 = 24;

pub(super) const INTEGER: u32 = 1;
pub(super) const POINTER: u32 = 2;
pub(super) const ARRAY: u32 = 3;
pub(super) const STRUCTURE: u32 = 4;
pub(super) const UNION: u32 = 5;
pub(super) const ENUMERATION: u32 = 6;
pub(super) const FORWARD: u32 = 7;
pub(super) const TYPEDEF: u32 = 8;
// Between them `volatile` and `const`, which are treated alike everywhere.
pub(super) const RESTRICT: u32 = 11;
pub(super) const FUNCTION: u32 = 12;
pub(super) const PROTOTYPE: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;
pub(super) const FLOAT: u32 = 16;
const DECLARATION_TAG: u32 = 17;
pub(super) const TYPE_TAG: u32 = 18;
pub(super) const ENUMERATION_64: u32 = 19;

/// One type. Its number is its place in the list; the first has number 1, and 0 is `void`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) flag: bool,
    /// The size, or the number of another type.
    pub(super) value: u32,
    pub(super) body: Body,
}

/// What follows the part that all types have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing, or nothing that a fixture keeps.
    Empty,
    Integer(u32),
    /// Element, index, count.
    Array([u32; 3]),
    Members(Vec<Member>),
    /// Name and type.
    Parameters(Vec<(String, u32)>),
    /// How a function is linked, which stands where others have a count.
    Linkage(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) kind: u32,
    /// In bits, and in the upper byte the width of a bit field when the structure's flag is set.
    pub(super) place: u32,
}

/// Every type, in order.
pub(super) fn read(data: &[u8]) -> Result<Vec<Type>> {
    let (magic, version) = data.split_at_checked(2).context("it is empty")?;
    ensure!(
        u16::from_le_bytes(magic.try_into()?) == MAGIC && version.first() == Some(&1),
        "it is no BTF of version 1"
    );
    let header = Words { data, at: 4 }.take::<5>()?;
    let part = |offset: u32, length: u32| {
        let start = (header[0] + offset) as usize;
        data.get(start..start + length as usize)
            .context("it is cut short")
    };
    let strings = part(header[3], header[4])?;
    let mut words = Words {
        data: part(header[1], header[2])?,
        at: 0,
    };
    let mut types = Vec::new();
    while words.at < words.data.len() {
        types.push(one(&mut words, strings).with_context(|| format!("read type {}", types.len() + 1))?);
    }
    Ok(types)
}

fn one(words: &mut Words<'_>, strings: &[u8]) -> Result<Type> {
    let [name, info, value] = words.take()?;
    let (kind, count) = ((info >> 24) & 0x1f, info & 0xffff);
    let body = match kind {
        INTEGER => Body::Integer(words.take::<1>()?[0]),
        ARRAY => Body::Array(words.take()?),
        STRUCTURE | UNION => Body::Members(
            (0..count)
                .map(|_| {
                    let [name, kind, place] = words.take()?;
                    Ok(Member {
                        name: string(strings, name)?,
                        kind,
                        place,
                    })
                })
                .collect::<Result<_>>()?,
        ),
        PROTOTYPE => Body::Parameters(
            (0..count)
                .map(|_| {
                    let [name, kind] = words.take()?;
                    Ok((string(strings, name)?, kind))
                })
                .collect::<Result<_>>()?,
        ),
        FUNCTION => Body::Linkage(count),
        POINTER | FORWARD..=RESTRICT | FLOAT | TYPE_TAG => Body::Empty,
        VARIABLE | DECLARATION_TAG => words.skip(1),
        ENUMERATION => words.skip(2 * count),
        SECTION | ENUMERATION_64 => words.skip(3 * count),
        _ => bail!("types of kind {kind} are unknown here"),
    };
    Ok(Type {
        name: string(strings, name)?,
        kind,
        flag: info >> 31 != 0,
        value,
        body,
    })
}

struct Words<'a> {
    data: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u32; N]> {
        let mut found = [0; N];
        for word in &mut found {
            let bytes = self.data.get(self.at..self.at + 4).context("it is cut short")?;
            *word = u32::from_le_bytes(bytes.try_into()?);
            self.at += 4;
        }
        Ok(found)
    }

    fn skip(&mut self, words: u32) -> Body {
        self.at += 4 * words as usize;
        Body::Empty
    }
}

fn string(strings: &[u8], start: u32) -> Result<String> {
    let rest = strings
        .get(start as usize..)
        .context("a name is outside the strings")?;
    let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(name.to_vec()).context("a name is not UTF-8")
}

/// `types` as BTF. `note` becomes its first string, which no type uses.
pub(super) fn write(types: &[Type], note: &str) -> Result<Vec<u8>> {
    let mut strings = Strings::default();
    strings.place("");
    strings.place(note);
    let mut words = Vec::new();
    for item in types {
        let count = match &item.body {
            Body::Members(members) => members.len(),
            Body::Parameters(parameters) => parameters.len(),
            Body::Linkage(linkage) => *linkage as usize,
            Body::Empty | Body::Integer(_) | Body::Array(_) => 0,
        };
        let count = u32::from(u16::try_from(count).context("a type has too many members")?);
        words.push(strings.place(&item.name));
        words.push(u32::from(item.flag) << 31 | item.kind << 24 | count);
        words.push(item.value);
        match &item.body {
            Body::Empty | Body::Linkage(_) => {}
            Body::Integer(encoding) => words.push(*encoding),
            Body::Array(array) => words.extend(array),
            Body::Members(members) => {
                for member in members {
                    words.extend([strings.place(&member.name), member.kind, member.place]);
                }
            }
            Body::Parameters(parameters) => {
                for (name, kind) in parameters {
                    words.extend([strings.place(name), *kind]);
                }
            }
        }
    }
    let types_length = u32::try_from(words.len() * 4).context("too many types")?;
    let strings_length = u32::try_from(strings.bytes.len()).context("too many strings")?;
    let mut data = MAGIC.to_le_bytes().to_vec();
    data.extend([1, 0]);
    let parts = [HEADER, 0, types_length, types_length, strings_length];
    data.extend(parts.iter().chain(&words).flat_map(|word| word.to_le_bytes()));
    data.extend(strings.bytes);
    Ok(data)
}

/// The note that `write` put into `data`.
pub(super) fn note(data: &[u8]) -> Result<String> {
    let [header, _, _, offset, length] = Words { data, at: 4 }.take()?;
    let start = (header + offset) as usize;
    let strings = data.get(start..start + length as usize);
    string(strings.context("it is cut short")?, 1)
}

#[derive(Default)]
struct Strings {
    bytes: Vec<u8>,
    places: HashMap<String, u32>,
}

impl Strings {
    fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.bytes.len() as u32;
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        self.places.insert(text.to_owned(), place);
        place
    }
}
