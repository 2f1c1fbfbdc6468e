//! Numbers that states give people, of the countries whose numbers check themselves.
//!
//! Bare digits pass such a check too often by chance to be taken for a person's number without a word that says so:
//! they need one before them, or as the name of the value. What is written in the number's own form does not.

use std::ops::Range;

use super::groups::{Groups, luhn, value};
use crate::gateway::redact::{RuleId, found::Found, scan};

/// How far before the number, on its line, the word may stand.
const REACH: usize = 40;

const CONTEXT: &[&str] = &[
    " national id",
    " nationalid",
    " identity number",
    " id number",
    " personal number",
    " tax id",
    " taxid",
    " steuer",
    " idnr",
    " cpf",
    " pesel",
    " nir",
    " insee",
    " sécu",
    " nhs",
    " aadhaar",
    " aadhar",
    " uidai",
    " personnummer",
    " fødselsnummer",
    " fodselsnummer",
    " ssn",
    " social security",
];

struct Form {
    lengths: &'static [usize],
    between: &'static str,
    /// A word must say what it is.
    needs_word: bool,
    check: fn(&[u32]) -> bool,
}

const fn form(
    lengths: &'static [usize],
    between: &'static str,
    needs_word: bool,
    check: fn(&[u32]) -> bool,
) -> Form {
    Form {
        lengths,
        between,
        needs_word,
        check,
    }
}

const FORMS: &[Form] = &[
    form(&[11], "", true, german),
    form(&[2, 3, 3, 3], " ", false, german),
    form(&[15], "", true, french),
    form(&[1, 2, 2, 2, 3, 3, 2], " ", false, french),
    form(&[11], "", true, polish),
    form(&[11], "", true, brazilian),
    form(&[11], "", true, norwegian),
    form(&[6, 5], " ", false, norwegian),
    form(&[6, 4], "-", false, swedish),
    form(&[8, 4], "-", false, |digits| {
        swedish(digits.get(2..).unwrap_or(&[]))
    }),
    form(&[10], "", true, british),
    form(&[3, 3, 4], " ", true, british),
    form(&[12], "", true, indian),
    form(&[4, 4, 4], " ", true, indian),
    form(&[18], "", false, |digits| chinese(digits, digits.last().copied())),
];

pub(super) fn search(groups: &Groups<'_>, name: &str, found: &mut Found<'_>) {
    let said = |start: usize| {
        scan::mentions(name, CONTEXT) || scan::mentions(scan::line_before(groups.text, start, REACH), CONTEXT)
    };
    for first in 0..groups.count() {
        for form in FORMS {
            if let Some(number) = groups.number(first, form.lengths, form.between)
                && (form.check)(&number.digits)
                && (!form.needs_word || said(number.range.start))
            {
                found.add(RuleId::NationalId, number.range);
            }
        }
        // With full stops and a hyphen there is no other number of this form.
        if let Some(range) = dotted_brazilian(groups, first) {
            found.add(RuleId::NationalId, range);
        }
        let ssn = groups.number(first, &[3, 2, 4], "-").or_else(|| {
            let bare = groups.number(first, &[9], "")?;
            said(bare.range.start).then_some(bare)
        });
        if let Some(number) = ssn.filter(|number| american(&number.digits)) {
            found.add(RuleId::UsSsn, number.range);
        }
    }
}

/// Numbers with letters in them: of Spain, Italy and China.
pub(super) fn word(text: &str, run: &Range<usize>, found: &mut Found<'_>) {
    let word = scan::slice(text, run.clone());
    let is = match word.len() {
        9 => spanish(word),
        16 => italian(word),
        18 => {
            let digits: Vec<u32> = word
                .chars()
                .take(17)
                .filter_map(|letter| letter.to_digit(10))
                .collect();
            word.ends_with(['X', 'x']) && chinese(&digits, Some(10))
        }
        _ => false,
    };
    // After a full stop it is a fraction of something.
    let alone = !matches!(scan::before(text, run.start), b'_' | b'.') && scan::at(text, run.end) != b'_';
    if is && alone {
        found.add(RuleId::NationalId, run.clone());
    }
}

/// The sum of the digits, each times its weight.
fn weighted(digits: &[u32], weights: &[u32]) -> u32 {
    digits
        .iter()
        .zip(weights)
        .map(|(digit, weight)| digit * weight)
        .sum()
}

fn two(digits: &[u32], from: usize) -> u64 {
    value(digits.get(from..from + 2).unwrap_or(&[]))
}

fn date(month: u64, day: u64) -> bool {
    (1..=12).contains(&month) && (1..=31).contains(&day)
}

/// Steuer-ID: one digit of the first ten stands there twice or three times, the others at most once.
fn german(digits: &[u32]) -> bool {
    let Some((check, first)) = digits.split_last() else {
        return false;
    };
    let count = |wanted: u32| first.iter().filter(|digit| **digit == wanted).count();
    let repeated: Vec<usize> = (0..10).map(count).filter(|count| *count > 1).collect();
    let product = first.iter().fold(10, |product, digit| {
        let sum = (digit + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    matches!(repeated.as_slice(), [2 | 3]) && first.first() != Some(&0) && (11 - product) % 10 == *check
}

/// Numéro de sécurité sociale: sex, year, month, place, order, key.
fn french(digits: &[u32]) -> bool {
    let number = value(digits.get(..13).unwrap_or(&[]));
    matches!(digits.first(), Some(1 | 2))
        && (1..=42).contains(&two(digits, 3))
        && two(digits, 13) == 97 - number % 97
}

/// PESEL: the month says the century, too.
fn polish(digits: &[u32]) -> bool {
    let sum = weighted(digits, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]);
    date(two(digits, 2) % 20, two(digits, 4)) && sum.is_multiple_of(10)
}

/// CPF: two check digits.
fn brazilian(digits: &[u32]) -> bool {
    let check = |count: u32| {
        let weights: Vec<u32> = (2..=count + 1).rev().collect();
        weighted(digits, &weights) * 10 % 11 % 10
    };
    let same = digits.windows(2).all(|pair| pair.first() == pair.last());
    !same && digits.get(9) == Some(&check(9)) && digits.get(10) == Some(&check(10))
}

/// `529.982.247-25`
fn dotted_brazilian(groups: &Groups<'_>, first: usize) -> Option<std::ops::Range<usize>> {
    let runs = [0, 1, 2, 3].map(|offset| groups.run(first + offset));
    if !runs.iter().map(ExactSizeIterator::len).eq([3, 3, 3, 2]) {
        return None;
    }
    let [one, two, three, last] = &runs;
    let text = scan::slice(groups.text, one.start..last.end);
    let digits: Vec<u32> = text.chars().filter_map(|letter| letter.to_digit(10)).collect();
    let shaped = scan::slice(groups.text, one.end..two.start) == "."
        && scan::slice(groups.text, two.end..three.start) == "."
        && scan::slice(groups.text, three.end..last.start) == "-";
    let alone =
        !scan::word(scan::before(groups.text, one.start)) && !scan::word(scan::at(groups.text, last.end));
    (shaped && alone && brazilian(&digits)).then_some(one.start..last.end)
}

/// Fødselsnummer: a date and two check digits.
fn norwegian(digits: &[u32]) -> bool {
    let first = weighted(digits, &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1]);
    let second = weighted(digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]);
    date(two(digits, 2), two(digits, 0) % 40) && first.is_multiple_of(11) && second.is_multiple_of(11)
}

/// Personnummer: a date and Luhn's check.
fn swedish(digits: &[u32]) -> bool {
    date(two(digits, 2), two(digits, 4)) && luhn(digits)
}

/// NHS number.
fn british(digits: &[u32]) -> bool {
    let sum = weighted(digits, &[10, 9, 8, 7, 6, 5, 4, 3, 2]);
    digits.last() == Some(&((11 - sum % 11) % 11))
}

/// Aadhaar: Verhoeff's check, over the symmetries of a pentagon.
fn indian(digits: &[u32]) -> bool {
    const SHIFT: [u32; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let multiply = |left: u32, right: u32| match (left < 5, right < 5) {
        (true, true) => (left + right) % 5,
        (true, false) => (left + right) % 5 + 5,
        (false, true) => (left + 5 - right) % 5 + 5,
        (false, false) => (left + 5 - right) % 5,
    };
    let shifted = |digit: u32, times: usize| {
        (0..times % 8).fold(digit, |digit, _| SHIFT.get(digit as usize).copied().unwrap_or(0))
    };
    let sum = digits
        .iter()
        .rev()
        .enumerate()
        .fold(0, |sum, (place, digit)| multiply(sum, shifted(*digit, place)));
    sum == 0 && matches!(digits.first(), Some(2..=9))
}

/// Resident identity number: a place, a date, an order, and a check digit that may be ten.
fn chinese(digits: &[u32], check: Option<u32>) -> bool {
    let sum = weighted(digits, &[7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]);
    digits.len() >= 17
        && matches!(two(digits, 6), 19 | 20)
        && date(two(digits, 10), two(digits, 12))
        && check == Some((12 - sum % 11) % 11)
}

/// Social security number: no check digit, but numbers that are not given out.
fn american(digits: &[u32]) -> bool {
    let part = |from: usize, to: usize| value(digits.get(from..to).unwrap_or(&[]));
    let area = part(0, 3);
    area != 0 && area != 666 && area < 900 && part(3, 5) != 0 && part(5, 9) != 0
}

/// DNI and NIE: the letter is the number's remainder.
fn spanish(word: &str) -> bool {
    const LETTERS: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let (number, letter) = word.split_at_checked(8).unwrap_or(("", ""));
    let digits = match number.as_bytes().first() {
        Some(b'X') => number.replacen('X', "0", 1),
        Some(b'Y') => number.replacen('Y', "1", 1),
        Some(b'Z') => number.replacen('Z', "2", 1),
        _ => number.to_owned(),
    };
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let rest = digits.parse::<usize>().ok().map(|number| number % 23);
    all_digits && rest.and_then(|rest| LETTERS.get(rest)) == letter.as_bytes().first()
}

/// Codice fiscale: letters and digits in their places, and a letter over all of them.
fn italian(word: &str) -> bool {
    const ODD: [u32; 26] = [
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
    ];
    let shaped = word.bytes().zip(*b"LLLLLLDDLDDLDDDL").all(|(byte, kind)| {
        if kind == b'D' {
            byte.is_ascii_digit()
        } else {
            byte.is_ascii_uppercase()
        }
    });
    let place = |letter: char| {
        letter
            .to_digit(36)
            .map(|value| if value > 9 { value - 10 } else { value })
    };
    let mut values: Vec<u32> = word.chars().filter_map(place).collect();
    let check = values.pop();
    let sum: u32 = values
        .iter()
        .enumerate()
        .map(|(index, value)| {
            // The first character is an odd one.
            if index % 2 == 0 {
                ODD.get(*value as usize).copied().unwrap_or(0)
            } else {
                *value
            }
        })
        .sum();
    shaped && check == Some(sum % 26)
}
