//! Whether a name says that what it names is secret.

use super::{mask, scan};

/// Names that end in these words.
const LAST: &[&str] = &[
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "secrets",
    "token",
    "authtoken",
    "accesstoken",
    "apitoken",
    "apikey",
    "apikeys",
    "secretkey",
    "privatekey",
    "accesskey",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "bearer",
    "cvv",
    "cvc",
    "mnemonic",
    "pgpassword",
];

/// Names whose last two words are these.
const PAIRS: &[(&str, &str)] = &[
    ("api", "key"),
    ("access", "key"),
    ("secret", "key"),
    ("private", "key"),
    ("signing", "key"),
    ("encryption", "key"),
    ("master", "key"),
    ("auth", "key"),
    ("account", "key"),
    ("deploy", "key"),
    ("service", "key"),
    ("storage", "key"),
    ("db", "pass"),
    ("user", "pass"),
    ("smtp", "pass"),
    ("mail", "pass"),
    ("mysql", "pass"),
    ("postgres", "pass"),
    ("redis", "pass"),
    ("root", "pass"),
    ("admin", "pass"),
    ("ftp", "pass"),
    ("ssh", "pass"),
    ("wifi", "pass"),
    ("seed", "phrase"),
    ("recovery", "phrase"),
    ("recovery", "code"),
];

/// A token that is a place in a list, a part of a text, or MCP's own.
const NOT_SECRET: &[&str] = &[
    "page",
    "pagination",
    "progress",
    "next",
    "continuation",
    "continue",
    "sync",
    "resume",
    "cursor",
    "prompt",
    "completion",
    "input",
    "output",
    "max",
    "stop",
    "eos",
    "bos",
    "pad",
    "unk",
    "mask",
    "special",
    "start",
    "end",
    "cancellation",
];

/// The longest part of a name that is looked at: its end.
pub(super) const LONGEST: usize = 64;

/// A byte that names are made of.
pub(super) fn part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

pub(super) fn secret(name: &str) -> bool {
    let (previous, last) = last_two(mask::after_last(scan::tail(name, LONGEST)));
    let is = |word: &str, known: &str| word.eq_ignore_ascii_case(known);
    if is(last, "token") && NOT_SECRET.iter().any(|known| is(previous, known)) {
        return false;
    }
    LAST.iter().any(|known| is(last, known))
        || PAIRS
            .iter()
            .any(|(first, second)| is(previous, first) && is(last, second))
}

/// A header whose value goes to the end of its line: `Cookie: a=1; b=2`.
pub(super) fn whole_line(name: &str) -> bool {
    name.eq_ignore_ascii_case("cookie") || name.eq_ignore_ascii_case("set-cookie")
}

/// It names what comes after a scheme: `Authorization: Digest …`.
pub(super) fn has_scheme(name: &str) -> bool {
    last_two(name).1.eq_ignore_ascii_case("authorization")
}

/// The last two words of a name, however it joins them. Digits at its end do not count: `password2`.
fn last_two(name: &str) -> (&str, &str) {
    let name = name.trim_end_matches(|letter: char| !letter.is_ascii_alphabetic());
    let last = word_start(name);
    let (rest, last) = name.split_at_checked(last).unwrap_or(("", name));
    let rest = rest.trim_end_matches(|letter: char| !letter.is_ascii_alphabetic());
    let previous = rest.get(word_start(rest)..).unwrap_or("");
    (previous, last)
}

/// Where the last word starts: after what is not a letter, or at the upper-case letter that opens it.
fn word_start(name: &str) -> usize {
    let bytes = name.as_bytes();
    let byte = |place: usize| bytes.get(place).copied().unwrap_or(0);
    let mut start = bytes.len();
    while start > 0 && byte(start - 1).is_ascii_alphabetic() {
        start -= 1;
        let opens = byte(start).is_ascii_uppercase();
        let before_is_lower = start > 0 && byte(start - 1).is_ascii_lowercase();
        let next_is_lower = byte(start + 1).is_ascii_lowercase();
        // `accessToken`, and `APIKey`.
        if opens && (before_is_lower || (next_is_lower && start > 0)) {
            break;
        }
    }
    start
}
