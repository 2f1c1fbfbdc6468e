//! The bytes as types: a number each, a common part, and what follows it.

use std::ffi::CStr;

const MAGIC: u16 = 0xeb9f;
const HEADER_LEAST: usize = 24;
/// Name, kind and count, size or other type.
const COMMON: usize = 12;
/// Set in a structure whose members say how many bits they have.
const FLAG: u32 = 1 << 31;
/// What the kernel allows a name to be long.
const NAME_MOST: usize = 512;

/// What a type is. Those that only lead on to another type are told apart as far as somebody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Pointer,
    Structure,
    Union,
    Enumeration,
    /// A structure or union whose members are not known.
    Forward,
    Typedef,
    /// `const`, `volatile`, `restrict`, or a tag.
    Qualifier,
    Function,
    Prototype,
    Other,
}

/// The types, kept as the bytes they came in.
#[derive(Debug)]
pub(super) struct Records {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Where each type starts; the first has number 1.
    starts: Vec<usize>,
}

/// One type.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) name: u32,
    pub(super) kind: Kind,
    /// Members or parameters.
    pub(super) count: usize,
    /// The size, or the number of another type.
    pub(super) value: u32,
    bits: bool,
    body: &'a [u8],
}

/// A member of a structure or union.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: u32,
    pub(super) kind: u32,
    bit: u32,
    width: u32,
}

impl Records {
    /// `None` when it is not type information of this machine's byte order.
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let magic = u16::from_ne_bytes(data.get(..2)?.try_into().ok()?);
        let header = usize::try_from(word(data, 4)?).ok()?;
        if magic != MAGIC || *data.get(2)? != 1 || header < HEADER_LEAST {
            return None;
        }
        let part = |offset: usize, length: usize| {
            let start = header.checked_add(usize::try_from(word(data, offset)?).ok()?)?;
            let end = start.checked_add(usize::try_from(word(data, length)?).ok()?)?;
            data.get(start..end).map(<[u8]>::to_vec)
        };
        let strings = part(16, 20)?;
        let types = part(8, 12)?;
        Some(Self {
            starts: starts(&types)?,
            types,
            strings,
        })
    }

    /// The type of that number; `None` for 0, which is `void`.
    pub(super) fn get(&self, number: u32) -> Option<Record<'_>> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index.checked_add(1)?).copied();
        let bytes = self.types.get(start..end.unwrap_or(self.types.len()))?;
        let info = word(bytes, 4)?;
        Some(Record {
            name: word(bytes, 0)?,
            kind: kind(number_of_kind(info)),
            count: count(info)?,
            value: word(bytes, 8)?,
            bits: info & FLAG != 0,
            body: bytes.get(COMMON..)?,
        })
    }

    /// How many types there are; the last has this number.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Name and kind of the type of that number.
    pub(super) fn head(&self, number: u32) -> Option<(u32, Kind)> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let bytes = self.types.get(*self.starts.get(index)?..)?;
        Some((word(bytes, 0)?, kind(number_of_kind(word(bytes, 4)?))))
    }

    /// The name that starts there; `None` for one without an end.
    pub(super) fn name(&self, start: u32) -> Option<&[u8]> {
        let rest = self.strings.get(usize::try_from(start).ok()?..)?;
        let most = rest.get(..NAME_MOST).unwrap_or(rest);
        Some(CStr::from_bytes_until_nul(most).ok()?.to_bytes())
    }

    pub(super) fn is_called(&self, start: u32, wanted: &str) -> bool {
        self.name(start) == Some(wanted.as_bytes())
    }
}

impl Record<'_> {
    pub(super) fn member(&self, index: usize) -> Option<Member> {
        let at = index.checked_mul(12)?;
        let place = word(self.body, at.checked_add(8)?)?;
        let (bit, width) = if self.bits {
            (place & 0x00ff_ffff, place >> 24)
        } else {
            (place, 0)
        };
        Some(Member {
            name: word(self.body, at)?,
            kind: word(self.body, at.checked_add(4)?)?,
            bit,
            width,
        })
    }

    /// Name and type of a parameter.
    pub(super) fn parameter(&self, index: usize) -> Option<(u32, u32)> {
        let at = index.checked_mul(8)?;
        Some((word(self.body, at)?, word(self.body, at.checked_add(4)?)?))
    }
}

impl Member {
    /// Its offset; `None` for a bit field.
    pub(super) fn bytes(&self) -> Option<u64> {
        (self.width == 0 && self.bit.is_multiple_of(8)).then_some(u64::from(self.bit / 8))
    }
}

/// Where each type starts; `None` when one cannot be read.
fn starts(types: &[u8]) -> Option<Vec<usize>> {
    // On average a type is longer.
    let mut starts = Vec::with_capacity(types.len() / 16);
    let mut rest = types;
    while !rest.is_empty() {
        starts.push(types.len() - rest.len());
        let info = word(rest, 4)?;
        let body = body_length(number_of_kind(info), count(info)?)?;
        rest = rest.get(COMMON.checked_add(body)?..)?;
    }
    Some(starts)
}

fn number_of_kind(info: u32) -> u32 {
    (info >> 24) & 0x1f
}

fn count(info: u32) -> Option<usize> {
    usize::try_from(info & 0xffff).ok()
}

fn kind(number: u32) -> Kind {
    match number {
        1 => Kind::Integer,
        2 => Kind::Pointer,
        4 => Kind::Structure,
        5 => Kind::Union,
        6 | 19 => Kind::Enumeration,
        7 => Kind::Forward,
        8 => Kind::Typedef,
        9..=11 | 18 => Kind::Qualifier,
        12 => Kind::Function,
        13 => Kind::Prototype,
        _ => Kind::Other,
    }
}

/// Bytes after the common part of a type; `None` for a kind this reader does not know.
fn body_length(kind: u32, count: usize) -> Option<usize> {
    match kind {
        // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
        2 | 7..=12 | 16 | 18 => Some(0),
        // integer, variable, declaration tag
        1 | 14 | 17 => Some(4),
        3 => Some(12),
        // structure, union, section, 64-bit enumeration
        4 | 5 | 15 | 19 => count.checked_mul(12),
        // enumeration, function prototype
        6 | 13 => count.checked_mul(8),
        _ => None,
    }
}

pub(super) fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?))
}
