//! Digits as people write them: in groups with spaces, hyphens or full stops between them.

use std::ops::Range;

use crate::gateway::redact::scan;

/// The groups of digits of a text.
pub(super) struct Groups<'a> {
    pub(super) text: &'a str,
    runs: Vec<Range<usize>>,
}

/// Some groups in a row, and the digits in them.
pub(super) struct Number {
    pub(super) range: Range<usize>,
    pub(super) digits: Vec<u32>,
}

impl<'a> Groups<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let runs = scan::runs(text, |byte| byte.is_ascii_digit()).collect();
        Self { text, runs }
    }

    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn run(&self, index: usize) -> Range<usize> {
        self.runs.get(index).cloned().unwrap_or(0..0)
    }

    /// The group at `first` and those after it have these lengths, with `between` between each two, and nothing
    /// around them that would make them a part of something longer.
    pub(super) fn number(&self, first: usize, lengths: &[usize], between: &str) -> Option<Number> {
        // Dozens of forms are tried on every group, and few begin with one as long.
        let length = self.runs.get(first).map(ExactSizeIterator::len);
        if length != lengths.first().copied() {
            return None;
        }
        self.whole(first, lengths, between)
    }

    #[inline(never)]
    fn whole(&self, first: usize, lengths: &[usize], between: &str) -> Option<Number> {
        let runs = self.runs.get(first..first + lengths.len())?;
        if !runs
            .iter()
            .map(ExactSizeIterator::len)
            .eq(lengths.iter().copied())
        {
            return None;
        }
        let (from, to) = (runs.first()?, runs.last()?);
        let joined = runs.windows(2).all(|pair| match pair {
            [left, right] => scan::slice(self.text, left.end..right.start) == between,
            _ => false,
        });
        if !joined || self.goes_on(from.start, to.end, between) {
            return None;
        }
        let text = runs.iter().map(|run| scan::slice(self.text, run.clone()));
        let digits = text
            .flat_map(str::chars)
            .filter_map(|digit| digit.to_digit(10))
            .collect();
        Some(Number {
            range: from.start..to.end,
            digits,
        })
    }

    /// A word, a fraction or a longer row of groups with the same mark, which is an id and no number of a person.
    fn goes_on(&self, start: usize, end: usize, between: &str) -> bool {
        let (left, right) = (scan::before(self.text, start), scan::at(self.text, end));
        let beyond = (
            scan::before(self.text, start.saturating_sub(1)),
            scan::at(self.text, end + 1),
        );
        let hyphen = between == "-";
        scan::word(left)
            || scan::word(right)
            || left == b'_'
            || right == b'_'
            || (left == b'.' && beyond.0.is_ascii_digit())
            || (right == b'.' && beyond.1.is_ascii_digit())
            || (hyphen && left == b'-' && scan::word(beyond.0))
            || (hyphen && right == b'-' && scan::word(beyond.1))
    }
}

/// The check that payment cards and some national numbers have.
pub(super) fn luhn(digits: &[u32]) -> bool {
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let values = digits.iter().rev().enumerate();
    let sum: u32 = values
        .map(|(place, digit)| if place % 2 == 1 { doubled(*digit) } else { *digit })
        .sum();
    sum.is_multiple_of(10)
}

/// What the digits say as a number; at most 18 of them.
pub(super) fn value(digits: &[u32]) -> u64 {
    digits
        .iter()
        .fold(0, |value, digit| (value * 10).saturating_add(u64::from(*digit)))
}
