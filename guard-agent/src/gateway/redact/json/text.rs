//! The text that a JSON string stands for, and where in the string each byte of it comes from.

use std::{borrow::Cow, ops::Range};

use crate::gateway::redact::scan;

pub(super) struct Text<'a> {
    plain: Cow<'a, str>,
    /// Nothing where there is no escape: the places are the same.
    from: Option<Vec<usize>>,
}

impl<'a> Text<'a> {
    /// The inside of a string of valid JSON.
    pub(super) fn of(raw: &'a str) -> Self {
        if raw.contains('\\') {
            Self::unescaped(raw)
        } else {
            Self::plain(raw)
        }
    }

    /// What stands for itself.
    pub(super) fn plain(raw: &'a str) -> Self {
        Self {
            plain: Cow::Borrowed(raw),
            from: None,
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.plain
    }

    /// Where in the string a part of the text is written.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        match &self.from {
            None => range.clone(),
            Some(from) => {
                let place = |at: usize| from.get(at).copied().unwrap_or(0);
                place(range.start)..place(range.end)
            }
        }
    }

    fn unescaped(raw: &str) -> Self {
        let mut plain = String::with_capacity(raw.len());
        let mut from = Vec::with_capacity(raw.len() + 1);
        let mut place = 0;
        while place < raw.len() {
            let rest = scan::slice(raw, place..raw.len());
            let literal = rest.find('\\').unwrap_or(rest.len());
            plain.push_str(scan::slice(rest, 0..literal));
            from.extend(place..place + literal);
            place += literal;
            if let Some((length, letter)) = escape(scan::slice(rest, literal..rest.len())) {
                plain.push(letter);
                from.extend(std::iter::repeat_n(place, letter.len_utf8()));
                place += length;
            }
        }
        from.push(raw.len());
        Self {
            plain: Cow::Owned(plain),
            from: Some(from),
        }
    }
}

/// How long the escape at the start is, and what it stands for. Half a surrogate pair, which JSON allows, stands
/// for no character and is read as the one for that.
fn escape(rest: &str) -> Option<(usize, char)> {
    let letter = match scan::at(rest, 1) {
        0 => return None,
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return Some(unicode(rest)),
        other => char::from(other),
    };
    Some((2, letter))
}

fn unicode(rest: &str) -> (usize, char) {
    let unit = |from: usize| {
        let digits =
            (scan::slice(rest, from..from + 2) == "\\u").then(|| scan::slice(rest, from + 2..from + 6))?;
        u16::from_str_radix(digits, 16).ok()
    };
    let units = [unit(0), unit(6)].map(Option::unwrap_or_default);
    let mut letters = char::decode_utf16(units);
    match letters.next() {
        Some(Ok(letter)) => (if letter.len_utf16() == 2 { 12 } else { 6 }, letter),
        _ => (6, char::REPLACEMENT_CHARACTER),
    }
}
