//! One strict pass over a JSON text: its grammar, and what readers of JSON disagree about.
//!
//! Readers differ in which of two equal keys they take, in what half a surrogate pair is and in how deep they follow.
//! What one of them could read differently than we do never passes, so that what was checked is what the server reads.

use std::{borrow::Cow, ops::Range};

/// Nesting beyond this is refused: the readers behind us recurse.
const DEPTH: usize = 128;

/// Up to so many keys are compared pair by pair.
const FEW: usize = 16;

/// Why a text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum Flaw {
    #[error("byte {0} is not UTF-8")]
    Utf8(usize),
    #[error("it is not JSON at byte {0}")]
    Grammar(usize),
    #[error("the escape at byte {0} is half a surrogate pair")]
    Surrogate(usize),
    #[error("it is nested deeper than {DEPTH} levels at byte {0}")]
    Depth(usize),
}

/// A member of an object: where its key is, between the quotes, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct Member {
    pub(in crate::gateway) key: Range<usize>,
    pub(in crate::gateway) value: Range<usize>,
}

/// What was found in a text.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Found {
    /// Those of the outermost object, also of a text that is cut off or breaks off at a flaw.
    pub(in crate::gateway) members: Vec<Member>,
    /// A key that stands twice in one object: where the second one ends.
    pub(in crate::gateway) duplicate: Option<usize>,
    pub(in crate::gateway) flaw: Option<Flaw>,
}

/// Reads the whole text.
pub(in crate::gateway) fn scan(text: &[u8]) -> Found {
    let mut scanner = Scanner {
        text,
        at: 0,
        keys: Vec::new(),
        found: Found::default(),
    };
    let utf8 = std::str::from_utf8(text).err().map(|error| error.valid_up_to());
    let result = scanner.document();
    let mut found = scanner.found;
    // Bytes that are no characters can stand in strings alone, which the pass does not look into.
    found.flaw = utf8.map(Flaw::Utf8).or(result.err());
    found
}

/// The members of an object that `scan` found nothing wrong with; of another value none.
pub(in crate::gateway) fn members(text: &[u8], value: Range<usize>) -> Vec<Member> {
    let Some(inner) = text.get(value.clone()) else {
        return Vec::new();
    };
    let shift = |range: Range<usize>| range.start + value.start..range.end + value.start;
    let mut found = Vec::new();
    let mut at = 1;
    if inner.first() != Some(&b'{') {
        return found;
    }
    while let Some(key) = string_from(inner, &mut at) {
        let Some(start) = next_token(inner, at, b": \t\r\n,") else {
            break;
        };
        at = skip(inner, start);
        found.push(Member {
            key: shift(key),
            value: shift(start..at),
        });
    }
    found
}

/// The elements of an array that `scan` found nothing wrong with.
pub(in crate::gateway) fn elements(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 1 + text.iter().position(|byte| *byte == b'[').unwrap_or(text.len());
    while let Some(start) = next_token(text, at, b" \t\r\n,") {
        at = skip(text, start);
        // The end; or, in a text that is not sound, something that no array has.
        if at == start {
            break;
        }
        found.push(start..at);
    }
    found
}

/// A string without its quotes, unescaped.
pub(in crate::gateway) fn unescape(inner: &[u8]) -> Option<Cow<'_, str>> {
    if !inner.contains(&b'\\') {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    let mut quoted = Vec::with_capacity(inner.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(inner);
    quoted.push(b'"');
    serde_json::from_slice::<String>(&quoted).ok().map(Cow::Owned)
}

/// The text with U+FFFD for each half of a surrogate pair that stands alone, as its readers would show it.
pub(in crate::gateway) fn mended(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (before, escape) = rest.split_at(at);
        out.extend_from_slice(before);
        let length = match (unit_of(escape), escape.get(6..).and_then(unit_of)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.extend_from_slice(b"\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 2,
        };
        let (whole, after) = escape.split_at(length.min(escape.len()));
        out.extend_from_slice(whole);
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

/// The unit that the escape at the beginning stands for.
fn unit_of(escape: &[u8]) -> Option<u32> {
    let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A value that is a string, unescaped.
pub(in crate::gateway) fn text_of(value: &[u8]) -> Option<Cow<'_, str>> {
    unescape(value.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

fn next_token(text: &[u8], at: usize, between: &[u8]) -> Option<usize> {
    let rest = text.get(at..)?;
    Some(at + rest.iter().position(|byte| !between.contains(byte))?)
}

/// The next string, if that comes next: its inside. `at` moves behind it.
fn string_from(text: &[u8], at: &mut usize) -> Option<Range<usize>> {
    let start = next_token(text, *at, b" \t\r\n,")?;
    if text.get(start) != Some(&b'"') {
        return None;
    }
    let end = string_end(text, start + 1);
    *at = end + 1;
    Some(start + 1..end)
}

/// Where the closing quote of a string is whose inside begins at `at`.
fn string_end(text: &[u8], mut at: usize) -> usize {
    loop {
        match text.get(at) {
            None | Some(b'"') => return at.min(text.len()),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The end of the sound value that begins at `start`.
fn skip(text: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match text.get(at) {
            None => return text.len(),
            Some(b'"') => at = (string_end(text, at + 1) + 1).min(text.len()),
            Some(b'{' | b'[') => {
                depth += 1;
                at += 1;
                continue;
            }
            Some(b'}' | b']') if depth == 0 => return at,
            Some(b'}' | b']') => {
                depth -= 1;
                at += 1;
            }
            Some(b',' | b' ' | b'\t' | b'\r' | b'\n') if depth == 0 => return at,
            Some(_) => {
                at += 1;
                if depth == 0 {
                    continue;
                }
            }
        }
        if depth == 0 {
            return at;
        }
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The keys of all objects that are open, the innermost at the end.
    keys: Vec<Range<usize>>,
    found: Found,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Flaw> {
        self.blanks();
        self.value(0)?;
        self.blanks();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    fn wrong(&self) -> Flaw {
        Flaw::Grammar(self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// No carriage return: some readers end a line there, and what follows would be a message of its own to them.
    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Result<(), Flaw> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), Flaw> {
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.wrong()),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Flaw> {
        word.iter().try_for_each(|byte| self.take(*byte))
    }

    fn deeper(&self, depth: usize) -> Result<usize, Flaw> {
        if depth == DEPTH {
            Err(Flaw::Depth(self.at))
        } else {
            Ok(depth + 1)
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Flaw> {
        let inside = self.deeper(depth)?;
        let mine = self.keys.len();
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.keys.push(key.clone());
            self.blanks();
            self.take(b':')?;
            self.blanks();
            let start = self.at;
            self.value(inside)?;
            if depth == 0 {
                self.found.members.push(Member {
                    key,
                    value: start..self.at,
                });
            }
            self.blanks();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.blanks();
                }
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                _ => return Err(self.wrong()),
            }
        }
        let duplicate = self.keys.get(mine..).and_then(|keys| duplicate(self.text, keys));
        self.found.duplicate = self.found.duplicate.or(duplicate);
        self.keys.truncate(mine);
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), Flaw> {
        let inside = self.deeper(depth)?;
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(inside)?;
            self.blanks();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.blanks();
                }
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.wrong()),
            }
        }
    }

    /// Where its inside is.
    fn string(&mut self) -> Result<Range<usize>, Flaw> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(start..self.at - 1);
                }
                Some(b'\\') => self.escape()?,
                Some(0..0x20) | None => return Err(self.wrong()),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Flaw> {
        let begin = self.at;
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => match self.unit()? {
                0xdc00..=0xdfff => Err(Flaw::Surrogate(begin)),
                0xd800..=0xdbff => {
                    if self.text.get(self.at..self.at + 2) != Some(b"\\u") {
                        return Err(Flaw::Surrogate(begin));
                    }
                    self.at += 1;
                    match self.unit()? {
                        0xdc00..=0xdfff => Ok(()),
                        _ => Err(Flaw::Surrogate(begin)),
                    }
                }
                _ => Ok(()),
            },
            _ => Err(self.wrong()),
        }
    }

    /// `uXXXX`.
    fn unit(&mut self) -> Result<u32, Flaw> {
        self.take(b'u')?;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            unit = unit << 4 | digit.ok_or_else(|| self.wrong())?;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<(), Flaw> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Flaw> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.wrong());
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }
}

/// The end of a key that says the same as another one of them.
fn duplicate(text: &[u8], keys: &[Range<usize>]) -> Option<usize> {
    let key = |range: &Range<usize>| text.get(range.clone()).and_then(unescape);
    if keys.len() <= FEW {
        return keys.iter().enumerate().find_map(|(index, one)| {
            let before = keys.get(..index).unwrap_or_default();
            let same = |other: &Range<usize>| {
                let raw = |range: &Range<usize>| text.get(range.clone());
                raw(one) == raw(other)
                    || raw(one)
                        .into_iter()
                        .chain(raw(other))
                        .any(|raw| raw.contains(&b'\\'))
                        && key(one) == key(other)
            };
            before.iter().any(same).then_some(one.end)
        });
    }
    let mut sorted: Vec<(Option<Cow<'_, str>>, usize)> =
        keys.iter().map(|range| (key(range), range.end)).collect();
    sorted.sort_unstable();
    sorted.windows(2).find_map(|pair| match pair {
        [(one, _), (other, end)] if one == other => Some(*end),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
