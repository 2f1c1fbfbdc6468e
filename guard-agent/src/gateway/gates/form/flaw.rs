//! What is wrong with a call, in words for the model that made it.
//!
//! Whoever reads them can correct the call: they name the place, and what would be valid. What they repeat of the
//! arguments and of the tool's schema is short and printable, since either may be written to mislead a reader.

use std::fmt::Write;

/// So many are told; a model corrects a call that has more of them in a second try.
const FLAWS: usize = 16;

/// Bytes of place and reason together.
const LENGTH: usize = 300;

/// Bytes of the place.
const PLACE: usize = 120;

/// Bytes of a value that are repeated.
const EXCERPT: usize = 64;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why} [{rule}]")]
pub struct Flaw {
    /// Where, as a JSON Pointer into the arguments; empty: the arguments as a whole.
    pub at: String,
    /// The rule, of the table in `docs/form.md`.
    pub rule: &'static str,
    /// What is wrong and what would be valid.
    pub why: String,
}

impl Flaw {
    pub(super) fn new(at: &str, rule: &'static str, why: &str) -> Self {
        let at = printable(at, PLACE);
        let why = printable(why, LENGTH - at.len());
        Flaw { at, rule, why }
    }
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Flaws(Vec<Flaw>);

impl Flaws {
    pub(super) fn add(&mut self, flaw: Flaw) {
        // The schema and the overlay may say the same of one place.
        if !self.full() && !self.0.contains(&flaw) {
            self.0.push(flaw);
        }
    }

    pub(super) fn full(&self) -> bool {
        self.0.len() >= FLAWS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn verdict(self) -> Result<(), Vec<Flaw>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// The beginning of a value.
pub(super) fn excerpt(text: &str) -> String {
    format!("\"{}\"", printable(text, EXCERPT - 2))
}

/// Names, as many as there is room for.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>, room: usize) -> String {
    let mut out = String::new();
    for name in names {
        let name = printable(name, EXCERPT);
        if out.len() + name.len() + 2 > room {
            out.push_str(", …");
            break;
        }
        let comma = if out.is_empty() { "" } else { ", " };
        let _ = write!(out, "{comma}{name}");
    }
    out
}

/// No sign that moves, hides or colours what stands beside it, and at most so many bytes.
pub(super) fn printable(text: &str, room: usize) -> String {
    const MARK: char = '…';
    let mut out = String::new();
    for sign in text.chars() {
        let plain = sign.is_alphanumeric() || sign.is_ascii_graphic() || matches!(sign, ' ' | '…');
        let sign = if plain { sign } else { '?' };
        out.push(sign);
        if out.len() > room {
            while out.len() > room.saturating_sub(MARK.len_utf8()) {
                out.pop();
            }
            out.push(MARK);
            break;
        }
    }
    out
}
