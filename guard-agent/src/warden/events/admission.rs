//! A sandbox's place with the kernel half, from before its release until its last event was read: its slot of
//! counters, its observation, the desk its events go to.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    rc::Rc,
};

use super::{desk::Desk, modules::Landlock, places::Places};
use crate::{
    audit::LaunchRoot,
    link::message::{Isolation, LaunchRequest, OverBudget, Protocol, User, View},
    warden::{
        kernel::Skipped,
        launch::{Parked, report::RootFacts},
        serve::Warden,
        subject::Subject,
    },
};

/// As long as there is one, calls on files, programs and processes are observed.
pub(in crate::warden) struct Observation {
    warden: Rc<Warden>,
}

impl Observation {
    /// Or why they are not.
    pub(in crate::warden) fn start(warden: &Rc<Warden>, request: &LaunchRequest) -> Result<Self, String> {
        if !request.observe {
            return Err("it is turned off (`--observe off`, or `observe = false` in the policy)".to_owned());
        }
        // What was not seen to work when this warden tried it is not claimed.
        match warden.facts.proofs.observation.why() {
            Some(why) => Err(why.why.clone()),
            None => warden.ring.observe_start().map(|()| Self {
                warden: warden.clone(),
            }),
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.warden.ring.observe_stop();
    }
}

/// Given up when dropped.
pub(in crate::warden) struct Admission {
    warden: Rc<Warden>,
    cgroup: u64,
    /// None where no program counts.
    slot: Option<u32>,
    /// Its call stamp, until its gateway has it. None where no program would read it.
    stamp: Option<OwnedFd>,
    /// The security hooks decide for it.
    hooked: bool,
    /// Ends after the slot is closed.
    observation: Option<Observation>,
    desk: Rc<Desk>,
    /// Why files, programs and processes are not observed.
    missing: Option<String>,
    /// At tier T1: why what other security modules refuse is not told, if it is not.
    verdicts: Option<Result<(), String>>,
    /// What the kernel had skipped before.
    skipped: Skipped,
}

impl Admission {
    /// Before the release: nothing the server does is to be missed.
    pub(in crate::warden) fn new(
        warden: &Rc<Warden>,
        subject: &Subject,
        request: &LaunchRequest,
        parked: &Parked,
    ) -> Result<Self, String> {
        let (observation, missing) = match Observation::start(warden, request) {
            Ok(observation) => (Some(observation), None),
            Err(why) => (None, Some(why)),
        };
        let observed = observation.is_some();
        let told = &warden.facts.proofs.told;
        let verdicts = (observed && parked.enrolled.is_some())
            .then(|| told.why().map_or(Ok(()), |why| Err(why.why.clone())));
        let cgroup = parked.cgroup.id();
        let slot = warden.ring.open_slot(cgroup, observed)?;
        // Before the hooks decide: they find it where there is one.
        let stamped = match slot {
            Some(slot) => warden.ring.stamp((cgroup, slot), launch_rights(request)),
            None => Ok(None),
        };
        let hooked = stamped.and_then(|stamp| {
            match (&parked.enrolled, slot) {
                (Some(_), Some(slot)) => warden
                    .ring
                    .enforce((cgroup, slot), observed, parked.pidfd.as_fd()),
                (Some(_), None) => Err("the sandbox has no slot".to_owned()),
                (None, _) => Ok(()),
            }
            .map(|()| stamp)
        });
        let stamp = match hooked {
            Ok(stamp) => stamp,
            Err(why) => {
                if let Some(slot) = slot {
                    warden.ring.close_slot(cgroup, slot);
                }
                return Err(why);
            }
        };
        let places = places(request, parked);
        let freeze = (request.over_budget == OverBudget::Quarantine).then(|| parked.cgroup.freezer());
        let landlock = Landlock {
            abi: parked.confinement.landlock_abi,
            scopes: parked.confinement.landlock_scopes,
        };
        let desk = Desk::new(
            subject,
            tells_calls(request),
            freeze,
            places,
            landlock,
            parked.pid,
        );
        let desk = Rc::new(desk);
        warden.ring.route(cgroup, desk.clone());
        Ok(Self {
            warden: warden.clone(),
            cgroup,
            slot,
            stamp,
            hooked: parked.enrolled.is_some(),
            observation,
            desk,
            missing,
            verdicts,
            skipped: warden.ring.skipped_now(),
        })
    }

    /// Its call stamp, once: for its gateway.
    pub(in crate::warden) fn take_stamp(&mut self) -> Option<OwnedFd> {
        self.stamp.take()
    }

    pub(in crate::warden) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// As the launch record says it.
    pub(in crate::warden) fn observation(&self) -> &'static str {
        match (self.observation.is_some(), self.slot) {
            (true, _) if matches!(self.verdicts, Some(Ok(()))) => "verdicts+tracepoints+cgroup-bpf+seccomp",
            (true, _) => "tracepoints+cgroup-bpf+seccomp",
            (false, Some(_)) => "cgroup-bpf+seccomp",
            // Without root: no program, but seccomp's refusals are heard all the same.
            (false, None) => "none",
        }
    }

    pub(in crate::warden) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Why what other security modules refuse is not told where it could be.
    pub(in crate::warden) fn verdicts_missing(&self) -> Option<&str> {
        self.verdicts.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// What of the launch's claim did not hold all the time.
    pub(in crate::warden) fn degraded(&self) -> Option<String> {
        self.hooked.then(|| self.since().why()).flatten()
    }

    /// Runs skipped since the session began. What no program of this session has skipped is none of its records'.
    fn since(&self) -> Skipped {
        let mut since = self.warden.ring.skipped().since(&self.skipped);
        if !self.hooked {
            since.hooks.clear();
        }
        if self.observation.is_none() {
            since.telling = 0;
        }
        since
    }

    /// Tells the desk what the kernel half had no room for so far, and what it did not run.
    pub(in crate::warden) fn count(&self) {
        let skipped = self.since();
        self.desk.skipped(skipped.telling, skipped.decisions());
        if let Some(lost) = self.slot.and_then(|slot| self.warden.ring.lost(slot)) {
            self.desk.lost(lost.denied, lost.allowed, 0);
        }
    }

    /// The barrier, when the last task is gone: everything that was reported is read, and what is missing is counted.
    pub(in crate::warden) async fn settle(&self) {
        if let Some(slot) = self.slot {
            self.warden.settle_events(slot).await;
            self.warden.ring.skipped_now();
            self.count();
            if let Some(lost) = self.warden.ring.lost(slot) {
                self.desk.lost(lost.denied, lost.allowed, lost.unread);
            }
        }
        self.desk.finish();
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.warden.ring.unroute(self.cgroup);
        if let Some(slot) = self.slot {
            self.warden.ring.close_slot(self.cgroup, slot);
        }
    }
}

/// Whether the gateway of this sandbox tells of its calls.
pub(in crate::warden) fn tells_calls(request: &LaunchRequest) -> bool {
    request.protocol == Protocol::Mcp && request.isolation == Isolation::Session
}

/// All that a call may be given: what the roots have together.
fn launch_rights(request: &LaunchRequest) -> u32 {
    request.roots.iter().fold(0, |all, root| all | root.rights.bits())
}

/// The names of the view that was built for this launch.
fn places(request: &LaunchRequest, parked: &Parked) -> Places {
    let mut places = Places::new(request.view, &parked.confinement.directory.0);
    if let (View::Private, User::Account { home, .. }) = (request.view, &request.user)
        && home.0.len() > 1
    {
        places.private(&home.0);
    }
    for LaunchRoot {
        path,
        resolved,
        rights,
        ..
    } in parked.roots.iter().map(RootFacts::record)
    {
        places.root(&path.0, rights);
        if let Some(resolved) = resolved {
            places.root(&resolved.0, rights);
        }
    }
    for grant in &request.runtime.grants {
        places.grant(&grant.path.0, grant.exec);
    }
    for link in &request.runtime.links {
        places.link(&link.path.0, &link.target.0);
    }
    places
}
