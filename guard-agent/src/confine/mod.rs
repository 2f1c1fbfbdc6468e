//! What a process takes from itself before it runs anything it does not trust: Landlock and seccomp.
//!
//! Used by the sandbox's init (`seccomp::ChildFilters`) and by the gateway (`seccomp::install_gateway`),
//! both while they have one thread. `notify` is the other end: the warden reads the refusals there.

pub mod landlock;
pub mod notify;
pub mod seccomp;

use std::{io, path::PathBuf};

/// Why a process could not be confined. Nothing may be executed after any of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The caller decides whether a launch without it is acceptable.
    #[error("landlock is not available: {0}")]
    LandlockMissing(landlock::Absence),
    #[error("cannot open `{}` for a landlock rule", path.display())]
    OpenRule { path: PathBuf, source: io::Error },
    #[error("cannot inspect the object of a landlock rule")]
    StatRule(#[source] io::Error),
    #[error("cannot {step}")]
    Landlock {
        step: &'static str,
        #[source]
        source: Box<::landlock::RulesetError>,
    },
    #[error("landlock accepted the rules but reports `{0}`")]
    LandlockIncomplete(String),
    #[error("cannot compile the seccomp filter `{filter}`: {why}")]
    Compile { filter: &'static str, why: String },
    #[error("cannot install the seccomp allow-list")]
    AllowList(#[source] Box<seccompiler::Error>),
    #[error("cannot install the seccomp filter that {purpose}")]
    Install {
        purpose: &'static str,
        source: io::Error,
    },
    /// One process has at most one listener: a container manager around us has it.
    #[error("cannot install the seccomp filter that reports refusals: this process already has a listener")]
    ListenerTaken,
}
