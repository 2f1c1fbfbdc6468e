//! Records to lines and back: canonical form, hash, strict reading.
//!
//! A line is the RFC 8785 form of the record without `hash`, with `hash` set in as its last member.
//! So every byte of it is either hashed or fixed, and one flipped byte cannot pass.

use std::{fmt, io, str::FromStr};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess},
};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{
    canonical,
    checkpoint::Checkpoint,
    error::AuditError,
    record::{Body, Origin, Seq, Stamp},
};

/// Of the envelope. A reader refuses one it does not know.
pub const VERSION: u32 = 1;

/// The longest line, newline included: readers need bounded memory.
pub const MAX_RECORD: usize = 1 << 20;

/// A SHA-256, written `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    pub fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
            }
            text
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "not `sha256:` and 64 lower-case hexadecimal digits".to_owned();
        let digits = text.strip_prefix("sha256:").ok_or_else(wrong)?.as_bytes();
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(wrong()),
        };
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return Err(wrong());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// Everything of a record but its hash.
#[derive(Serialize)]
pub(super) struct Unhashed<'a> {
    pub v: u32,
    pub seq: Seq,
    pub time: Stamp,
    pub origin: Origin,
    pub prev: Digest,
    #[serde(flatten)]
    pub body: &'a Body,
}

impl Unhashed<'_> {
    /// The line, newline included, and the record's hash.
    pub(super) fn encode(&self) -> Result<(Vec<u8>, Digest), AuditError> {
        let mut line = serde_json::to_value(self)
            .map_err(io::Error::from)
            .and_then(|value| canonical::to_vec(&value))
            .map_err(|error| AuditError::Encode(error.to_string()))?;
        let hash = Digest::of(&[&line]);
        line.pop(); // the closing brace
        line.extend_from_slice(HASH_MEMBER);
        line.extend_from_slice(hash.hex().as_bytes());
        line.extend_from_slice(b"\"}\n");
        if line.len() > MAX_RECORD {
            return Err(AuditError::TooLarge { bytes: line.len() });
        }
        Ok((line, hash))
    }
}

const HASH_MEMBER: &[u8] = b",\"hash\":\"sha256:";
/// `,"hash":"sha256:` + 64 digits + `"}`
const SUFFIX: usize = HASH_MEMBER.len() + 64 + 2;

/// Why a line is not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LineError {
    Json(String),
    DuplicateKey(String),
    Version(String),
    Envelope(String),
    Hash,
    NotCanonical,
}

/// The envelope of a line, and what checkpoints say.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Head {
    pub v: u32,
    pub seq: Seq,
    pub time: Stamp,
    #[expect(dead_code, reason = "its presence is what is checked")]
    kind: String,
    #[expect(dead_code, reason = "its presence is what is checked")]
    origin: Origin,
    pub prev: Digest,
    pub hash: Digest,
    pub checkpoint: Option<Checkpoint>,
}

/// Whether the hash at the end of the line is that of what stands before it. `line` is without its newline.
fn hash_of(line: &[u8]) -> Result<(&[u8], Digest), LineError> {
    let (body, suffix) = line
        .split_at_checked(line.len().saturating_sub(SUFFIX))
        .ok_or(LineError::Hash)?;
    let digits = suffix
        .strip_prefix(HASH_MEMBER)
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .ok_or(LineError::Hash)?;
    let hash = Digest::of(&[body, b"}"]);
    if hash.hex() == digits {
        Ok((body, hash))
    } else {
        Err(LineError::Hash)
    }
}

/// Hash and envelope, without the proof that the line is canonical: what a writer needs that opens a chain.
pub(super) fn quick(line: &[u8]) -> Result<Head, LineError> {
    hash_of(line)?;
    let envelope = |error: serde_json::Error| LineError::Envelope(error.to_string());
    match serde_json::from_slice::<Head>(line) {
        Ok(head) => Versioned { v: head.v.into() }.check().map(|()| head),
        Err(error) => {
            // Another version may have another envelope: say that first.
            serde_json::from_slice::<Versioned>(line)
                .map_err(envelope)?
                .check()?;
            Err(envelope(error))
        }
    }
}

/// Everything a line can be checked for on its own.
pub(super) fn strict(line: &[u8]) -> Result<Head, LineError> {
    let value = parse_strict(line)?;
    Versioned {
        v: value.get("v").cloned().unwrap_or_default(),
    }
    .check()?;
    let (body, _) = hash_of(line)?;
    let head = Head::deserialize(&value).map_err(|error| LineError::Envelope(error.to_string()))?;
    let Value::Object(mut members) = value else {
        return Err(LineError::NotCanonical);
    };
    members.remove("hash");
    let canonical = canonical::object_to_vec(&members).map_err(|_| LineError::NotCanonical)?;
    if canonical.strip_suffix(b"}") == Some(body) {
        Ok(head)
    } else {
        Err(LineError::NotCanonical)
    }
}

/// The number a damaged line says it has, to name it by.
pub(super) fn claimed_seq(line: &[u8]) -> Option<Seq> {
    #[derive(Deserialize)]
    struct Numbered {
        seq: Seq,
    }
    serde_json::from_slice::<Numbered>(line)
        .ok()
        .map(|numbered| numbered.seq)
}

#[derive(Deserialize)]
struct Versioned {
    #[serde(default)]
    v: Value,
}
impl Versioned {
    fn check(&self) -> Result<(), LineError> {
        if self.v == VERSION {
            Ok(())
        } else {
            Err(LineError::Version(self.v.to_string()))
        }
    }
}

fn parse_strict(line: &[u8]) -> Result<Value, LineError> {
    match serde_json::from_slice::<Strict>(line) {
        Ok(Strict(value)) => Ok(value),
        Err(error) if error.is_data() => Err(LineError::DuplicateKey(error.to_string())),
        Err(error) => Err(LineError::Json(error.to_string())),
    }
}

/// JSON in which a name twice in one object is an error: two readers would see two records.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;
impl<'de> de::Visitor<'de> for StrictVisitor {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(items.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, Strict(value))) = access.next_entry::<String, Strict>()? {
            if members.contains_key(&name) {
                return Err(de::Error::custom(format_args!("`{name}` occurs twice")));
            }
            members.insert(name, value);
        }
        Ok(members.into())
    }
}
