//! Tier T3: the warden of an ordinary user. The same roles without a privilege; namespaces where the machine lets
//! anybody make a user namespace, otherwise Landlock and seccomp alone.

use std::{fs::File, path::Path, sync::Arc};

use nix::unistd::{getegid, geteuid, getgroups};

use super::{
    hold::{Children, Parent, Processes},
    launch::{Context, Parked, report::KernelFacts, step_failed},
    reaper,
    start::{Started, listen, step},
    state, sweep,
};
use crate::{
    init::message::{Ground, Ids},
    link::message::{LaunchRequest, View},
    proof,
    refusal::Refusal,
    sys,
};

/// From the lock to ready.
pub(super) fn start(directory: &Path, lock: File) -> Result<Started, Refusal> {
    let swept = step("warden.sweep", || {
        sweep::sweep(directory, "warden: it died; swept by the next one")
    })?;
    if swept > 0 {
        tracing::warn!(swept, "recorded sandboxes that an earlier warden left");
    }
    let program = step("warden.program", || File::open("/proc/self/exe"))?;
    let null = step("warden.null", || {
        File::options().read(true).write(true).open("/dev/null")
    })?;
    let children = Children::default();
    // What a sandbox leaves whose init is gone becomes a child of this process, which ends it.
    step("warden.subreaper", sys::process::adopt_orphans)?;
    let reaper = step("warden.reaper", || {
        reaper::start(&program, &null, directory, &children)
    })?;
    let scaffold = state::scaffold(directory);
    let proofs = proof::unprivileged(directory, &scaffold);
    let ground = proofs.ground;
    let parent = Parent::Processes(Processes::new(directory, ground, children));
    let reaper = step("warden.links", || reaper.hold(&[]))?;
    let listener = step("warden.socket", || listen(&directory.join(state::SOCKET)))?;
    let facts = KernelFacts {
        release: nix::sys::utsname::uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        proofs,
        limits_missing: parent.limits_unavailable(),
        ground,
    };
    if let Some(why) = facts.no_user_namespace() {
        tracing::info!(why, "no user namespaces");
    }
    let context = Context {
        program,
        null,
        state: directory.to_path_buf(),
        scaffold,
        parent,
        ground,
        inet_hooks: false,
        unix_hooks: false,
        enroller: None,
    };
    Ok(Started {
        context: Arc::new(context),
        programs: None,
        reaper,
        listener,
        facts,
        lock,
    })
}

/// Without privilege the child has this process's own ids: a request of another login is not for this warden.
pub(super) fn same_ids(ground: Ground, ids: &Ids) -> Result<(), Refusal> {
    if ground == Ground::Machine {
        return Ok(());
    }
    let mut groups: Vec<u32> = getgroups()
        .map_err(|error| step_failed("launch.ids", error))?
        .into_iter()
        .map(nix::unistd::Gid::as_raw)
        .collect();
    groups.sort_unstable();
    let own = (geteuid().as_raw(), getegid().as_raw(), groups);
    let mut asked = ids.groups.clone();
    asked.sort_unstable();
    if own == (ids.uid, ids.gid, asked) {
        return Ok(());
    }
    Err(Refusal::usage(
        "cannot use the running warden",
        format!(
            "it was started with other groups than this run has: it has gid {} and groups {:?}",
            own.1, own.2
        ),
        "wait until it has left (some seconds after its last session), or give this run a state directory of its own with `--state`",
    ))
}

/// The view that is possible. Private by default, but not where nothing can be mounted.
pub(super) fn with_view(facts: &KernelFacts, mut request: LaunchRequest) -> Result<LaunchRequest, Refusal> {
    if facts.ground == Ground::Bare && request.view == View::Private {
        if request.view_asked {
            return Err(Refusal::not_enforced(
                format!("cannot give `{}` a private view", request.server),
                facts.no_user_namespace().unwrap_or_default(),
                "allow user namespaces, start it as root, or leave the view out: it is then `host`",
            ));
        }
        request.view = View::Host;
    }
    Ok(request)
}

/// What the operator is told at a launch without root.
pub(super) fn notes(facts: &KernelFacts, parked: &Parked) -> Vec<String> {
    let mut notes = parked.confinement.notes.clone();
    if facts.ground == Ground::Machine {
        return notes;
    }
    if let Some(why) = &facts.no_user_namespace() {
        notes.push(format!("no namespaces and no private view: {why}"));
        notes.push(
            "of the host the server can see names, sizes and times of files, and the machine's processes"
                .to_owned(),
        );
        if parked.pinned > 0 {
            notes.push(format!(
                "{} protected names in writable roots (such as `.git/hooks`) can be changed: holding them needs a private view",
                parked.pinned
            ));
        }
    }
    notes
}
