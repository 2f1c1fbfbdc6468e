//! Addresses of electronic mail, as they are in use: ASCII, without quotes.

use crate::gateway::redact::{RuleId, context, found::Found, scan};

const LOCAL: usize = 64;
const DOMAIN: usize = 253;

/// What stands after the last full stop of a file or a unit, and is no top-level domain.
const NO_DOMAIN: &[&str] = &[
    "png", "jpg", "jpeg", "gif", "svg", "webp", "service", "socket", "timer", "target", "mount", "slice",
    "scope",
];

pub(super) fn search(text: &str, found: &mut Found<'_>) {
    for (at, _) in text.match_indices('@') {
        let local =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-');
        let domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        let mut start = scan::run_back(text, at, LOCAL, local);
        start = scan::run(text, start, |byte| !byte.is_ascii_alphanumeric() && byte != b'@');
        let bytes = text.as_bytes().get(at + 1..).unwrap_or(&[]);
        let length = bytes
            .iter()
            .take(DOMAIN + 1)
            .take_while(|byte| domain(**byte))
            .count();
        let host = host(scan::slice(text, at + 1..at + 1 + length));
        if start < at && length <= DOMAIN && host > 0 && !locates(text, start, at + 1 + host) {
            found.add(RuleId::Email, start..at + 1 + host);
        }
    }
}

/// How much of it is the name of a host under a top-level domain: `example.org` of `example.org-12`.
fn host(text: &str) -> usize {
    let mut end = 0;
    let mut place = 0;
    let mut numbers = 0;
    for (index, label) in text.split('.').enumerate() {
        let letters = scan::run(label, 0, |byte| byte.is_ascii_alphabetic());
        let top = scan::slice(label, 0..letters);
        let whole = letters == label.len();
        if label.is_empty() {
            break;
        }
        if index > 0 && letters >= 2 && (whole || scan::at(label, letters) == b'-') {
            let file = NO_DOMAIN.iter().any(|known| known.eq_ignore_ascii_case(top));
            end = if file { end } else { place + letters };
        }
        // `package@1.0.0-beta.rc` is a version.
        numbers += usize::from(index < 2 && label.bytes().all(|byte| byte.is_ascii_digit()));
        place += label.len() + 1;
    }
    if numbers < 2 { end } else { 0 }
}

/// `git@host:path` and `scheme://user@host` say where something is. What is secret in those has its own rule.
fn locates(text: &str, start: usize, end: usize) -> bool {
    let authority = scan::run_back(text, start, DOMAIN, context::authority);
    scan::slice(text, 0..authority).ends_with("://")
        || (scan::slice(text, start..end).starts_with("git@") && scan::at(text, end) == b':')
}
