//! Tier T2, as root: every layer a warden uses, attacked by children that run side by side.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    path::Path,
    time::Instant,
};

use super::{
    LIMIT, Planted, Proofs, Removed, Verdict, Why,
    anybody::joined,
    attacks,
    attempt::Finding,
    cgroup::{self, Reports},
    child, hooks, host, landlock, lsm,
    namespaces::{self, Owner},
    observe, pairs, seccomp, view,
};
use crate::{
    audit::Layer,
    init::{self, message::Ground},
    link::message::Facet,
    warden::{
        cgroup::{Parent, Sandbox},
        kernel::{Event, Programs},
    },
};

/// What a warden attacks with.
pub struct Privileged<'a> {
    /// The sandboxes' cgroup (one like a sandbox's is made below it and removed again) and its programs; or why this
    /// machine has none.
    pub kernel: Result<(&'a Parent, &'a mut Programs), Why>,
    /// Whether the programs of tier T1 are to be used, or why not.
    pub hooks: Result<(), Why>,
    /// A directory of ours: what is to be attacked is planted in it and removed again.
    pub directory: &'a Path,
    /// An empty directory on which a view can be built.
    pub scaffold: &'a Path,
}

/// The pairs that the table of the tier has.
fn every_pair() -> impl Iterator<Item = (Facet, Layer)> {
    super::facets::layers(Ground::Machine)
        .iter()
        .flat_map(|(facet, layers)| layers.iter().map(move |layer| (*facet, *layer)))
}

/// Proves what can be proved. Never fails: what could not be tried is not enforced. The calling process has one
/// thread.
pub fn privileged(with: Privileged<'_>) -> Proofs {
    let start = Instant::now();
    let mut proofs = Proofs::new(Ground::Machine);
    proofs.hooks_left_out = with.hooks.is_err();
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
        kernel,
        hooks,
        directory,
        scaffold,
    } = with;
    let planted = Planted::in_directory(directory).map_err(failed("cannot plant a file"))?;
    let program = attacks::own_program().map_err(failed("cannot open this program"))?;
    let (planted, program) = (planted.path(), program.as_fd());
    let unix_sockets = kernel
        .as_ref()
        .is_ok_and(|(_, programs)| programs.unix_hooks().is_ok());
    // The stricter of two about memory files: the setting has a proof of its own.
    let options = init::filter_options(Ground::Machine, true, unix_sockets, false);
    let in_landlock = child::start(|| landlock::attack(planted, program, Ground::Machine));
    let in_seccomp = child::start(|| seccomp::attack(&options, LIMIT));
    let in_namespaces = child::start(|| namespaces::attack(Owner::Root, scaffold, LIMIT));
    let in_view = child::start(|| view::attack(Owner::Root, planted, program, scaffold, until));
    match kernel {
        Ok((parent, programs)) => {
            in_a_cgroup(
                parent,
                programs,
                (directory, planted, program),
                hooks,
                proofs,
                until,
            );
        }
        Err(why) => {
            for (facet, layer) in cgroup::PAIRS {
                proofs.set(facet, layer, Verdict::NotAvailable(why.clone()));
            }
            proofs.observation = Verdict::NotAvailable(why.clone());
            for facet in hooks::FACETS {
                proofs.set(facet, Layer::BpfLsm, Verdict::NotAvailable(why.clone()));
            }
        }
    }
    match joined(in_landlock, until) {
        Ok(found) => {
            proofs.landlock = found.on(Ground::Machine);
            proofs.add(found.findings);
        }
        Err(cause) => proofs.fail(
            pairs([Facet::Fs, Facet::Exec, Facet::Ipc], Layer::Landlock),
            &cause,
        ),
    }
    proofs.take(in_seccomp, until, pairs(seccomp::FACETS, Layer::Seccomp));
    proofs.take(in_namespaces, until, pairs(namespaces::FACETS, Layer::Namespaces));
    proofs.take(in_view, until, pairs(view::FACETS, Layer::View));
    Ok(())
}

/// What needs a cgroup like a sandbox's.
fn in_a_cgroup(
    parent: &Parent,
    programs: &mut Programs,
    (directory, planted, program): (&Path, &Path, BorrowedFd<'_>),
    wanted: Result<(), Why>,
    proofs: &mut Proofs,
    until: Instant,
) {
    let lsm_pairs = || pairs(hooks::FACETS, Layer::BpfLsm);
    let cgroup = match parent.sandbox(cgroup::NAME, &cgroup::LIMITS) {
        Ok(cgroup) => cgroup,
        Err(error) => {
            let cause = format!("cannot make a cgroup: {}", crate::refusal::chain(&error));
            return proofs.fail(cgroup::PAIRS.into_iter().chain(lsm_pairs()), &cause);
        }
    };
    let (unix_missing, limits_missing) = (programs.unix_hooks().err(), parent.limits_unavailable());
    let socket = Removed::name(directory.join("proof.sock"));
    let socket = unix_missing.is_none().then_some(&socket);
    let path = socket.map(|socket| socket.0.as_path());
    let names = observe::Names::below(directory);
    let slot = observed(programs, &cgroup);
    let in_cgroup = child::start(|| cgroup::attack(cgroup.path(), path).map_err(|error| error.to_string()));
    let in_lsm = child::start(|| lsm::attack(cgroup.path(), cgroup.id(), planted));
    let watched = slot
        .as_ref()
        .ok()
        .map(|_| child::start(|| observe::attack(cgroup.path(), &names).map_err(|error| error.to_string())));
    let tried = joined(in_cgroup, until).and_then(|found| found);
    let watched = watched.map(|child| joined(child, until).and_then(|found| found));
    let (mut reports, mut seen) = (Reports::default(), observe::Seen::default());
    drain(programs, |event| {
        seen.look(event, cgroup.id(), &names);
        if let (Event::Net(event), Ok(found)) = (event, &tried) {
            reports.look(event, cgroup.id(), found, path);
        }
    });
    match tried {
        Ok(found) => proofs.add(cgroup::findings(
            &found,
            &reports,
            unix_missing.as_deref(),
            limits_missing.as_deref(),
        )),
        Err(cause) => proofs.fail(cgroup::PAIRS, &cause),
    }
    proofs.observation = match (&slot, watched) {
        (Err(why), _) => Verdict::NotAvailable(why.clone()),
        (_, Some(Ok(found))) => observe::verdict(&found, &seen),
        (_, Some(Err(cause))) => Verdict::not_enforced(format!("its self-test did not work: {cause}")),
        (_, None) => Verdict::not_enforced("its self-test was not made"),
    };
    let known = programs
        .hooks_known()
        .map_err(|error| host::without_hooks(&crate::refusal::chain(&error)));
    let lsm = joined(in_lsm, until).unwrap_or_else(lsm::Reached::Failed);
    match (lsm::verdict(&lsm), wanted.and(Ok(known)), &slot) {
        (Some(verdict), _, _) => proofs.set_all(lsm_pairs(), &verdict),
        (None, Err(why), _) => proofs.set_all(lsm_pairs(), &Verdict::NotEnforced(why)),
        (None, Ok(Err(why)), _) => proofs.set_all(lsm_pairs(), &Verdict::NotAvailable(why)),
        (None, Ok(Ok(())), Err(why)) => proofs.set_all(lsm_pairs(), &Verdict::NotAvailable(why.clone())),
        (None, Ok(Ok(())), Ok(slot)) => match hooked(programs, (&cgroup, *slot), directory, program, until) {
            Ok((findings, told)) => {
                proofs.add(findings);
                proofs.told = told;
            }
            Err(cause) => {
                programs.hooks_stop();
                proofs.fail(lsm_pairs(), &cause);
            }
        },
    }
    // What the attackers were refused is no news.
    drain(programs, |_| {});
    if let Some(Why { why, change }) = proofs.why_not_hooked() {
        // Half a tier is none.
        programs.hooks_stop();
        let why = Why {
            why: format!("the security hooks are not used: {why}"),
            change,
        };
        for (facet, layer) in lsm_pairs() {
            if proofs.verdict(facet, layer).holds() {
                proofs.set(facet, layer, Verdict::NotEnforced(why.clone()));
            }
        }
    }
    cgroup::remove(&cgroup, until);
    if let Ok(slot) = slot {
        programs.observe_stop();
        if let Err(error) = programs.close_slot(cgroup.id(), slot) {
            tracing::error!(error = %crate::refusal::chain(&error), "cannot close the self-test's slot");
        }
    }
}

/// The programs of tier T1, put in force and attacked.
fn hooked(
    programs: &mut Programs,
    cgroup: (&Sandbox, u32),
    directory: &Path,
    program: BorrowedFd<'_>,
    until: Instant,
) -> Result<(Vec<Finding>, Verdict), String> {
    let places =
        hooks::Places::in_directory(directory).map_err(|error| format!("cannot plant files: {error}"))?;
    programs
        .hooks_start()
        .map_err(|error| crate::refusal::chain(&error))?;
    hooks::attack(programs, cgroup, (&places, program), until)
}

/// From now on the kernel half watches the cgroup. A slot, or why it does not.
fn observed(programs: &mut Programs, cgroup: &Sandbox) -> Result<u32, Why> {
    observe::in_the_first_pid_namespace()?;
    let failed = |error| host::without_observation(&crate::refusal::chain(&error));
    programs
        .observation()
        .map_err(|why| host::without_observation(&why))?;
    programs.observe_start().map_err(failed)?;
    programs.open_slot(cgroup.id(), true).map_err(|error| {
        programs.observe_stop();
        failed(error)
    })
}

/// What the kernel half told. Each record was written before the call it is about returned.
pub(super) fn drain(programs: &mut Programs, mut look: impl FnMut(&Event)) {
    if let Some(events) = programs.events() {
        while events.drain(|event| look(&event)).more {}
    }
}
