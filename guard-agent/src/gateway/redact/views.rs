//! A text as it is written and as it can be read: percent-encoding, backslash escapes and base64 undone.

use std::ops::Range;

use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{context, entropy, found::Found, pem, personal, scan, table::Table};

/// How many encodings around each other are undone. Each costs at most three texts more.
const DEPTH: usize = 2;
/// Less base64 than this holds no secret that could be told from anything.
const LEAST_BASE64: usize = 16;
/// Lines of this many characters may go on on the next one.
const WRAPPED: usize = 60;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const FOR_URLS: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// All searches over a text and over what can be read from it.
pub(super) fn search(text: &str, name: &str, table: &Table, found: &mut Found<'_>) {
    at_depth(text, name, table, found, 0);
}

fn at_depth(text: &str, name: &str, table: &Table, found: &mut Found<'_>, depth: usize) {
    table.search(text, found);
    pem::search(text, found);
    context::search(text, found);
    entropy::search(text, name, found);
    personal::search(text, name, found);
    if depth == DEPTH {
        return;
    }
    for undo in [percent, backslash] {
        if let Some(read) = undo(text) {
            let mut inner = found.another();
            at_depth(&read.text, name, table, &mut inner, depth + 1);
            for of in inner.into_matches() {
                found.add(of.rule, read.source(&of.range));
            }
        }
    }
    for (range, plain) in base64_runs(text) {
        let mut inner = found.another();
        at_depth(&plain, name, table, &mut inner, depth + 1);
        // Bytes of base64 do not stand for bytes of text: all of it goes.
        if let Some(rule) = inner.into_matches().iter().map(|of| of.rule).min() {
            found.add(rule, range);
        }
    }
}

/// A text that was read from another one, and where each of its bytes came from.
struct Read {
    text: String,
    from: Vec<Range<usize>>,
}

impl Read {
    fn source(&self, range: &Range<usize>) -> Range<usize> {
        let of = |at: usize| self.from.get(at).cloned().unwrap_or(0..0);
        of(range.start).start..of(range.end.saturating_sub(1)).end
    }
}

/// Reads the lines of a text that escapes stand in: in the others there is nothing that was not there before.
/// `escape` says how long the one at a place is and what it stands for.
fn read(text: &str, mark: char, escape: impl Fn(&str) -> Option<(usize, char)>) -> Option<Read> {
    let mut out = Read {
        text: String::new(),
        from: Vec::new(),
    };
    let mut undone = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let mut place = if line.contains(mark) { 0 } else { line.len() };
        while place < line.len() {
            let rest = scan::slice(line, place..line.len());
            if let Some((length, letter)) = escape(rest) {
                undone = true;
                let escaped = start + place..start + place + length;
                out.from.extend(std::iter::repeat_n(escaped, letter.len_utf8()));
                out.text.push(letter);
                place += length;
            } else {
                let skip = usize::from(rest.starts_with(mark));
                let next = rest.get(skip..).and_then(|rest| rest.find(mark));
                let plain = next.map_or(rest.len(), |next| skip + next);
                out.from
                    .extend((start + place..start + place + plain).map(|at| at..at + 1));
                out.text.push_str(scan::slice(rest, 0..plain));
                place += plain;
            }
        }
        start += line.len();
    }
    undone.then_some(out)
}

/// `%40`. What is not UTF-8 when undone stays as it is.
fn percent(text: &str) -> Option<Read> {
    read(text, '%', |rest| {
        let mut bytes = Vec::with_capacity(4);
        // A character has four bytes at most.
        for part in rest.as_bytes().chunks_exact(3).take(4) {
            let [b'%', high, low] = *part else { break };
            bytes.push(u8::try_from(hex(&[high, low])?).ok()?);
            if let Ok(plain) = std::str::from_utf8(&bytes) {
                return Some((bytes.len() * 3, plain.chars().next()?));
            }
        }
        None
    })
}

/// `\n`, `\"`, `\u0040`: a text that holds JSON or a program's string.
fn backslash(text: &str) -> Option<Read> {
    read(text, '\\', |rest| {
        if scan::at(rest, 0) != b'\\' {
            return None;
        }
        let plain = match scan::at(rest, 1) {
            letter @ (b'"' | b'\'' | b'\\' | b'/') => char::from(letter),
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return Some((6, char::from_u32(hex(rest.as_bytes().get(2..6)?)?)?)),
            _ => return None,
        };
        Some((2, plain))
    })
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| {
        Some(value * 16 + char::from(*digit).to_digit(16)?)
    })
}

/// Runs of base64 that stand for text.
fn base64_runs(text: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut place = 0;
    loop {
        let start = scan::run(text, place, |byte| !scan::in_base64(byte));
        if start >= text.len() {
            return found;
        }
        let mut end = scan::run(text, start, scan::in_base64);
        let mut line = start;
        // Mail and PEM wrap it.
        while end - line >= WRAPPED {
            let next = scan::run(text, end, |byte| byte == b'\r' || byte == b'\n');
            if next == end || next - end > 2 || !scan::in_base64(scan::at(text, next)) {
                break;
            }
            line = next;
            end = scan::run(text, next, scan::in_base64);
        }
        let padded = scan::run(text, end, |byte| byte == b'=');
        if end - start >= LEAST_BASE64
            && let Some(plain) = base64(scan::slice(text, start..padded.min(end + 2)))
        {
            found.push((start..padded.min(end + 2), plain));
        }
        place = padded.max(end);
    }
}

/// What base64 stands for, if that is text.
pub(super) fn base64(code: &str) -> Option<String> {
    let joined: String = code
        .chars()
        .filter(|letter| !letter.is_ascii_whitespace())
        .collect();
    let engine = if joined.contains(['-', '_']) {
        FOR_URLS
    } else {
        PLAIN
    };
    let text = String::from_utf8(engine.decode(joined.as_bytes()).ok()?).ok()?;
    let readable = |letter: char| !letter.is_control() || letter.is_ascii_whitespace();
    text.chars().all(readable).then_some(text)
}
