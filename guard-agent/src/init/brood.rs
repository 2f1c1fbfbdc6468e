//! The end of a sandbox that has no pid namespace: everything that descends from its init.

use std::time::Duration;

use super::message::{Confinement, Ground, Setup};
use crate::sys::family::{Reach, end_all};

/// How long the descendants may take to die.
const LIMIT: Duration = Duration::from_secs(4);

/// How init ends what it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brood {
    /// The kernel does, when pid 1 of the namespace ends.
    Namespace,
    /// Landlock lets init's signals go to its own sandbox alone.
    Scope,
    /// One by one.
    Seen,
}

impl Brood {
    pub(super) fn of(setup: &Setup, confinement: &Confinement) -> Self {
        match setup.ground {
            Ground::Machine | Ground::UserNamespace => Self::Namespace,
            Ground::Bare if confinement.signals_bounded => Self::Scope,
            Ground::Bare => Self::Seen,
        }
    }

    /// Whether init must hear of SIGTERM: the warden asks it to end by that.
    pub(super) fn is_ours(self) -> bool {
        self != Self::Namespace
    }

    /// Whether nothing but the filter keeps the child's signals in.
    pub(super) fn needs_filter(self) -> bool {
        self == Self::Seen
    }

    /// Returns when all are dead, or the time is over: what is left then is the warden's to end.
    pub(super) fn end(self) {
        let reach = match self {
            Self::Namespace => return,
            Self::Scope => Reach::Everybody,
            Self::Seen => Reach::Seen,
        };
        let _ = end_all(reach, LIMIT);
    }
}
