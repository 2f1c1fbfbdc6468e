//! Tier T3, without privilege: what Landlock and seccomp hold, and namespaces where a user namespace can be made.

use std::{os::fd::AsFd as _, path::Path, time::Instant};

use serde::de::DeserializeOwned;

use super::{
    LIMIT, Planted, Proofs, Verdict, attacks,
    attempt::Finding,
    child::{self, Child},
    host, landlock,
    namespaces::{self, Owner},
    observe, pairs, rlimits, seccomp, view,
};
use crate::{
    audit::Layer,
    init::{self, message::Ground},
    link::message::Facet,
};

/// Proves what can be proved; `ground` of the answer says whether namespaces of one's own are among it. Never fails:
/// what could not be tried is not enforced. The calling process has one thread.
///
/// `directory` is the caller's own; what is to be attacked is planted in it and removed again. `scaffold` is an empty
/// directory on which a view can be built.
pub fn unprivileged(directory: &Path, scaffold: &Path) -> Proofs {
    let start = Instant::now();
    let mut proofs = Proofs::new(Ground::Bare);
    if let Err(cause) = all(directory, scaffold, &mut proofs, start + LIMIT) {
        let every = super::facets::layers(Ground::UserNamespace)
            .iter()
            .flat_map(|(facet, layers)| layers.iter().map(move |layer| (*facet, *layer)));
        proofs.fail(every, &cause);
    }
    proofs.elapsed = start.elapsed();
    tracing::info!(ms = proofs.elapsed.as_millis(), "self-test done");
    proofs
}

fn all(directory: &Path, scaffold: &Path, proofs: &mut Proofs, until: Instant) -> Result<(), String> {
    let planted =
        Planted::in_directory(directory).map_err(|error| format!("cannot plant a file: {error}"))?;
    let program = attacks::own_program().map_err(|error| format!("cannot open this program: {error}"))?;
    let (planted, program) = (planted.path(), program.as_fd());
    let in_landlock = child::start(|| landlock::attack(planted, program, Ground::Bare));
    // Which of the two a sandbox gets is known at the end.
    let filters = |ground| {
        child::start(move || seccomp::attack(&init::filter_options(ground, false, false, false), LIMIT))
    };
    let (in_filter, in_bare_filter) = (filters(Ground::UserNamespace), filters(Ground::Bare));
    let in_namespaces = child::start(|| namespaces::attack(Owner::Anybody, scaffold, LIMIT));
    let in_view = child::start(|| view::attack(Owner::Anybody, planted, program, scaffold, until));
    let in_rlimits = child::start(rlimits::attack);

    proofs.take(in_namespaces, until, pairs(namespaces::FACETS, Layer::Namespaces));
    proofs.take(in_view, until, pairs(view::FACETS, Layer::View));
    proofs.take(in_rlimits, until, pairs(rlimits::FACETS, Layer::Rlimits));
    settle_ground(proofs);
    let (used, other) = match proofs.ground {
        Ground::Bare => (in_bare_filter, in_filter),
        Ground::Machine | Ground::UserNamespace => (in_filter, in_bare_filter),
    };
    proofs.take(used, until, pairs(seccomp::FACETS, Layer::Seccomp));
    drop(other);
    match in_landlock.and_then(|child| child.join(until)) {
        Ok(found) => {
            proofs.landlock = found.on(proofs.ground);
            proofs.add(found.findings);
        }
        Err(cause) => proofs.fail(pairs(landlock::FACETS, Layer::Landlock), &cause),
    }
    proofs.observation = observe::needs_root();
    let sockets = host::without_root("eBPF programs need root; no socket can be made at all");
    proofs.set(Facet::Net, Layer::CgroupBpf, Verdict::NotAvailable(sockets));
    let ceilings = host::without_root("without root there is no cgroup for the sandbox");
    proofs.set(
        Facet::Resources,
        Layer::CgroupLimits,
        Verdict::NotAvailable(ceilings),
    );
    Ok(())
}

/// Namespaces without a view, or a view without namespaces, are no ground: then a sandbox has neither. What gets
/// through is not the same as what is not there: a layer that fails stays, and is not enforced.
fn settle_ground(proofs: &mut Proofs) {
    let parts = [(Facet::Net, Layer::Namespaces), (Facet::Fs, Layer::View)];
    let refused = parts
        .into_iter()
        .find_map(|(facet, layer)| match proofs.verdict(facet, layer) {
            Verdict::NotAvailable(why) => Some(why),
            _ => None,
        });
    match refused {
        None => proofs.ground = Ground::UserNamespace,
        Some(why) => {
            let without =
                pairs(namespaces::FACETS, Layer::Namespaces).chain(pairs(view::FACETS, Layer::View));
            for pair in without {
                proofs.verdicts.insert(pair, Verdict::NotAvailable(why.clone()));
            }
        }
    }
}

impl Proofs {
    /// What one child found, or that it did not say.
    pub(super) fn take(
        &mut self,
        child: Result<Child<Vec<Finding>>, String>,
        until: Instant,
        pairs: impl IntoIterator<Item = (Facet, Layer)>,
    ) {
        match joined(child, until) {
            Ok(findings) => self.add(findings),
            Err(cause) => self.fail(pairs, &cause),
        }
    }
}

pub(super) fn joined<T: DeserializeOwned>(
    child: Result<Child<T>, String>,
    until: Instant,
) -> Result<T, String> {
    child?.join(until)
}
