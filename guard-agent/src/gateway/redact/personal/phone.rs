//! Telephone numbers: international ones with `+`, and those of North America with a hyphen or an area code in
//! brackets.

use super::groups::{Groups, value};
use crate::gateway::redact::{RuleId, found::Found, scan};

/// Digits after `+`, with the country's.
const LEAST: usize = 8;
const MOST: usize = 15;

pub(super) fn search(groups: &Groups<'_>, found: &mut Found<'_>) {
    for (plus, _) in groups.text.match_indices('+') {
        international(groups.text, plus, found);
    }
    for first in 0..groups.count() {
        north_american(groups, first, found);
    }
}

fn international(text: &str, plus: usize, found: &mut Found<'_>) {
    let left = scan::before(text, plus);
    if scan::word(left) || matches!(left, b'+' | b')' | b']') {
        return;
    }
    let mut digits = Vec::new();
    let mut end = plus + 1;
    let mut place = plus + 1;
    loop {
        let byte = scan::at(text, place);
        if byte.is_ascii_digit() && digits.len() <= MOST {
            digits.push(u32::from(byte - b'0'));
            end = place + 1;
        } else if place == plus + 1 || !separates(byte) || place >= end + 2 {
            break;
        }
        place += 1;
    }
    let countries = [1, 2, 3].map(|count| value(digits.get(..count).unwrap_or(&[])));
    if (LEAST..=MOST).contains(&digits.len()) && calls(countries) && !scan::word(scan::at(text, end)) {
        found.add(RuleId::Phone, plus..end);
    }
}

/// At most two of them stand between digits: `) `.
fn separates(byte: u8) -> bool {
    matches!(byte, b' ' | b'-' | b'.' | b'(' | b')' | b'/')
}

/// The number begins with a country's calling code, of one, two or three digits.
fn calls([one, two, three]: [u64; 3]) -> bool {
    matches!(one, 1 | 7)
        || matches!(two, 20 | 27 | 30..=34 | 36 | 39..=41 | 43..=49 | 51..=58 | 60..=66 | 81 | 82 | 84 | 86)
        || matches!(two, 90..=95 | 98)
        || matches!(three, 211..=269 | 290..=299 | 350..=389 | 420..=429 | 500..=509 | 590..=599 | 670..=692)
        || matches!(three, 850..=859 | 880..=889 | 960..=979 | 992..=998)
}

/// `415-555-2671` and `(415) 555-2671`
fn north_american(groups: &Groups<'_>, first: usize, found: &mut Found<'_>) {
    let text = groups.text;
    let starts = |group: usize| matches!(scan::at(text, groups.run(group).start), b'2'..=b'9');
    if !starts(first) || !starts(first + 1) {
        return;
    }
    if let Some(number) = groups.number(first, &[3, 3, 4], "-") {
        found.add(RuleId::Phone, number.range);
        return;
    }
    let area = groups.run(first);
    let between = scan::slice(text, area.end..groups.run(first + 1).start);
    if area.len() == 3
        && scan::before(text, area.start) == b'('
        && matches!(between, ")" | ") ")
        && let Some(number) = local(groups, first + 1)
    {
        found.add(RuleId::Phone, area.start - 1..number);
    }
}

/// Where the rest of the number, `555-2671`, ends.
fn local(groups: &Groups<'_>, first: usize) -> Option<usize> {
    let (exchange, line) = (groups.run(first), groups.run(first + 1));
    let joined = scan::slice(groups.text, exchange.end..line.start) == "-";
    (joined && exchange.len() == 3 && line.len() == 4 && !scan::word(scan::at(groups.text, line.end)))
        .then_some(line.end)
}
