//! Tier T3, without privilege: what Landlock and seccomp hold, and namespaces where a user namespace can be made.

use std::{os::fd::AsFd as _, path::Path, time::Instant};

use super::{
    LIMIT, Mode, Planted, Proofs, Verdict, attacks, child, landlock,
    namespaces::{self, Owner},
    pairs, seccomp, view,
};
use crate::{audit::Layer, confine::seccomp::Options, link::message::Facet};

/// Proves what can be proved; `mode` of the answer says whether namespaces of one's own are among it. Never fails:
/// what could not be tried is not enforced. The calling process has one thread.
///
/// `directory` is the caller's own; what is to be attacked is planted in it and removed again. `scaffold` is an empty
/// directory on which a view can be built.
pub fn unprivileged(directory: &Path, scaffold: &Path) -> Proofs {
    let start = Instant::now();
    let mut proofs = Proofs::new(Mode::Plain);
    if let Err(cause) = all(directory, scaffold, &mut proofs, start + LIMIT) {
        let every = super::facets::layers(Mode::UserNamespace)
            .iter()
            .flat_map(|(facet, layers)| layers.iter().map(move |layer| (*facet, *layer)));
        proofs.fail(every, &cause);
    }
    let isolated = proofs.verdict(Facet::Net, Layer::Namespaces);
    if !matches!(isolated, Verdict::NotAvailable(_)) {
        proofs.mode = Mode::UserNamespace;
    }
    proofs.elapsed = start.elapsed();
    proofs
}

fn all(directory: &Path, scaffold: &Path, proofs: &mut Proofs, until: Instant) -> Result<(), String> {
    let planted =
        Planted::in_directory(directory).map_err(|error| format!("cannot plant a file: {error}"))?;
    let program = attacks::own_program().map_err(|error| format!("cannot open this program: {error}"))?;
    let (planted, program) = (planted.path(), program.as_fd());
    let in_landlock = child::start(|| landlock::attack(planted, program, true));
    let in_seccomp = child::start(|| seccomp::attack(&Options::STRICT, false, LIMIT));
    let in_namespaces = child::start(|| namespaces::attack(Owner::Anybody, scaffold, LIMIT));
    let in_view = child::start(|| view::attack(Owner::Anybody, planted, program, scaffold));
    match in_landlock.and_then(|child| child.join(until)) {
        Ok(found) => {
            proofs.landlock = found.landlock;
            proofs.add(found.findings);
        }
        Err(cause) => proofs.fail(pairs(landlock::FACETS, Layer::Landlock), &cause),
    }
    match in_seccomp.and_then(|child| child.join(until)) {
        Ok(findings) => proofs.add(findings),
        Err(cause) => proofs.fail(pairs(seccomp::FACETS, Layer::Seccomp), &cause),
    }
    match in_namespaces.and_then(|child| child.join(until)) {
        Ok(findings) => proofs.add(findings),
        Err(cause) => proofs.fail(pairs(namespaces::FACETS, Layer::Namespaces), &cause),
    }
    match in_view.and_then(|child| child.join(until)) {
        Ok(findings) => proofs.add(findings),
        Err(cause) => proofs.fail(pairs(view::FACETS, Layer::View), &cause),
    }
    Ok(())
}
