//! IBAN: a country that has them, its length, and the remainder of ISO 7064.

use std::ops::Range;

use crate::gateway::redact::{RuleId, found::Found, scan};

/// By country, from the registry of SWIFT.
const LENGTHS: &[(usize, &str)] = &[
    (15, "NO"),
    (16, "BE"),
    (18, "DK FI FO GL NL SD FK"),
    (19, "MK SI"),
    (20, "AT BA EE KZ LT LU XK MN"),
    (21, "CH HR LI LV"),
    (22, "BG BH CR DE GB GE IE ME RS VA"),
    (23, "AE GI IL IQ TL OM SO"),
    (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
    (25, "LY PT ST"),
    (26, "IS TR"),
    (27, "BI DJ FR GR IT MC MR SM"),
    (28, "AL AZ BY CY DO GT HU LB NI PL SV"),
    (29, "BR EG PS QA UA"),
    (30, "JO KW MU YE"),
    (31, "MT SC"),
    (32, "LC"),
    (33, "RU"),
];

/// One word of the text, and what follows it where it is written in groups.
pub(super) fn word(text: &str, run: &Range<usize>, found: &mut Found<'_>) {
    let Some(length) = expected(scan::slice(text, run.clone())) else {
        return;
    };
    let end = if run.len() == length {
        Some(run.end)
    } else {
        grouped(text, run.start, length)
    };
    if let Some(end) = end
        && remainder(scan::slice(text, run.start..end)) == 1
    {
        found.add(RuleId::Iban, run.start..end);
    }
}

/// How long an IBAN is that begins like this.
fn expected(word: &str) -> Option<usize> {
    let country = word.get(..2)?;
    let check = word.get(2..4)?;
    (country.bytes().all(|byte| byte.is_ascii_alphabetic())
        && check.bytes().all(|byte| byte.is_ascii_digit()))
    .then_some(())?;
    let listed = |countries: &str| {
        countries
            .split(' ')
            .any(|known| known.eq_ignore_ascii_case(country))
    };
    LENGTHS
        .iter()
        .find(|(_, countries)| listed(countries))
        .map(|(length, _)| *length)
}

/// Where it ends when it is written in groups of four with spaces.
fn grouped(text: &str, start: usize, length: usize) -> Option<usize> {
    let mut left = length;
    let mut place = start;
    loop {
        let end = scan::run(text, place, scan::word);
        if end - place != left.min(4) {
            return None;
        }
        left -= end - place;
        if left == 0 {
            return Some(end);
        }
        place = end + 1;
        (scan::at(text, end) == b' ').then_some(())?;
    }
}

/// Of division by 97, with the first four characters last and letters as 10 to 35.
fn remainder(iban: &str) -> u32 {
    let plain: String = iban.chars().filter(|letter| *letter != ' ').collect();
    let (opening, rest) = plain.split_at_checked(4).unwrap_or(("", ""));
    let values = rest
        .chars()
        .chain(opening.chars())
        .filter_map(|letter| letter.to_digit(36));
    values.fold(0, |sum, value| {
        let shifted = if value > 9 { sum * 100 } else { sum * 10 };
        (shifted + value) % 97
    })
}
