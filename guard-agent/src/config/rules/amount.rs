//! Times, rates and daily amounts as people write them: `15m`, `10/1m`, `20/day`.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de};

/// Beyond this a window is a mistake, and sums of times could overflow.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

/// A window remembers when each of its calls was.
const CALLS_MOST: u64 = 1_000_000;
/// What the state store can count to.
const AMOUNT_MOST: u64 = i64::MAX as u64;

/// A time: a whole number with `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

/// So many a UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Daily(pub u64);

/// So many in any window of that length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub calls: u64,
    pub window: Duration,
}

impl Period {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let unit = match text.as_bytes().last() {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3600,
            Some(b'd') => 24 * 3600,
            _ => return Err("is not a time such as \"30s\", \"15m\", \"1h\" or \"1d\""),
        };
        let number = text.get(..text.len() - 1).and_then(whole);
        let Some(number) = number else {
            return Err("is not a time such as \"30s\", \"15m\", \"1h\" or \"1d\"");
        };
        match number.checked_mul(unit).map(Duration::from_secs) {
            Some(Duration::ZERO) => Err("is no time at all"),
            Some(time) if time <= LONGEST => Ok(Self(time)),
            _ => Err("is longer than 31 days"),
        }
    }
}

impl Daily {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let number = text.strip_suffix("/day").and_then(whole);
        match number {
            Some(0) => Err("allows nothing"),
            Some(number) if number > AMOUNT_MOST => Err("is more than 9223372036854775807"),
            Some(number) => Ok(Self(number)),
            None => Err("is not an amount a day such as \"20/day\""),
        }
    }
}

impl Rate {
    fn parse(text: &str) -> Result<Self, &'static str> {
        const WANTED: &str = "is not a rate such as \"10/1m\"";
        let (calls, window) = text.split_once('/').ok_or(WANTED)?;
        match whole(calls).ok_or(WANTED)? {
            0 => Err("allows nothing"),
            calls if calls > CALLS_MOST => Err("is more than 1000000 calls"),
            calls => Period::parse(window)
                .map(|Period(window)| Self { calls, window })
                .map_err(|why| if why.starts_with("is not") { WANTED } else { why }),
        }
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

struct Text<T>(fn(&str) -> Result<T, &'static str>, &'static str);

impl<T> de::Visitor<'_> for Text<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(|why| E::custom(format_args!("`{text}` {why}")))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(Self::parse, "a time such as \"15m\""))
    }
}
impl<'de> Deserialize<'de> for Daily {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(Self::parse, "an amount a day such as \"20/day\""))
    }
}
impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(Self::parse, "a rate such as \"10/1m\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, seconds) in [("30s", 30), ("15m", 900), ("1h", 3600), ("31d", 31 * 86_400)] {
            assert_eq!(
                Period::parse(text),
                Ok(Period(Duration::from_secs(seconds))),
                "{text}"
            );
        }
        for (text, why) in [
            ("0s", "is no time at all"),
            ("32d", "is longer than 31 days"),
            ("18446744073709551615d", "is longer than 31 days"),
        ] {
            assert_eq!(Period::parse(text), Err(why), "{text}");
        }
        for text in [
            "",
            "s",
            "5",
            "-1s",
            "+1s",
            "1.5h",
            "1 s",
            "1S",
            "ä",
            "99999999999999999999s",
        ] {
            let why = Period::parse(text).unwrap_err();
            assert!(why.starts_with("is not a time"), "{text}: {why}");
        }
    }

    #[test]
    fn amounts_a_day() {
        assert_eq!(Daily::parse("20/day"), Ok(Daily(20)));
        assert_eq!(
            Daily::parse("9223372036854775807/day"),
            Ok(Daily(i64::MAX as u64))
        );
        assert_eq!(
            Daily::parse("9223372036854775808/day"),
            Err("is more than 9223372036854775807")
        );
        assert_eq!(Daily::parse("0/day"), Err("allows nothing"));
        for text in [
            "",
            "/day",
            "20",
            "20/hour",
            "-1/day",
            "1.5/day",
            "20/1d",
            "99999999999999999999/day",
        ] {
            assert_eq!(
                Daily::parse(text),
                Err("is not an amount a day such as \"20/day\""),
                "{text}"
            );
        }
    }

    #[test]
    fn rates() {
        let minute = Duration::from_secs(60);
        assert_eq!(
            Rate::parse("10/1m"),
            Ok(Rate {
                calls: 10,
                window: minute
            })
        );
        assert!(Rate::parse("1000000/1m").is_ok());
        assert_eq!(Rate::parse("1000001/1m"), Err("is more than 1000000 calls"));
        assert_eq!(Rate::parse("0/1m"), Err("allows nothing"));
        assert_eq!(Rate::parse("1/0s"), Err("is no time at all"));
        assert_eq!(Rate::parse("1/32d"), Err("is longer than 31 days"));
        for text in ["", "10", "/1m", "10/", "10/m", "10/day", "-1/1m", "1/1m/1m"] {
            assert_eq!(
                Rate::parse(text),
                Err("is not a rate such as \"10/1m\""),
                "{text}"
            );
        }
    }
}
