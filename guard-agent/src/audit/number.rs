//! Whole numbers that survive RFC 8785, whose only number is the double.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The greatest whole number that every JSON reader keeps exactly.
const EXACT: u64 = (1 << 53) - 1;

/// A count, an inode or device number. A JSON number up to 2^53 − 1, a string of decimal digits above:
/// the canonical form would merge neighbours there, and 64-bit inode numbers do occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Number(pub u64);

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(value)
    }
}
impl From<u32> for Number {
    fn from(value: u32) -> Self {
        Self(value.into())
    }
}
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 <= EXACT {
            serializer.serialize_u64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, as a number or as decimal digits")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                text.parse()
                    .map(Number)
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_above_the_exact_range_stay_apart() {
        for value in [0, EXACT, EXACT + 1, EXACT + 2, u64::MAX] {
            let json = serde_json_canonicalizer::to_string(&Number(value)).unwrap();
            assert_eq!(
                serde_json::from_str::<Number>(&json).unwrap(),
                Number(value),
                "{json}"
            );
        }
        assert_eq!(
            serde_json_canonicalizer::to_string(&Number(EXACT)).unwrap(),
            "9007199254740991"
        );
        assert_eq!(
            serde_json_canonicalizer::to_string(&Number(EXACT + 1)).unwrap(),
            "\"9007199254740992\""
        );
    }
}
