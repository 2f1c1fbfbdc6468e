//! A sandbox's place with the kernel half, from before its release until its last event was read: its slot of
//! counters, its observation, the desk its events go to.

use std::{os::fd::AsFd as _, rc::Rc};

use super::{desk::Desk, places::Places};
use crate::{
    audit::LaunchRoot,
    link::message::{LaunchRequest, OverBudget, User, View},
    warden::{
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
    /// Ends after the slot is closed.
    observation: Option<Observation>,
    desk: Rc<Desk>,
    /// Why files, programs and processes are not observed.
    missing: Option<String>,
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
        let cgroup = parked.cgroup.id();
        let slot = warden.ring.open_slot(cgroup, observed)?;
        let hooked = match (&parked.enrolled, slot) {
            (Some(_), Some(slot)) => warden
                .ring
                .enforce((cgroup, slot), observed, parked.pidfd.as_fd()),
            (Some(_), None) => Err("the sandbox has no slot".to_owned()),
            (None, _) => Ok(()),
        };
        if let Err(why) = hooked {
            if let Some(slot) = slot {
                warden.ring.close_slot(cgroup, slot);
            }
            return Err(why);
        }
        let places = places(request, parked);
        let freeze = (request.over_budget == OverBudget::Quarantine).then(|| parked.cgroup.freezer());
        let desk = Desk::new(subject, freeze, places, parked.pid);
        let desk = Rc::new(desk);
        warden.ring.route(cgroup, desk.clone());
        Ok(Self {
            warden: warden.clone(),
            cgroup,
            slot,
            observation,
            desk,
            missing,
        })
    }

    pub(in crate::warden) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// As the launch record says it.
    pub(in crate::warden) fn observation(&self) -> &'static str {
        match (self.observation.is_some(), self.slot) {
            (true, _) => "tracepoints+cgroup-bpf+seccomp",
            (false, Some(_)) => "cgroup-bpf+seccomp",
            // Without root: no program, but seccomp's refusals are heard all the same.
            (false, None) => "none",
        }
    }

    pub(in crate::warden) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Tells the desk what the kernel half had no room for so far.
    pub(in crate::warden) fn count(&self) {
        if let Some(lost) = self.slot.and_then(|slot| self.warden.ring.lost(slot)) {
            self.desk.lost(lost.denied, lost.allowed, 0);
        }
    }

    /// The barrier, when the last task is gone: everything that was reported is read, and what is missing is counted.
    pub(in crate::warden) async fn settle(&self) {
        if let Some(slot) = self.slot {
            self.warden.settle_events(slot).await;
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
