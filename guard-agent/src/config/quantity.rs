//! Amounts as people write them: `512M`, `150%`.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de};

/// Bytes: a whole number with `K`, `M`, `G` or `T` (powers of 1024), or without for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

/// Per cent of one processor: `100%` is one, `250%` two and a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub u32);

/// A time: a whole number with `ms`, `s`, `m` or `h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Size {
    fn parse(text: &str) -> Option<Self> {
        let (digits, shift) = match text.as_bytes().last()? {
            b'K' => (&text[..text.len() - 1], 10),
            b'M' => (&text[..text.len() - 1], 20),
            b'G' => (&text[..text.len() - 1], 30),
            b'T' => (&text[..text.len() - 1], 40),
            _ => (text, 0),
        };
        whole(digits)?.checked_mul(1 << shift).map(Self)
    }
}

impl Percent {
    fn parse(text: &str) -> Option<Self> {
        whole(text.strip_suffix('%')?)?.try_into().ok().map(Self)
    }
}

impl Span {
    fn parse(text: &str) -> Option<Self> {
        let (digits, millis) = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)]
            .into_iter()
            .find_map(|(unit, millis)| Some((text.strip_suffix(unit)?, millis)))?;
        let digits = Some(digits).filter(|digits| !digits.is_empty())?;
        whole(digits)?
            .checked_mul(millis)
            .map(Duration::from_millis)
            .map(Self)
    }
}

/// Digits only: `parse` alone would take a sign.
fn whole(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

struct Text<T> {
    parse: fn(&str) -> Option<T>,
    expected: &'static str,
}

impl<T> de::Visitor<'_> for Text<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::custom(format_args!("`{text}` is not {}", self.expected)))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text {
            parse: Self::parse,
            expected: "a size such as \"512M\"",
        })
    }
}
impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text {
            parse: Self::parse,
            expected: "a time such as \"30s\", \"5m\" or \"500ms\"",
        })
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text {
            parse: Self::parse,
            expected: "a share such as \"100%\"",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(Size::parse("512M"), Some(Size(512 << 20)));
        assert_eq!(Size::parse("4096"), Some(Size(4096)));
        assert_eq!(Size::parse("1T"), Some(Size(1 << 40)));
        for bad in [
            "",
            "M",
            "-1M",
            "+1M",
            "1 M",
            "1.5G",
            "512m",
            "512MB",
            "ä",
            "99999999999999999999",
            "18446744073709551615K",
        ] {
            assert_eq!(Size::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(Percent::parse("100%"), Some(Percent(100)));
        for bad in ["", "%", "100", "-5%", "+5%", "1.5%", "4294967296%"] {
            assert_eq!(Percent::parse(bad), None, "{bad}");
        }
    }
}
