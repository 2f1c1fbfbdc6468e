//! The one shape of a user-facing error: what, why, what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::exit::ExitStatus;

/// Something was asked for and not done. Nothing was launched, nothing was left behind.
///
/// Each field is one line, lower case, without a full stop; literals stand in backticks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Refusal {
    pub exit: ExitStatus,
    /// Operation and object: "cannot use root `/srv/docs`".
    pub what: String,
    /// The cause: "it is a symbolic link to `/data`".
    pub why: String,
    /// What a person can do: "name `/data` itself".
    pub hint: String,
}

impl Refusal {
    pub fn new(
        exit: ExitStatus,
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let line = |text: String| text.replace('\n', " ");
        Self {
            exit,
            what: line(what.into()),
            why: line(why.into()),
            hint: line(hint.into()),
        }
    }

    /// Wrong usage or configuration (exit status 2).
    pub fn usage(what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ExitStatus::Usage, what, why, hint)
    }

    /// Enforcement not available (exit status 3).
    pub fn not_enforced(what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ExitStatus::NotEnforced, what, why, hint)
    }

    /// A fault of ours or of the machine (exit status 4).
    pub fn internal(what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ExitStatus::Internal, what, why, hint)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "error: {}\n  why: {}\n  fix: {}",
            self.what, self.why, self.hint
        )
    }
}

/// The whole cause chain of an error on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
