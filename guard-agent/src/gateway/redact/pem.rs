//! Private keys in PEM form, whole or cut off at the end.

use super::{RuleId, found::Found, scan};

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";
/// The shortest first line of a key whose end is missing. A shorter one is a sentence about keys.
const CUT: usize = 40;

pub(super) fn search(text: &str, found: &mut Found<'_>) {
    let mut place = 0;
    while let Some(start) = scan::find(text, place, BEGIN) {
        let label = start + BEGIN.len();
        place = label;
        let label_end = scan::run(text, label, |byte| {
            byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
        });
        if !scan::slice(text, label..label_end).contains("PRIVATE KEY")
            || !scan::slice(text, label_end..text.len()).starts_with(DASHES)
        {
            continue;
        }
        let body = label_end + DASHES.len();
        // The search goes on at the next dashes whatever they are: no part of the text is looked at twice.
        let dashes = scan::find(text, body, DASHES);
        let rest = scan::slice(text, dashes.unwrap_or(text.len())..text.len());
        let end = match dashes {
            Some(dashes) if rest.starts_with("-----END ") => {
                let close = scan::find(text, dashes + DASHES.len(), DASHES);
                let label = scan::run(text, dashes + "-----END ".len(), |byte| {
                    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
                });
                if close == Some(label) {
                    label + DASHES.len()
                } else {
                    label
                }
            }
            _ => match cut(text, body) {
                Some(end) => end,
                None => continue,
            },
        };
        found.add(RuleId::PrivateKey, start..end);
        place = end;
    }
}

/// Where a key that has no end ends: after the last line that can be of one.
fn cut(text: &str, body: usize) -> Option<usize> {
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    // Line ends, as such or as they are written in strings.
    let between = |byte: u8| byte.is_ascii_whitespace() || byte == b'\\';
    let start = scan::run(text, body, |byte| between(byte) || byte == b'n' || byte == b'r');
    if scan::run(text, start, base64) - start < CUT {
        return None;
    }
    Some(scan::run(text, start, |byte| base64(byte) || between(byte)))
}
