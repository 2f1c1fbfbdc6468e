//! Words that look random and stand after a word like `secret`. Looking random alone is not enough: hashes, ids
//! and encoded data do, too.

use super::{RuleId, found::Found, scan};

const LEAST: usize = 20;
const MOST: usize = 200;
/// How far before it, on its line, the word may stand.
const REACH: usize = 40;
/// Bits a byte. Twenty different bytes have 4.3.
const BITS: f64 = 3.5;

const CONTEXT: &[&str] = &[
    "secret",
    "token",
    "credential",
    "password",
    "passphrase",
    "api key",
    "apikey",
    "access key",
    "bearer",
    "authoriz",
];

pub(super) fn search(text: &str, name: &str, found: &mut Found<'_>) {
    for run in scan::runs(text, scan::in_base64) {
        if (LEAST..=MOST).contains(&run.len())
            && random(scan::slice(text, run.clone()))
            && (secret(name) || secret(scan::line_before(text, run.start, REACH)))
        {
            found.add(
                RuleId::Entropy,
                run.start..scan::run(text, run.end, |byte| byte == b'='),
            );
        }
    }
}

/// What is said of a public key or of a place in a list is no secret.
const NOT_SECRET: &[&str] = &[
    "public",
    "page",
    "pagination",
    "cursor",
    "continuation",
    "progress",
];

fn secret(context: &str) -> bool {
    scan::mentions(context, CONTEXT) && !scan::mentions(context, NOT_SECRET)
}

fn random(word: &str) -> bool {
    let has = |class: fn(&u8) -> bool| word.as_bytes().iter().any(class);
    let digits = scan::runs(word, |byte| byte.is_ascii_digit()).count();
    // Identifiers have their digits in one place, paths have slashes, public keys of SSH begin with a length.
    has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && digits >= 2
        && word.bytes().filter(|byte| *byte == b'/').count() < 3
        && !word.starts_with('/')
        && !word.starts_with("AAAA")
        && entropy(word) >= BITS
}

/// Shannon's, of the bytes.
fn entropy(word: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in word.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let length = f64::from(u32::try_from(word.len()).unwrap_or(u32::MAX));
    let shares = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}
