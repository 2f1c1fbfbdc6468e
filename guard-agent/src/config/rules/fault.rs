//! What is wrong with a policy, and where in it.

use std::{ops::Range, path::Path};

use toml::Spanned;

use crate::{
    config::{printable, raw, shown},
    refusal::Refusal,
};

/// One thing that is wrong.
#[derive(Debug)]
pub(super) struct Fault {
    /// Bytes of the file; none where something is missing from all of it.
    at: Option<Range<usize>>,
    why: String,
    fix: String,
}

impl Fault {
    pub(super) fn at<T>(place: &Spanned<T>, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            at: Some(place.span()),
            why: why.into(),
            fix: fix.into(),
        }
    }

    pub(super) fn of_all(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            at: None,
            why: why.into(),
            fix: fix.into(),
        }
    }

    /// As a person gets it.
    pub(super) fn refusal(self, path: &Path, text: &str) -> Refusal {
        let mut what = format!("cannot use policy `{}`", shown(path));
        if let Some(at) = self.at {
            what = format!("{what}, line {}", raw::line(text, at.start));
        }
        // Both hold what the file says.
        Refusal::usage(what, printable(&self.why), printable(&self.fix))
    }
}
