//! Tests of redaction. Fake secrets are put together from pieces, so that no scanner takes them for real ones.

mod documented;
mod gaps;
mod honest;
mod json;
mod properties;
mod rules;

use super::*;

/// What is left of a text under the default rules.
fn masked(text: &str) -> String {
    String::from_utf8(Rules::default().text(text).bytes).unwrap()
}

/// What is left of a JSON value under the default rules.
fn json(value: &str) -> String {
    String::from_utf8(Rules::default().json(value.as_bytes()).unwrap().bytes).unwrap()
}

/// The rules that match, one for each match.
fn rules_in(text: &str) -> Vec<RuleId> {
    Rules::default()
        .find(text)
        .iter()
        .map(|found| found.rule)
        .collect()
}

/// Letters and digits that look random and are always the same.
fn noise(length: usize) -> String {
    let alphabet = "q7Wm2Zx9Kc4Rv8Tn3Lp6Yb1Hd5Gs0Jf";
    alphabet.chars().cycle().take(length).collect()
}
