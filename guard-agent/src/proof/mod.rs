//! Proof before a claim: a child of ours attacks a layer before and behind it, and only what was then refused counts
//! as enforced.
//!
//! Order of reading: `verdict` (what comes out), `attempt` (one attack and what it shows), `child` (who attacks), one
//! file a layer, `facets` (what the proofs mean for a launch and for `check`).

mod attempt;
mod child;
pub mod facets;
pub mod verdict;

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    audit::Layer,
    link::message::Facet,
    warden::{cgroup::Parent, kernel::Programs},
};
pub use facets::InForce;
pub use verdict::{Mode, Tier, Verdict, Why};

/// All proofs together may not take longer; emulated machines are slow.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What was proved, layer by layer.
#[derive(Debug, Clone)]
pub struct Proofs {
    pub mode: Mode,
    pub(crate) verdicts: BTreeMap<(Facet, Layer), Verdict>,
    /// Landlock as our own ruleset found it.
    pub(crate) landlock: facets::Landlock,
    /// How long it took.
    pub elapsed: Duration,
}

impl Proofs {
    /// What was found about one layer of one facet. What nobody tried is not enforced.
    pub fn verdict(&self, facet: Facet, layer: Layer) -> Verdict {
        self.verdicts
            .get(&(facet, layer))
            .cloned()
            .unwrap_or_else(|| Verdict::not_enforced("nothing proves it on this tier"))
    }
}

/// What a warden attacks with.
pub struct Privileged<'a> {
    /// The sandboxes' cgroup; a sandbox-like cgroup is made below it and removed again.
    pub parent: &'a Parent,
    pub programs: &'a mut Programs,
    /// A directory of ours: files to be attacked are planted in it and removed again.
    pub directory: &'a Path,
    /// An empty directory on which a view can be built.
    pub scaffold: &'a Path,
}

/// Tier T2, as root. The calling process has one thread.
pub fn privileged(with: Privileged<'_>) -> Proofs {
    let start = Instant::now();
    let _ = (with.parent, with.programs, with.directory, with.scaffold);
    Proofs {
        mode: Mode::Root,
        verdicts: BTreeMap::new(),
        landlock: facets::Landlock::default(),
        elapsed: start.elapsed(),
    }
}

/// Tier T3, as anybody. The calling process has one thread. `mode` of the answer says whether user namespaces work.
pub fn unprivileged(directory: &Path) -> Proofs {
    let start = Instant::now();
    let _ = directory;
    Proofs {
        mode: Mode::Plain,
        verdicts: BTreeMap::new(),
        landlock: facets::Landlock::default(),
        elapsed: start.elapsed(),
    }
}
