//! Matches as they are collected, and the order they are brought into.

use std::ops::Range;

use super::{Mode, RuleId, Rules, mask};

/// Where in a text a rule matched: bytes of it, at the bounds of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub range: Range<usize>,
    pub rule: RuleId,
}

/// What the searches put their matches into, in any order.
pub(super) struct Found<'a> {
    rules: &'a Rules,
    matches: Vec<Match>,
}

impl<'a> Found<'a> {
    pub(super) fn new(rules: &'a Rules) -> Self {
        Self {
            rules,
            matches: Vec::new(),
        }
    }

    /// A place for the matches of another text, under the same rules.
    pub(super) fn another(&self) -> Self {
        Self::new(self.rules)
    }

    pub(super) fn add(&mut self, rule: RuleId, range: Range<usize>) {
        if !range.is_empty() && self.rules.mode(rule) != Mode::Off {
            self.matches.push(Match { range, rule });
        }
    }

    pub(super) fn into_matches(self) -> Vec<Match> {
        self.matches
    }

    /// In order, overlapping ones made one. Masks that stand in the text already are left alone, except where
    /// they are a part of something that goes as a whole.
    pub(super) fn settle(self, text: &str) -> Vec<Match> {
        if self.matches.is_empty() {
            return self.matches;
        }
        let masks = mask::find(text);
        let outside = |mut found: Match| {
            let Range { start, end } = found.range;
            let around = |place: usize| {
                let next = masks.partition_point(|mask| mask.end <= place);
                masks.get(next).filter(|mask| mask.start < place)
            };
            found.range.start = around(start).map_or(start, |mask| mask.end);
            found.range.end = around(end).map_or(end, |mask| mask.start);
            let next = masks.partition_point(|mask| mask.start < found.range.start);
            let masked = masks.get(next) == Some(&found.range);
            (found.range.start < found.range.end && !masked).then_some(found)
        };
        unite(self.matches.into_iter().filter_map(outside).collect(), self.rules)
    }
}

/// Overlapping matches become one that covers them all, so that no end of a secret stays. Its rule is one that
/// denies if there is one, else the earliest.
pub(super) fn unite(mut matches: Vec<Match>, rules: &Rules) -> Vec<Match> {
    let rank = |rule: RuleId| (rules.mode(rule) != Mode::Deny, rule);
    matches.sort_by_key(|found| (found.range.start, found.range.end, found.rule));
    let mut united: Vec<Match> = Vec::with_capacity(matches.len());
    for next in matches {
        match united.last_mut() {
            Some(last) if next.range.start < last.range.end => {
                last.range.end = last.range.end.max(next.range.end);
                if rank(next.rule) < rank(last.rule) {
                    last.rule = next.rule;
                }
            }
            _ => united.push(next),
        }
    }
    united
}
