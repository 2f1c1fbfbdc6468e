//! Takes secrets and personal data out of text and out of JSON values. Pure: bytes in, bytes out.
//!
//! What comes in is untrusted. The work is linear in its length, and everything outside a match stays as it is,
//! byte for byte. What is not found is listed in `docs/redaction.md`, each gap with a test that shows it.
//!
//! [`Rules::find`] says where something is, [`Rules::text`] and [`Rules::json`] take it out.

mod context;
mod entropy;
mod found;
mod json;
mod mask;
mod names;
mod pem;
mod personal;
mod rule;
mod scan;
mod shapes;
mod table;
mod views;

#[cfg(test)]
mod tests;

pub use found::Match;
pub use json::NotRedacted;
pub use mask::Key;
pub use rule::{Mode, RuleId};

use found::Found;

/// How often a text is looked at again after matches were taken out of it, at most.
pub const ROUNDS: usize = 8;

/// Which rules apply, and what becomes of a match.
#[derive(Debug)]
pub struct Rules {
    modes: [Mode; RuleId::COUNT],
    key: Key,
    table: table::Table,
}

/// What is left when matches are taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    pub bytes: Vec<u8>,
    /// How often each rule matched, in the order of [`RuleId::ALL`]. What is split over blocks counts once.
    pub matches: Vec<(RuleId, usize)>,
    /// A rule in mode [`Mode::Deny`] matched: the call is to be refused. `bytes` is masked all the same, for
    /// the record of it.
    pub denied: bool,
}

impl Default for Rules {
    /// Every rule masks. No rule hashes, so the key is of no use to anybody.
    fn default() -> Self {
        Self::with(&[], Key::new([0; 32]))
    }
}

impl Rules {
    /// The default with other modes for some rules; of two modes for a rule the later one is meant. `key` is what
    /// [`Mode::Hash`] hashes under: equal secrets have equal hashes under one key, and nobody without it can try
    /// guesses.
    pub fn with(modes: &[(RuleId, Mode)], key: Key) -> Self {
        let mut rules = Self {
            modes: [Mode::Mask; RuleId::COUNT],
            key,
            table: table::Table::new(),
        };
        for (rule, mode) in modes {
            if let Some(slot) = rules.modes.get_mut(*rule as usize) {
                *slot = *mode;
            }
        }
        rules
    }

    /// What is done with a match of this rule.
    pub fn mode(&self, rule: RuleId) -> Mode {
        self.modes.get(rule as usize).copied().unwrap_or(Mode::Mask)
    }

    /// Every match in a text: in order, none overlapping another, the same for the same text.
    pub fn find(&self, text: &str) -> Vec<Match> {
        self.find_named(text, "")
    }

    /// As `find`, with the name that the text stands under: what a number means depends on it.
    fn find_named(&self, text: &str, name: &str) -> Vec<Match> {
        let mut found = Found::new(self);
        views::search(text, name, &self.table, &mut found);
        found.settle(text)
    }

    /// Takes every match out of a text. It looks again at what is left, up to [`ROUNDS`] times: what stood beside
    /// a match may be told only now. So what was redacted is not changed by being redacted again.
    pub fn text(&self, text: &str) -> Redacted {
        let mut tally = mask::Tally::default();
        let mut left = text.to_owned();
        for _ in 0..ROUNDS {
            let matches = self.find(&left);
            if matches.is_empty() {
                break;
            }
            left = self.without(&left, &matches, &mut tally);
        }
        tally.redacted(left.into_bytes(), self)
    }

    fn without(&self, text: &str, matches: &[Match], tally: &mut mask::Tally) -> String {
        let mut out = String::with_capacity(text.len());
        let mut kept = 0;
        for Match { range, rule } in matches {
            out.push_str(scan::slice(text, kept..range.start));
            mask::write(&mut out, *rule, scan::slice(text, range.clone()), self);
            tally.count(*rule);
            kept = range.end;
        }
        out.push_str(scan::slice(text, kept..text.len()));
        out
    }

    /// Takes every match out of one JSON value: out of the texts that its strings and keys stand for, out of its
    /// numbers, and out of what neighbouring blocks of a `content` list say together. Spaces, the order of keys,
    /// the spelling of numbers and the escapes outside matches stay. It looks again as often as `text` does.
    pub fn json(&self, bytes: &[u8]) -> Result<Redacted, NotRedacted> {
        json::redact(self, bytes)
    }
}
