//! Where the events of one sandbox arrive: whoever reads the ring puts them in, the session takes records out.

use std::{
    cell::{OnceCell, RefCell},
    io,
};

use guard_common::told::Told;
use tokio::sync::Notify;

use super::{
    in_flight::{self, InFlight},
    ledger::Ledger,
    look::Look,
    modules::{Landlock, Modules},
    mounts::Mounts,
    of_call, of_exec, of_net, of_notification, of_verdict,
    places::Places,
};
use crate::{
    audit::{Activity, Body, Gap, Layer},
    confine::notify::Notification,
    octets::Octets,
    warden::{
        kernel::{Event, KernelPath},
        subject::Subject,
    },
};

/// What is known of a sandbox, and what can be looked up in it.
#[derive(Debug)]
pub(super) struct Surroundings {
    places: Places,
    look: Option<Look>,
    mounts: Mounts,
    modules: Modules,
}

impl Surroundings {
    pub(super) fn new(places: Places, look: Option<Look>, mounts: Mounts, modules: Modules) -> Self {
        Self {
            places,
            look,
            mounts,
            modules,
        }
    }

    /// Layer and reason where a security module refused and it was not ours.
    pub(super) fn refused(&self, told: &Told, errno: u16, tid: u32) -> (Layer, &'static str) {
        let profile = || self.look.as_ref().is_none_or(|look| look.has_profile(tid));
        self.modules.refused(told, errno, profile)
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// The working directory of a thread; that of the launch, not surely, when it is gone.
    pub(super) fn working_directory(&self, tid: u32) -> (Option<Vec<u8>>, bool) {
        match self.look.as_ref().and_then(|look| look.working_directory(tid)) {
            Some(found) => (Some(found), true),
            None => (Some(self.places.directory().to_vec()), false),
        }
    }

    pub(super) fn descriptor(&self, tid: u32, fd: i32) -> Option<Vec<u8>> {
        self.look.as_ref()?.descriptor(tid, fd)
    }

    pub(super) fn program(&self, tid: u32) -> Option<Octets> {
        self.look.as_ref()?.program(tid)
    }

    /// The path of what the kernel names from the top of a filesystem, and whether it is one: where that filesystem is
    /// mounted nowhere in sight, it begins at its top and without a slash.
    pub(super) fn placed(&self, dev: Option<u64>, names: &KernelPath) -> (Vec<u8>, bool) {
        let known = |path: &[u8]| self.places.at(path).is_some();
        let at = dev.filter(|_| names.complete);
        match at.and_then(|dev| self.mounts.path(dev, &names.components, known)) {
            Some(path) => (path, true),
            None => (names.components.join(&b'/'), false),
        }
    }

    /// Only in a view that hides the rest; elsewhere what a link leads to is there.
    pub(super) fn leads_out(&self, path: &[u8]) -> bool {
        let inside = self.places.hides_the_rest() && self.places.at(path).is_some();
        inside
            && self
                .look
                .as_ref()
                .is_some_and(|look| look.leads_out(&self.places, path))
    }
}

/// One sandbox's. Nothing waits in between: an event is counted when it is read.
pub(in crate::warden) struct Desk {
    ledger: RefCell<Ledger>,
    calls: RefCell<InFlight>,
    around: Surroundings,
    news: Notify,
    /// Freezes the sandbox, where what goes over the budget has that consequence.
    freeze: Option<Freeze>,
    /// What came of it.
    frozen: OnceCell<io::Result<()>>,
}

/// Stops a sandbox at once.
pub(in crate::warden) type Freeze = Box<dyn Fn() -> io::Result<()>>;

impl Desk {
    /// For the sandbox of this init, which is parked. With `freeze` it is frozen when
    /// its denials go over the budget.
    pub(in crate::warden) fn new(
        subject: &Subject,
        tells_calls: bool,
        freeze: Option<Freeze>,
        places: Places,
        landlock: Landlock,
        init: i32,
    ) -> Self {
        let look = Look::into(init).inspect_err(|error| {
            tracing::warn!(sandbox = subject.name(), %error, "the sandbox cannot be looked into: records lack what would be looked up");
        });
        Self {
            ledger: RefCell::new(Ledger::new(subject, freeze.is_some())),
            calls: RefCell::new(InFlight::new(tells_calls)),
            around: Surroundings::new(places, look.ok(), Mounts::seen_by(init), Modules::of(landlock)),
            news: Notify::new(),
            freeze,
            frozen: OnceCell::new(),
        }
    }

    pub(in crate::warden) fn event(&self, event: Event) {
        let mut ledger = self.ledger.borrow_mut();
        let (bits, time) = event.stamped();
        let during = self.calls.borrow().at(bits, time);
        match event {
            Event::Net(event) => of_net::note(event, during, &mut ledger, &self.around),
            Event::Call(event) => of_call::note(event, during, &mut ledger, &self.around),
            Event::Exec(event) => of_exec::note(event, during, &mut ledger, &self.around),
            Event::Verdict(event) => of_verdict::note(event, during, &mut ledger, &self.around),
        }
        self.look_at(&ledger);
    }

    pub(in crate::warden) fn notification(&self, notification: &Notification) {
        let mut ledger = self.ledger.borrow_mut();
        of_notification::note(
            notification,
            self.calls.borrow().at_present(),
            &mut ledger,
            &self.around,
        );
        self.look_at(&ledger);
    }

    /// From now on attempts with this bit may be of this call.
    pub(in crate::warden) fn call_begins(&self, call: u64, bit: u32) {
        self.calls.borrow_mut().begin(call, bit, in_flight::now());
        self.ledger.borrow_mut().call_begins(call);
    }

    /// The gateway says that it is over. `false`: it was not in flight.
    pub(in crate::warden) fn call_over(&self, call: u64) -> bool {
        self.calls.borrow_mut().end(call, in_flight::now())
    }

    /// Everything that was reported during it is read: what that was.
    pub(in crate::warden) fn call_ends(&self, call: u64) -> Activity {
        self.ledger.borrow_mut().call_ends(call)
    }

    /// A sandbox that goes over its budget stops now, not when what it did before is written.
    fn look_at(&self, ledger: &Ledger) {
        if let Some(freeze) = &self.freeze
            && ledger.is_over()
            && self.frozen.get().is_none()
        {
            let _ = self.frozen.set(freeze());
            self.news.notify_one();
        }
        if ledger.has_news() {
            self.news.notify_one();
        }
    }

    /// What came of freezing it, once it went over its budget.
    pub(in crate::warden) fn frozen(&self) -> Option<&io::Result<()>> {
        self.frozen.get()
    }

    /// What the kernel half has counted for this sandbox.
    pub(in crate::warden) fn lost(&self, denied: u64, allowed: u64, unread: u64) {
        self.ledger.borrow_mut().lost(denied, allowed, unread);
    }

    /// What the kernel has skipped since the session began.
    pub(in crate::warden) fn skipped(&self, telling: u64, decisions: u64) {
        self.ledger.borrow_mut().skipped(telling, decisions);
    }

    /// A moment has passed.
    pub(in crate::warden) fn tick(&self) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.tick();
        self.look_at(&ledger);
    }

    pub(in crate::warden) fn finish(&self) {
        self.ledger.borrow_mut().finish();
    }

    /// Until there may be something to take.
    pub(in crate::warden) async fn news(&self) {
        self.news.notified().await;
    }

    /// The next records, at most so many; asks for another visit when there are more.
    pub(in crate::warden) fn take(&self, most: usize) -> Vec<Body> {
        let mut ledger = self.ledger.borrow_mut();
        let records = ledger.take(most);
        if ledger.has_news() {
            self.news.notify_one();
        }
        records
    }

    /// The gap of what went over the budget.
    pub(in crate::warden) fn over(&self) -> Option<Gap> {
        self.ledger.borrow_mut().over()
    }
}
