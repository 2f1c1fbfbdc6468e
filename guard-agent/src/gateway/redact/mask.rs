//! What stands in the place of a match: `[redacted:RULE]` or `[redacted:RULE:HEX]`.

use std::{fmt, ops::Range};

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::{Mode, Redacted, RuleId, Rules, scan};

const OPENING: &str = "[redacted:";
/// Hex digits of a hash: enough to tell the secrets of one trail apart.
const DIGITS: usize = 12;

/// No mask is longer.
pub(super) const LONGEST: usize = 64;

/// What hashes of matches are made under. It is not shown.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The first digits of HMAC-SHA-256.
    fn digits(&self, text: &str) -> String {
        // HMAC takes keys of any length: there is no error to get.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return String::new();
        };
        mac.update(text.as_bytes());
        let bytes = mac.finalize().into_bytes();
        bytes
            .iter()
            .take(DIGITS / 2)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Writes what stands for `secret`. Nothing in it needs an escape in JSON.
pub(super) fn write(to: &mut String, rule: RuleId, secret: &str, rules: &Rules) {
    to.push_str(OPENING);
    to.push_str(rule.name());
    if rules.mode(rule) == Mode::Hash {
        to.push(':');
        to.push_str(&rules.key.digits(secret));
    }
    to.push(']');
}

/// Where masks stand in a text.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let starts = text.match_indices(OPENING).map(|(start, _)| start);
    starts
        .filter_map(|start| Some(start..end(text, start)?))
        .collect()
}

/// What stands after the last mask of a text. The name of a rule says nothing of what is around it, and what was
/// near before a mask made the text shorter is not nearer now.
pub(super) fn after_last(text: &str) -> &str {
    let ends = text.rmatch_indices(']').map(|(bracket, _)| bracket + 1);
    let mut masked = ends.filter(|end| {
        let open = text.get(..*end).and_then(|text| text.rfind('['));
        open.is_some_and(|open| is(scan::slice(text, open..*end)))
    });
    masked.next().and_then(|end| text.get(end..)).unwrap_or(text)
}

/// The whole text is a mask.
pub(super) fn is(text: &str) -> bool {
    end(text, 0) == Some(text.len())
}

/// Where the mask that starts here ends. Only the name of a rule is taken for one, and only so many hex digits:
/// nothing can hide in a mask that somebody else wrote.
fn end(text: &str, start: usize) -> Option<usize> {
    let rest = text.get(start..)?.strip_prefix(OPENING)?;
    let name = scan::run(rest, 0, |byte| byte.is_ascii_lowercase() || byte == b'-');
    scan::slice(rest, 0..name).parse::<RuleId>().ok()?;
    let inner = match scan::at(rest, name) {
        b':' => {
            let end = scan::run(rest, name + 1, |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            (end == name + 1 + DIGITS).then_some(end)?
        }
        _ => name,
    };
    (scan::at(rest, inner) == b']').then_some(start + OPENING.len() + inner + 1)
}

/// How often each rule matched.
#[derive(Default)]
pub(super) struct Tally([usize; RuleId::COUNT]);

impl Tally {
    pub(super) fn count(&mut self, rule: RuleId) {
        if let Some(count) = self.0.get_mut(rule as usize) {
            *count += 1;
        }
    }

    pub(super) fn redacted(&self, bytes: Vec<u8>, rules: &Rules) -> Redacted {
        let counts = RuleId::ALL.iter().copied().zip(self.0);
        let matches: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
        Redacted {
            bytes,
            denied: matches.iter().any(|(rule, _)| rules.mode(*rule) == Mode::Deny),
            matches,
        }
    }
}
