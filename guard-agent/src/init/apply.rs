//! The ordered, irreversible steps from a fresh process to a confined one. Straight-line on purpose.

use std::{
    fs, io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use nix::sys::resource::{Resource, setrlimit};

use super::{
    StepError,
    message::{Confinement, FromInit, Ground, Setup},
    userns, view,
};
use crate::{
    confine::{
        ConfineError,
        landlock::{self, Access, PathRule},
        seccomp,
    },
    fault,
    link::{channel::Channel, message::View},
    octets::Octets,
    proof::facets::Landlock,
    sys::process,
};

/// The child's stdin, stdout and stderr.
pub(super) type Pipes = [OwnedFd; 3];

/// A named step: the fault point of the same name, then the work.
fn step<T>(name: &'static str, object: &str, work: impl FnOnce() -> io::Result<T>) -> Result<T, StepError> {
    fault::point(name)
        .and_then(|()| work())
        .map_err(|error| StepError::new(name, object, error))
}

pub(super) fn apply(
    channel: &Channel,
    setup: Setup,
    mut descriptors: Vec<OwnedFd>,
) -> Result<(Setup, Pipes, Confinement), StepError> {
    let mut confinement = Confinement::default();
    let at = descriptors.len().saturating_sub(3);
    let pipes: Pipes = descriptors
        .split_off(at)
        .try_into()
        .map_err(|_| StepError::new("init.setup", "", "the descriptors do not match the setup"))?;

    let ground = setup.ground;
    // 1. to 3. What only exists where there are namespaces.
    let objects = if ground == Ground::Bare {
        descriptors
    } else {
        surroundings(&setup, descriptors, &mut confinement)?;
        Vec::new()
    };
    // 4. No terminal, no session shared with the warden.
    step("init.session", "", || {
        nix::unistd::setsid().map(drop).map_err(io::Error::from)
    })?;
    // 1, not 0: a piped core handler runs for 0.
    step("init.rlimits", "core", || {
        setrlimit(Resource::RLIMIT_CORE, 1, 1).map_err(io::Error::from)
    })?;
    if let Some(processes) = setup.processes {
        step("init.rlimits", "processes", || {
            setrlimit(Resource::RLIMIT_NPROC, processes, processes).map_err(io::Error::from)
        })?;
    }
    // Opened while still privileged, by the paths the child will use.
    let rules = match ground {
        Ground::Bare => view::bare_rules(&setup, objects)?,
        Ground::Machine | Ground::UserNamespace => view::landlock_rules(&setup)?,
    };
    confinement.directory = step("init.directory", "", || Ok(enter_directory(&setup)))?;
    // 5. Privilege goes, in the order in which each is still allowed to go.
    if ground != Ground::Bare {
        step("init.bounding-set", "", process::drop_bounding_set)?;
    }
    step("init.ids", "", || match ground {
        Ground::Machine => process::set_ids(setup.ids.uid, setup.ids.gid, &setup.ids.groups),
        Ground::UserNamespace | Ground::Bare => keeps_ids(&setup),
    })?;
    step("init.capabilities", "", process::clear_capabilities)?;
    step("init.no-new-privileges", "", process::no_new_privileges)?;
    step("init.dumpable", "", process::not_dumpable)?;
    // After the uid change, which clears it. A parent that died before is seen by the closed channel.
    step("init.parent", "", || {
        match ground {
            // Dead at once it would leave its descendants to somebody else: it ends them itself, and then.
            Ground::Bare => {
                process::adopt_orphans()?;
                // So that it hears of the warden's death even when somebody has stopped it.
                process::parent_death_signal(libc::SIGCONT)?;
            }
            Ground::Machine | Ground::UserNamespace => process::parent_death_signal(libc::SIGKILL)?,
        }
        parent_lives(channel)
    })?;
    // 6. The kernel's own confinement, last: what it forbids was needed above.
    let options = options(&setup, &confinement);
    let filters = step("init.seccomp-compile", "", || {
        seccomp::ChildFilters::reporting(&options).map_err(confine)
    })?;
    step("init.landlock", "", || restrict(&rules, &setup, &mut confinement))?;
    drop(rules);
    confinement.signals_bounded = step("init.signals", "", || signals_bounded(&setup, &confinement))?;
    let listener = step("init.seccomp", "", || filters.install().map_err(confine))?;
    channel
        .send(&FromInit::Listener, &[listener.as_fd()])
        .map_err(|error| StepError::new("init.listener", "", crate::refusal::chain(&error)))?;
    // Whoever holds it could answer for the warden.
    drop(listener);
    Ok((setup, pipes, confinement))
}

/// Namespaces and what is made in them.
fn surroundings(
    setup: &Setup,
    descriptors: Vec<OwnedFd>,
    confinement: &mut Confinement,
) -> Result<(), StepError> {
    if setup.ground == Ground::UserNamespace {
        step("init.user-namespace", "", || {
            userns::map_ids(setup.ids.uid, setup.ids.gid)
        })?;
        let _ = userns::close_further();
    }
    // 1. The mount namespace leaves the host's propagation before anything is mounted in it.
    step("init.propagation", "/", view::make_private)?;
    // 2. The view; from here on no path of the host exists.
    step("init.view", "", || Ok(()))?;
    confinement.notes.extend(view::build(setup, descriptors)?);
    // 3. Rooted at the sandbox's own cgroup: this process is already in it.
    step("init.cgroup-namespace", "", || {
        let made = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWCGROUP).map_err(io::Error::from);
        match setup.ground {
            Ground::Machine => made,
            // It only hides the name of the caller's cgroup.
            Ground::UserNamespace | Ground::Bare => Ok(()),
        }
    })?;
    step("init.hostname", "", || {
        nix::unistd::sethostname("sandbox").map_err(io::Error::from)
    })?;
    // The loopback interface of a new network namespace is down; it stays so.
    confinement.memfd_noexec = step("init.memfd", "", || {
        Ok(setup.ground == Ground::Machine && memfd_noexec())
    })?;
    Ok(())
}

/// Without privilege the ids are what they were: looked at, since the record says so.
fn keeps_ids(setup: &Setup) -> io::Result<()> {
    use nix::unistd::{getegid, geteuid, getgid, getuid};
    let have = (
        getuid().as_raw(),
        geteuid().as_raw(),
        getgid().as_raw(),
        getegid().as_raw(),
    );
    let want = (setup.ids.uid, setup.ids.uid, setup.ids.gid, setup.ids.gid);
    if have == want {
        return Ok(());
    }
    Err(io::Error::other(format!("the ids are {have:?}, not {want:?}")))
}

/// What the seccomp table depends on.
fn options(setup: &Setup, confinement: &Confinement) -> seccomp::Options {
    filter_options(
        setup.ground,
        setup.inet_sockets,
        setup.unix_sockets,
        confinement.memfd_noexec,
    )
}

/// The same for who proves the filters.
pub(crate) fn filter_options(
    ground: Ground,
    inet_sockets: bool,
    unix_sockets: bool,
    memfd_noexec_sysctl: bool,
) -> seccomp::Options {
    let namespaces = ground != Ground::Bare;
    let landlock = landlock::probe().map_or(0, |probe| probe.abi);
    seccomp::Options {
        inet_sockets,
        unix_sockets,
        memfd_noexec_sysctl,
        namespaces,
        truncation_judged: namespaces || landlock >= 3,
    }
}

/// Whether a signal cannot leave the sandbox. Landlock's word is tried on the warden: init itself will signal all it
/// may reach, when it ends the sandbox.
fn signals_bounded(setup: &Setup, confinement: &Confinement) -> io::Result<bool> {
    if setup.ground != Ground::Bare {
        return Ok(true);
    }
    if !confinement.landlock_scopes {
        return Ok(false);
    }
    match nix::sys::signal::kill(nix::unistd::getppid(), None) {
        Err(nix::Error::EPERM) => Ok(true),
        Ok(()) => Err(io::Error::other(
            "a signal reaches the warden in spite of Landlock's scope",
        )),
        Err(error) => Err(error.into()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn confine(error: ConfineError) -> io::Error {
    io::Error::other(crate::refusal::chain(&error))
}

/// Landlock, with what came of it. Without it the warden decides, before the release: it knows what is required.
fn restrict(rules: &[(OwnedFd, Access)], setup: &Setup, confinement: &mut Confinement) -> io::Result<()> {
    let rules: Vec<PathRule<'_>> = rules
        .iter()
        .map(|(object, access)| PathRule::fd(object.as_fd(), *access))
        .collect();
    match landlock::restrict(&rules, landlock_settings(setup.ground)) {
        Ok(state) => {
            let state = landlock_found(setup.ground, setup.inet_sockets || setup.unix_sockets, &state);
            confinement.landlock_abi = state.abi;
            confinement.landlock_scopes = state.scopes;
            confinement.landlock_missing = state.missing;
            Ok(())
        }
        Err(error @ ConfineError::LandlockMissing(_)) => {
            confinement.landlock_abi = 0;
            confinement.landlock_missing = vec![crate::refusal::chain(&error)];
            Ok(())
        }
        Err(error) => Err(confine(error)),
    }
}

/// What Landlock takes besides files; for who proves it, too. At tier T2 connections are left to the cgroup programs,
/// which see and report the address.
pub(crate) fn landlock_settings(ground: Ground) -> landlock::Settings {
    landlock::Settings {
        network: ground != Ground::Machine,
    }
}

/// Landlock as the record tells it; `sockets`: whether the filter lets any be made that reach others.
pub(crate) fn landlock_found(ground: Ground, sockets: bool, state: &landlock::LandlockState) -> Landlock {
    let missing = state.missing.iter().filter_map(|missing| {
        let why = consequence(ground, sockets, missing)?;
        Some(landlock::Missing { why, ..*missing })
    });
    let missing = missing.collect();
    Landlock::from(landlock::LandlockState { missing, ..*state })
}

/// What follows from something that this kernel's Landlock lacks, when something does.
fn consequence(ground: Ground, sockets: bool, missing: &landlock::Missing) -> Option<&'static str> {
    let bare = ground == Ground::Bare;
    match missing.what {
        "unix sockets by path" | "TCP" | "UDP" if !sockets => None,
        // Said of the facet it concerns.
        "scopes" if bare => None,
        "truncation" if bare => Some("seccomp refuses to empty what was not opened for writing"),
        _ => Some(missing.why),
    }
}

/// Sets `vm.memfd_noexec` of this pid namespace to 2 and reads it back; `false` where the kernel lacks it.
pub(crate) fn memfd_noexec() -> bool {
    let knob = Path::new("/proc/sys/vm/memfd_noexec");
    fs::write(knob, "2").is_ok() && fs::read_to_string(knob).is_ok_and(|text| text.trim() == "2")
}

/// The first working directory that exists in the view; `/` always does.
fn enter_directory(setup: &Setup) -> Octets {
    let found = setup
        .directories
        .iter()
        .find(|path| std::env::set_current_dir(path.as_path()).is_ok());
    found.cloned().unwrap_or_else(|| {
        let _ = std::env::set_current_dir("/");
        Octets::from("/")
    })
}

/// The parent is in another pid namespace, where `getppid` shows 0: its end of the channel tells.
fn parent_lives(channel: &Channel) -> io::Result<()> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut ready = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::ZERO)?;
    let gone = ready
        .first()
        .and_then(PollFd::revents)
        .is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR));
    if gone {
        Err(io::Error::other("the warden is gone"))
    } else {
        Ok(())
    }
}

/// The view in which the host's tree shows through.
pub(super) fn shows_host(setup: &Setup) -> bool {
    setup.view == View::Host
}
