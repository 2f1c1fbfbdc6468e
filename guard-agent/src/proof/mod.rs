//! Proof before a claim: a child of ours attacks a layer before and behind it, and only what was then refused counts
//! as enforced.
//!
//! Order of reading: `verdict` (what comes out), `attempt` (one attack and what it shows), `child` (who attacks),
//! `attacks`, one file a layer, `root` and `anybody` (which layers a tier has), `facets` (what the proofs mean for a
//! launch and for `check`).

mod anybody;
mod attacks;
mod attempt;
mod cgroup;
mod child;
pub mod facets;
mod hooks;
mod host;
mod landlock;
mod lsm;
pub mod machine;
mod namespaces;
mod observe;
mod rlimits;
mod root;
mod seccomp;
pub mod verdict;
mod view;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use self::attempt::Finding;
use crate::{audit::Layer, init::message::Ground, link::message::Facet};
pub use anybody::unprivileged;
pub use attacks::ROLE;
pub use facets::{Facets, InForce};
pub use host::LsmList;
pub use root::{Privileged, privileged};
pub use verdict::{Tier, Verdict, Why};

/// All proofs together may not take longer; emulated machines are slow.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What was proved, layer by layer.
#[derive(Debug, Clone)]
pub struct Proofs {
    /// With what sandboxes are made here: decides which layers a facet has.
    pub ground: Ground,
    verdicts: BTreeMap<(Facet, Layer), Verdict>,
    /// Whether what a sandbox tries is seen: calls and programs.
    pub observation: Verdict,
    /// At tier T1: whether what other security modules refuse is told.
    pub told: Verdict,
    /// Landlock as our own ruleset found it.
    landlock: facets::Landlock,
    /// Tier T1 was left out on purpose: that nothing holds it is no failed test.
    hooks_left_out: bool,
    /// How long it took.
    pub elapsed: Duration,
}

impl Proofs {
    fn new(ground: Ground) -> Self {
        Self {
            ground,
            verdicts: BTreeMap::new(),
            observation: Verdict::not_enforced("nothing proves it on this tier"),
            told: Verdict::not_enforced("nothing proves it on this tier"),
            landlock: facets::Landlock::default(),
            hooks_left_out: false,
            elapsed: Duration::ZERO,
        }
    }

    /// What was found about one layer of one facet. What nobody tried is not enforced.
    pub fn verdict(&self, facet: Facet, layer: Layer) -> Verdict {
        self.verdicts
            .get(&(facet, layer))
            .cloned()
            .unwrap_or_else(|| Verdict::not_enforced("nothing proves it on this tier"))
    }

    /// Of two findings about one pair the worse counts.
    fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            self.set(finding.facet, finding.layer, finding.verdict());
        }
    }

    fn set(&mut self, facet: Facet, layer: Layer, verdict: Verdict) {
        let pair = (facet, layer);
        if self.verdicts.get(&pair).is_none_or(Verdict::holds) {
            self.verdicts.insert(pair, verdict);
        }
    }

    fn set_all(&mut self, pairs: impl IntoIterator<Item = (Facet, Layer)>, verdict: &Verdict) {
        for (facet, layer) in pairs {
            self.set(facet, layer, verdict.clone());
        }
    }

    /// Whether the security hooks are in force: tier T1.
    pub fn hooked(&self) -> bool {
        hooks::FACETS
            .into_iter()
            .all(|facet| self.verdict(facet, Layer::BpfLsm).holds())
    }

    /// Why they are not.
    pub fn why_not_hooked(&self) -> Option<Why> {
        hooks::FACETS
            .into_iter()
            .find_map(|facet| self.verdict(facet, Layer::BpfLsm).why().cloned())
    }

    /// Whether this machine has tier T1 and somebody asked to go without.
    pub fn hooks_left_out(&self) -> bool {
        let verdict = self.verdict(Facet::Fs, Layer::BpfLsm);
        self.hooks_left_out && matches!(verdict, Verdict::NotEnforced(_))
    }

    pub fn tier(&self) -> Tier {
        if self.hooked() {
            Tier::T1
        } else {
            self.ground.into()
        }
    }

    /// The same for pairs whose child did not say.
    fn fail(&mut self, pairs: impl IntoIterator<Item = (Facet, Layer)>, cause: &str) {
        for (facet, layer) in pairs {
            self.add([Finding::failed(facet, layer, cause)]);
        }
    }

    /// Everything the tier has is out of reach, for one reason.
    fn unavailable(&mut self, why: &Why) {
        self.observation = Verdict::NotAvailable(why.clone());
        for (facet, layers) in facets::layers(self.ground) {
            for layer in *layers {
                self.set(*facet, *layer, Verdict::NotAvailable(why.clone()));
            }
        }
    }

    /// What a sandbox on this machine has, as far as the proofs can tell: for `check`.
    pub fn expected(&self) -> InForce {
        InForce {
            landlock: self.landlock.clone(),
            hooks: self.hooked(),
            ..InForce::default()
        }
    }
}

/// A file to be attacked: the contents are nobody's business. Removed again when dropped.
struct Planted(PathBuf);

impl Planted {
    fn in_directory(directory: &Path) -> io::Result<Self> {
        let path = directory.join("proof.planted");
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        let planted = Self(path);
        file.write_all(b"planted by guard-agent to be attacked by itself\n")?;
        Ok(planted)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A name that is free now, and again when this is dropped.
struct Removed(PathBuf);

impl Removed {
    fn name(path: PathBuf) -> Self {
        // A warden that was killed in the middle of its proofs may have left it.
        let _ = std::fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pairs<const N: usize>(facets: [Facet; N], layer: Layer) -> impl Iterator<Item = (Facet, Layer)> {
    facets.into_iter().map(move |facet| (facet, layer))
}
