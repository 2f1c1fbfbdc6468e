//! Payment cards: a known issuer, one of its lengths, written as on the card or without spaces, and Luhn's check.

use super::groups::{Groups, luhn, value};
use crate::gateway::redact::{RuleId, found::Found};

const GROUPED: &[&[usize]] = &[&[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4], &[4, 4, 4, 4, 3], &[6, 13]];
const WHOLE: &[usize] = &[14, 15, 16, 17, 18, 19];

pub(super) fn search(groups: &Groups<'_>, found: &mut Found<'_>) {
    for first in 0..groups.count() {
        let whole = WHOLE
            .iter()
            .filter_map(|length| groups.number(first, &[*length], ""));
        let lengths = GROUPED
            .iter()
            .flat_map(|lengths| [(lengths, " "), (lengths, "-")]);
        let grouped = lengths.filter_map(|(lengths, between)| groups.number(first, lengths, between));
        for number in whole.chain(grouped) {
            let grouped = number.range.len() > number.digits.len();
            if issued(&number.digits, grouped) && luhn(&number.digits) {
                found.add(RuleId::Card, number.range);
            }
        }
    }
}

/// The first digits are an issuer's, and its numbers are that long. Visa's longest are rare, and as long as many
/// other numbers: they must be written like a card's.
fn issued(digits: &[u32], grouped: bool) -> bool {
    let opening = |count: usize| value(digits.get(..count).unwrap_or(&[]));
    match digits.len() {
        14 => matches!(opening(3), 300..=305 | 309 | 360..=369 | 380..=399),
        15 => matches!(opening(2), 34 | 37),
        length => {
            let mastercard = matches!(opening(2), 51..=55) || matches!(opening(4), 2221..=2720);
            let visa = opening(1) == 4 && (length == 16 || (length == 19 && grouped));
            let discover = opening(4) == 6011 || opening(2) == 65 || matches!(opening(3), 644..=649);
            let others = matches!(opening(4), 3528..=3589) || opening(2) == 62;
            (mastercard && length == 16) || visa || discover || others
        }
    }
}
