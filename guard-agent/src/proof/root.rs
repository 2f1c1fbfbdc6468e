//! Tier T2, as root: every layer a warden uses, attacked by children that run side by side.

use std::{io, os::fd::AsFd as _, path::Path, time::Instant};

use super::{
    LIMIT, Mode, Planted, Proofs, Removed, attacks,
    cgroup::{self, Reports},
    child::{self, Child},
    landlock, lsm, namespaces, pairs, seccomp, view,
};
use crate::{
    audit::Layer,
    confine::seccomp::Options,
    link::message::Facet,
    warden::{
        cgroup::{Parent, Sandbox},
        kernel::Programs,
    },
};

/// What a warden attacks with.
pub struct Privileged<'a> {
    /// The sandboxes' cgroup; one like a sandbox's is made below it and removed again.
    pub parent: &'a Parent,
    pub programs: &'a mut Programs,
    /// A directory of ours: what is to be attacked is planted in it and removed again.
    pub directory: &'a Path,
    /// An empty directory on which a view can be built.
    pub scaffold: &'a Path,
}

/// The pairs that the table of the tier has.
fn every_pair() -> impl Iterator<Item = (Facet, Layer)> {
    super::facets::layers(Mode::Root)
        .iter()
        .flat_map(|(facet, layers)| layers.iter().map(move |layer| (*facet, *layer)))
}

/// Proves what can be proved. Never fails: what could not be tried is not enforced. The calling process has one
/// thread.
pub fn privileged(with: Privileged<'_>) -> Proofs {
    let start = Instant::now();
    let mut proofs = Proofs::new(Mode::Root);
    if let Err(error) = all(with, &mut proofs, start + LIMIT) {
        proofs.fail(every_pair(), &error);
    }
    proofs.elapsed = start.elapsed();
    tracing::info!(ms = proofs.elapsed.as_millis(), "self-test done");
    proofs
}

fn all(with: Privileged<'_>, proofs: &mut Proofs, until: Instant) -> Result<(), String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let Privileged {
        parent,
        programs,
        directory,
        scaffold,
    } = with;
    let planted = Planted::in_directory(directory).map_err(failed("cannot plant a file"))?;
    let program = attacks::own_program().map_err(failed("cannot open this program"))?;
    let (planted, program) = (planted.path(), program.as_fd());
    let unix_missing = programs.unix_hooks().err();
    let limits_missing = parent.limits_unavailable();
    let cgroup = parent
        .sandbox(cgroup::NAME, &cgroup::LIMITS)
        .map_err(|error| format!("cannot make a cgroup: {}", crate::refusal::chain(&error)))?;
    let socket = Removed(directory.join("proof.sock"));
    let socket_path = unix_missing.is_none().then_some(socket.0.as_path());
    let options = Options {
        inet_sockets: true,
        unix_sockets: unix_missing.is_none(),
        // The stricter of the two: the setting has a proof of its own.
        memfd_noexec_sysctl: false,
        private_ipc: true,
    };

    let in_landlock = child::start(|| landlock::attack(planted, program, false));
    let in_seccomp = child::start(|| seccomp::attack(&options, true, LIMIT));
    let in_namespaces = child::start(|| namespaces::attack(namespaces::Owner::Root, scaffold, LIMIT));
    let in_view = child::start(|| view::attack(namespaces::Owner::Root, planted, program, scaffold));
    let in_cgroup =
        child::start(|| cgroup::attack(cgroup.path(), socket_path).map_err(|error| error.to_string()));
    let in_lsm = child::start(|| lsm::attack(cgroup.path(), cgroup.id(), planted));

    match joined(in_landlock, until) {
        Ok(found) => {
            proofs.landlock = found.landlock;
            proofs.add(found.findings);
        }
        Err(cause) => proofs.fail(
            pairs([Facet::Fs, Facet::Exec, Facet::Ipc], Layer::Landlock),
            &cause,
        ),
    }
    match joined(in_seccomp, until) {
        Ok(findings) => proofs.add(findings),
        Err(cause) => proofs.fail(pairs(seccomp::FACETS, Layer::Seccomp), &cause),
    }
    match joined(in_namespaces, until) {
        Ok(findings) => proofs.add(findings),
        Err(cause) => proofs.fail(pairs(namespaces::FACETS, Layer::Namespaces), &cause),
    }
    match joined(in_view, until) {
        Ok(findings) => proofs.add(findings),
        Err(cause) => proofs.fail(pairs(view::FACETS, Layer::View), &cause),
    }
    let tried = joined(in_cgroup, until).and_then(|found| found);
    match tried {
        Ok(found) => {
            let reports = reports(programs, &cgroup, &found, socket_path);
            let findings = cgroup::findings(
                &found,
                &reports,
                unix_missing.as_deref(),
                limits_missing.as_deref(),
            );
            proofs.add(findings);
        }
        Err(cause) => proofs.fail(cgroup::PAIRS, &cause),
    }
    let lsm = joined(in_lsm, until).unwrap_or_else(lsm::Reached::Failed);
    for facet in [Facet::Fs, Facet::Exec] {
        proofs.set(facet, Layer::BpfLsm, lsm::verdict(&lsm));
    }
    cgroup::remove(&cgroup, until);
    Ok(())
}

fn joined<T: serde::de::DeserializeOwned>(
    child: Result<Child<T>, String>,
    until: Instant,
) -> Result<T, String> {
    child?.join(until)
}

/// What the kernel half told of the cgroup. Each record was written before the refusal it is about returned.
fn reports(
    programs: &mut Programs,
    cgroup: &Sandbox,
    found: &cgroup::Found,
    socket: Option<&Path>,
) -> Reports {
    let mut reports = Reports::default();
    if let Some(events) = programs.events() {
        while events
            .drain(|event| reports.look(&event, cgroup.id(), found, socket))
            .more
        {}
    }
    reports
}
