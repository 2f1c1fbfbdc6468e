//! Personal data: what is checked by its digits, and what is known by its form.

mod card;
mod email;
mod groups;
mod iban;
mod national;
mod phone;

use super::{found::Found, scan};
use groups::Groups;

pub(super) fn search(text: &str, name: &str, found: &mut Found<'_>) {
    email::search(text, found);
    let groups = Groups::of(text);
    numbers(&groups, name, found);
    phone::search(&groups, found);
    for run in scan::runs(text, scan::word) {
        iban::word(text, &run, found);
        national::word(text, &run, found);
    }
}

/// What a number alone can be, too.
pub(super) fn number(text: &str, name: &str, found: &mut Found<'_>) {
    // A fraction or an exponent makes it a quantity.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        numbers(&Groups::of(text), name, found);
    }
}

fn numbers(groups: &Groups<'_>, name: &str, found: &mut Found<'_>) {
    card::search(groups, found);
    national::search(groups, name, found);
}
