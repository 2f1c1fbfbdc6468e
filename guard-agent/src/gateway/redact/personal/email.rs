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
        let host = scan::slice(text, at + 1..at + 1 + length).trim_end_matches(['.', '-']);
        if start < at && length <= DOMAIN && named(host) && !locates(text, start, at + 1 + host.len()) {
            found.add(RuleId::Email, start..at + 1 + host.len());
        }
    }
}

fn named(host: &str) -> bool {
    let mut labels = host.rsplit('.');
    let top = labels.next().unwrap_or("");
    let rest: Vec<&str> = labels.collect();
    let number = |label: &&str| label.bytes().all(|byte| byte.is_ascii_digit());
    top.len() >= 2
        && top.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !NO_DOMAIN.iter().any(|known| known.eq_ignore_ascii_case(top))
        && !rest.is_empty()
        && rest.iter().all(|label| !label.is_empty())
        // `package@1.0.0-beta.rc` is a version.
        && rest.iter().rev().take(2).filter(|label| number(label)).count() < 2
}

/// `git@host:path` and `scheme://user@host` say where something is. What is secret in those has its own rule.
fn locates(text: &str, start: usize, end: usize) -> bool {
    let authority = scan::run_back(text, start, DOMAIN, context::authority);
    scan::slice(text, 0..authority).ends_with("://")
        || (scan::slice(text, start..end).starts_with("git@") && scan::at(text, end) == b':')
}
