//! What comes out of a proof.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::init::message::Ground;

/// Why a layer does not hold, and what a person can do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    pub why: String,
    /// What to change on this machine; `None` where nothing helps but another kernel or build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// One layer of one facet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// The attack worked before the layer and was refused behind it.
    Enforced,
    /// The kernel has it, and it does not hold: what got through, or that this build does not use it.
    NotEnforced(Why),
    /// This machine does not offer it.
    NotAvailable(Why),
}

impl Verdict {
    pub fn not_enforced(why: impl Into<String>) -> Self {
        Self::NotEnforced(Why {
            why: why.into(),
            change: None,
        })
    }

    pub fn not_available(why: impl Into<String>, change: impl Into<String>) -> Self {
        Self::NotAvailable(Why {
            why: why.into(),
            change: Some(change.into()),
        })
    }

    pub fn holds(&self) -> bool {
        *self == Self::Enforced
    }

    /// Why it does not hold.
    pub fn why(&self) -> Option<&Why> {
        match self {
            Self::Enforced => None,
            Self::NotEnforced(why) | Self::NotAvailable(why) => Some(why),
        }
    }

    /// The word of the table and of `--json`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::NotEnforced(_) => "not-enforced",
            Self::NotAvailable(_) => "not-available",
        }
    }
}

/// `docs/check.md` says what each stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    T1,
    T2,
    T3,
    /// Nothing is enforced.
    T4,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::T1 => "T1",
            Self::T2 => "T2",
            Self::T3 => "T3",
            Self::T4 => "T4",
        })
    }
}

impl From<Ground> for Tier {
    fn from(ground: Ground) -> Self {
        match ground {
            Ground::Machine => Self::T2,
            Ground::UserNamespace | Ground::Bare => Self::T3,
        }
    }
}
