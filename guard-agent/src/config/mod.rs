//! What the operator asked for: raw (as typed) → resolved (as meant).
//!
//! Nothing here needs privilege or changes anything; the warden checks again on the objects it opens.

mod described;
pub use described::{REQUIRED, Scope, TimeLimits};
pub mod env;
pub mod environment;
pub mod host;
pub mod places;
pub mod quantity;
pub mod raw;
pub mod resolved;
pub mod rights;
pub mod root_arg;
pub mod roots;
pub mod rules;
#[cfg(test)]
mod tests;
pub mod user;

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

/// A path or argument for one line of an error: text stays readable, nothing in it can move the cursor.
pub fn shown(text: impl AsRef<OsStr>) -> String {
    let bytes = text.as_ref().as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => printable(text),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}

/// The same for text that is UTF-8 already.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        // What cannot be seen, and what reorders the rest on a terminal.
        let hidden = matches!(
            character,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        );
        if character.is_control() || hidden {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}
