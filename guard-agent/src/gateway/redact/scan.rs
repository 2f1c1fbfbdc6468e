//! Steps over text that the rules share. A place outside the text reads as a zero byte, which is in no class.

use std::ops::Range;

use super::mask;

/// The byte at a place.
pub(super) fn at(text: &str, place: usize) -> u8 {
    text.as_bytes().get(place).copied().unwrap_or(0)
}

/// The byte before a place.
pub(super) fn before(text: &str, place: usize) -> u8 {
    place.checked_sub(1).map_or(0, |place| at(text, place))
}

/// That part of the text, or nothing where that cuts a character.
pub(super) fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or("")
}

/// Where the run of such bytes that starts here ends.
pub(super) fn run(text: &str, start: usize, mut class: impl FnMut(u8) -> bool) -> usize {
    let rest = text.as_bytes().get(start..).unwrap_or(&[]);
    start + rest.iter().position(|byte| !class(*byte)).unwrap_or(rest.len())
}

/// Where the run of such bytes that ends here starts, at most that many back.
pub(super) fn run_back(text: &str, end: usize, most: usize, class: impl Fn(u8) -> bool) -> usize {
    let start = end.saturating_sub(most);
    let part = text.as_bytes().get(start..end).unwrap_or(&[]);
    end - part.iter().rev().take_while(|byte| class(**byte)).count()
}

/// At most that many bytes before a place, on its line, cut to whole characters and after the last mask.
pub(super) fn line_before(text: &str, place: usize, most: usize) -> &str {
    // A mask that starts before the reach must be seen as one.
    let all = run_back(text, place, most + mask::LONGEST, |byte| byte != b'\n');
    let start = place.saturating_sub(most).max(all);
    let cut = |start: usize| {
        (start..=place)
            .find_map(|start| text.get(start..place))
            .unwrap_or("")
    };
    let plain = mask::after_last(cut(all));
    if plain.len() < place - start {
        plain
    } else {
        cut(start)
    }
}

/// The end of a text: at most that many bytes, cut to whole characters.
pub(super) fn tail(text: &str, most: usize) -> &str {
    let start = text.len().saturating_sub(most);
    (start..=text.len())
        .find_map(|start| text.get(start..))
        .unwrap_or("")
}

/// Runs of such bytes, each as long as it can be.
pub(super) fn runs<'a>(
    text: &'a str,
    class: impl Fn(u8) -> bool + Copy + 'a,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut place = 0;
    std::iter::from_fn(move || {
        let start = run(text, place, |byte| !class(byte));
        if start >= text.len() {
            return None;
        }
        place = run(text, start, class);
        Some(start..place)
    })
}

/// A letter or digit. Only ASCII ones: a key may stand right after a word of a script that has no spaces.
pub(super) fn word(byte: u8) -> bool {
    has(byte, LETTER | DIGIT)
}

/// A letter, of ASCII.
pub(super) fn letter(byte: u8) -> bool {
    has(byte, LETTER)
}

/// What base64 is made of, as it stands in text and in addresses.
pub(super) fn in_base64(byte: u8) -> bool {
    has(byte, LETTER | DIGIT | MARK)
}

const LETTER: u8 = 1;
const DIGIT: u8 = 2;
/// `+`, `/`, `-` and `_`.
const MARK: u8 = 4;

/// Several rules walk over every byte of a text: a look into a table takes half as long as comparing ranges.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let letter = byte as u8;
        classes[byte] = if letter.is_ascii_alphabetic() {
            LETTER
        } else if letter.is_ascii_digit() {
            DIGIT
        } else if matches!(letter, b'+' | b'/' | b'-' | b'_') {
            MARK
        } else {
            0
        };
        byte += 1;
    }
    classes
}

fn has(byte: u8, class: u8) -> bool {
    CLASSES
        .get(usize::from(byte))
        .is_some_and(|classes| classes & class != 0)
}

/// Where this stands first, at that place or after it.
pub(super) fn find(text: &str, from: usize, what: &str) -> Option<usize> {
    let rest = text.as_bytes().get(from..)?;
    memchr::memmem::find(rest, what.as_bytes()).map(|at| from + at)
}

/// The text has one of the words after its last mask, in whatever way it joins words: they are looked for with a
/// space between them and before the first.
pub(super) fn mentions(text: &str, words: &[&str]) -> bool {
    let text = mask::after_last(text);
    let mut plain = String::with_capacity(text.len() + 1);
    let mut last = ' ';
    plain.push(last);
    for letter in text.chars() {
        if last.is_ascii_lowercase() && letter.is_ascii_uppercase() {
            plain.push(' ');
        }
        let joint = letter.is_ascii() && !letter.is_ascii_alphanumeric();
        plain.push(if joint { ' ' } else { letter.to_ascii_lowercase() });
        last = letter;
    }
    words.iter().any(|word| plain.contains(word))
}
