//! Text that is there and is not seen.

use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::Rule;

/// Docstrings indent by less, and what is further away is out of sight.
const BLANKS: usize = 64;
const EMPTY_LINES: usize = 12;
/// Less base64 than this says nothing.
const LEAST_BASE64: usize = 32;
/// Of which so many words.
const LEAST_WORDS: usize = 3;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const FOR_URLS: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Whether a character is shown as an escape: it cannot be seen, or moves what can.
pub(in crate::gateway::pins) fn hidden(one: char) -> bool {
    rule_of(one).is_some()
}

/// Which rule a character breaks where nothing around it excuses it.
fn rule_of(one: char) -> Option<Rule> {
    Some(match one {
        '\n' | '\t' | '\r' | ' '..='~' => return None,
        '\u{1b}' | '\u{9b}' => Rule::TerminalEscape,
        _ if one.is_control() => Rule::ControlCharacter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Rule::Bidi,
        '\u{e0000}'..='\u{e007f}' => Rule::TagCharacter,
        // Unicode's Default_Ignorable_Code_Point, line separators, annotations, and letters without ink.
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0080}'..='\u{e0fff}' => Rule::HiddenCharacter,
        _ => return None,
    })
}

/// What a text hides, each with where.
pub(super) fn search(text: &str, found: &mut Vec<(Rule, usize)>) {
    if let Some(at) = text.find("<!--") {
        found.push((Rule::HtmlComment, at));
    }
    blank_run(text, found);
    if text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r'))
    {
        return;
    }
    let mut before = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, one)) = characters.next() {
        let after = characters.peek().map(|(_, after)| *after);
        if let Some(rule) = rule_of(one).filter(|_| !excused(before, one, after)) {
            found.push((rule, at));
        }
        before = Some(one);
    }
}

/// A selector of how an emoji looks, and a joiner of emoji or of letters in scripts that join them.
fn excused(before: Option<char>, one: char, after: Option<char>) -> bool {
    let joins = |side: Option<char>| side.is_some_and(|side| !side.is_ascii() && !hidden(side));
    match one {
        '\u{fe0e}' | '\u{fe0f}' => joins(before) || matches!(before, Some('#' | '*' | '0'..='9')),
        '\u{200c}' | '\u{200d}' => (joins(before) || before == Some('\u{fe0f}')) && joins(after),
        _ => false,
    }
}

fn blank_run(text: &str, found: &mut Vec<(Rule, usize)>) {
    let (mut blanks, mut lines) = (0, 0);
    for (at, one) in text.char_indices() {
        if one.is_whitespace() || one == '\u{2800}' {
            blanks += 1;
            lines += usize::from(one == '\n');
            continue;
        }
        if blanks >= BLANKS || lines >= EMPTY_LINES {
            found.push((Rule::BlankRun, at));
            return;
        }
        (blanks, lines) = (0, 0);
    }
}

/// Base64 that stands for words.
pub(super) fn encoded(text: &str, found: &mut Vec<(Rule, usize)>) {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    let mut start = 0;
    for piece in text.as_bytes().split(|byte| !part(*byte)) {
        if piece.len() >= LEAST_BASE64 && says_something(piece) {
            found.push((Rule::EncodedText, start));
            return;
        }
        start += piece.len() + 1;
    }
}

fn says_something(piece: &[u8]) -> bool {
    let piece = piece
        .strip_suffix(b"==")
        .or(piece.strip_suffix(b"="))
        .unwrap_or(piece);
    let engine = if piece.iter().any(|byte| matches!(byte, b'-' | b'_')) {
        FOR_URLS
    } else {
        PLAIN
    };
    let Some(text) = engine
        .decode(piece)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
    else {
        return false;
    };
    let readable = |one: char| !one.is_control() || one.is_ascii_whitespace();
    text.chars().all(readable) && text.split_whitespace().count() >= LEAST_WORDS
}
