//! Points in time as somebody types them.

use jiff::{Span, SpanRelativeTo, Timestamp, civil, tz::TimeZone};

use crate::audit::Stamp;

/// A day has two ends, a moment one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct When {
    first: Timestamp,
    last: Timestamp,
}

impl When {
    pub(super) fn since(self) -> Stamp {
        self.first.into()
    }

    pub(super) fn until(self) -> Stamp {
        self.last.into()
    }
}

/// RFC 3339, the same without an offset (UTC), a date (that whole day, UTC), or how long ago.
pub(super) fn parse(text: &str) -> Result<When, String> {
    at(text.trim(), Timestamp::now())
}

fn at(text: &str, now: Timestamp) -> Result<When, String> {
    let moment = |time: Timestamp| When {
        first: time,
        last: time,
    };
    let utc = |time: civil::DateTime| time.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp());
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(moment(time));
    }
    let is_date = text.len() == "2026-11-30".len();
    if let (true, Ok(day)) = (is_date, text.parse::<civil::Date>()) {
        let (start, end) = (day.at(0, 0, 0, 0), day.at(23, 59, 59, 999_999_999));
        if let (Ok(first), Ok(last)) = (utc(start), utc(end)) {
            return Ok(When { first, last });
        }
    }
    if let (false, Ok(time)) = (is_date, text.parse::<civil::DateTime>()) {
        return utc(time).map(moment).map_err(|error| error.to_string());
    }
    if let Ok(span) = text.parse::<Span>() {
        // Months and years are of no fixed length.
        let ago = span
            .abs()
            .to_duration(SpanRelativeTo::days_are_24_hours())
            .and_then(|ago| now.checked_sub(ago));
        return ago
            .map(moment)
            .map_err(|_| "a span of weeks, days, hours, minutes and seconds is needed".into());
    }
    Err(
        "not a time: known forms are `2026-11-30T10:00:00Z`, `2026-11-30T11:00+01:00`, `2026-11-30 10:00` \
         (UTC), `2026-11-30` (that day, UTC), and how long ago: `10m`, `2h`, `3d`, `1h30m`"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, String), String> {
        let now = "2026-11-30T12:00:00Z".parse().unwrap();
        at(text, now).map(|when| (when.first.to_string(), when.last.to_string()))
    }

    #[test]
    fn moments_days_and_spans() {
        for (text, expected) in [
            ("2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z"),
            ("2026-11-30T10:00:00.000001Z", "2026-11-30T10:00:00.000001Z"),
            ("2026-11-30T11:00:00+01:00", "2026-11-30T10:00:00Z"),
            ("2026-11-30T10:00", "2026-11-30T10:00:00Z"),
            ("2026-11-30 10:00:30", "2026-11-30T10:00:30Z"),
            ("10m", "2026-11-30T11:50:00Z"),
            ("2h", "2026-11-30T10:00:00Z"),
            ("3d", "2026-11-27T12:00:00Z"),
            ("1w", "2026-11-23T12:00:00Z"),
            ("1h30m", "2026-11-30T10:30:00Z"),
            ("90s ago", "2026-11-30T11:58:30Z"),
            ("PT5M", "2026-11-30T11:55:00Z"),
        ] {
            assert_eq!(read(text), Ok((expected.into(), expected.into())), "{text}");
        }
        let day = ("2026-11-29T00:00:00Z", "2026-11-29T23:59:59.999999999Z");
        assert_eq!(read("2026-11-29"), Ok((day.0.into(), day.1.into())));
    }

    #[test]
    fn what_is_no_time_says_what_is() {
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "10",
            "m",
            "1764457801",
            "2026-11-30T25:00",
        ] {
            assert!(read(text).unwrap_err().starts_with("not a time"), "{text}");
        }
        for text in ["1mo", "2y", "99999999999999d"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
