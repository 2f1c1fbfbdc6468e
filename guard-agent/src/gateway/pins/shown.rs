//! Text of a server as a person may see it: nothing hidden, nothing that moves a cursor, and not too much.

use super::looks;
use crate::config::printable;

/// With what cannot be seen as escapes.
pub(super) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        if looks::hidden(one) {
            out.extend(one.escape_unicode());
        } else {
            out.push(one);
        }
    }
    printable(&out)
}

/// The beginning of it, at most `most` characters and a word on the rest.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => shown(text),
        Some((at, _)) => {
            let (head, rest) = text.split_at(at);
            format!("{} … and {} bytes more", shown(head), rest.len())
        }
    }
}
