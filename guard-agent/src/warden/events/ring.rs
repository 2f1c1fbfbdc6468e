//! The kernel half as the warden uses it: its ring read by one task, each event given to the desk of its sandbox.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    os::fd::{BorrowedFd, OwnedFd},
    rc::Rc,
    time::{Duration, Instant},
};

use guard_common::{
    abi::{RING_BYTES, SLOT_UNKNOWN, ring_bytes},
    event::NetRecord,
};

use super::desk::Desk;
use crate::{
    confine::notify::Notification,
    refusal::chain,
    warden::kernel::{Event, Events, Programs, Skipped},
};

/// How long events are given out before others have their turn, and records read between two looks at the clock.
const TURN: Duration = Duration::from_millis(4);
const STEP: usize = 32;
/// How old an answer about skipped runs may be.
const SKIPPED_AGE: Duration = Duration::from_millis(900);
/// The ring full of the smallest records.
const MOST_RECORDS: u64 = RING_BYTES as u64 / ring_bytes(size_of::<NetRecord>());

/// One thread, so no locks. The default is that of a warden without privilege, where nothing is loaded.
#[derive(Default)]
pub(in crate::warden) struct Ring {
    programs: Option<RefCell<Programs>>,
    events: Option<RefCell<Events>>,
    /// By the id of the sandbox's cgroup.
    desks: RefCell<HashMap<u64, Rc<Desk>>>,
    /// Events of no live sandbox.
    strays: Cell<u64>,
    /// Of those that were lost, how many were told.
    strays_told: Cell<u64>,
    /// The last look at what the kernel skips, and when it was.
    skipped: RefCell<Option<(Instant, Skipped)>>,
}

/// What became of the events of one sandbox that were not delivered.
pub(super) struct LostEvents {
    pub(super) denied: u64,
    pub(super) allowed: u64,
    /// Until its last task is gone and the ring was read: what is on its way.
    pub(super) unread: u64,
}

impl Ring {
    pub(in crate::warden) fn new(programs: Programs, events: Events) -> Self {
        Self {
            programs: Some(RefCell::new(programs)),
            events: Some(RefCell::new(events)),
            ..Self::default()
        }
    }

    /// Events of a sandbox go to this desk from now on.
    pub(super) fn route(&self, cgroup: u64, desk: Rc<Desk>) {
        self.desks.borrow_mut().insert(cgroup, desk);
    }

    pub(super) fn unroute(&self, cgroup: u64) {
        self.desks.borrow_mut().remove(&cgroup);
    }

    /// Another sandbox is observed; while none is, the host pays nothing.
    pub(super) fn observe_start(&self) -> Result<(), String> {
        let Some(programs) = &self.programs else {
            return Err("no eBPF programs are loaded".to_owned());
        };
        let mut programs = programs.borrow_mut();
        programs.observation()?;
        programs.observe_start().map_err(|error| chain(&error))
    }

    pub(super) fn observe_stop(&self) {
        if let Some(programs) = &self.programs {
            programs.borrow_mut().observe_stop();
        }
    }

    /// Counters of its own for a sandbox, where there are programs that count.
    pub(super) fn open_slot(&self, cgroup: u64, observe: bool) -> Result<Option<u32>, String> {
        let Some(programs) = &self.programs else {
            return Ok(None);
        };
        let opened = programs.borrow().open_slot(cgroup, observe);
        opened.map(Some).map_err(|error| chain(&error))
    }

    /// Gives a sandbox its call stamp; what comes back is for its gateway alone.
    pub(super) fn stamp(&self, (cgroup, slot): (u64, u32), launch: u32) -> Result<Option<OwnedFd>, String> {
        let Some(programs) = &self.programs else {
            return Ok(None);
        };
        // No right waits for an approval yet.
        let made = programs.borrow().stamp(cgroup, slot, launch, 0);
        made.map(Some).map_err(|error| chain(&error))
    }

    /// The security hooks decide for a sandbox and what its init starts, from now on.
    pub(super) fn enforce(
        &self,
        (cgroup, slot): (u64, u32),
        observe: bool,
        init: BorrowedFd<'_>,
    ) -> Result<(), String> {
        let Some(programs) = &self.programs else {
            return Err("no eBPF programs are loaded".to_owned());
        };
        let enforced = programs.borrow_mut().enforce(cgroup, slot, observe, init);
        enforced.map_err(|error| chain(&error))
    }

    pub(super) fn close_slot(&self, cgroup: u64, slot: u32) {
        let Some(programs) = &self.programs else { return };
        if let Err(error) = programs.borrow().close_slot(cgroup, slot) {
            tracing::error!(cgroup, slot, error = %chain(&error), "cannot close the slot of a sandbox");
        }
    }

    pub(super) fn lost(&self, slot: u32) -> Option<LostEvents> {
        let programs = self.programs.as_ref()?.borrow();
        let counters = programs.slot_counters(slot).ok()?;
        let consumed = programs.consumed(slot).ok()?;
        Some(LostEvents {
            denied: counters.lost,
            allowed: counters.allowed_lost,
            unread: (counters.reserved + counters.allowed_reserved)
                .saturating_sub(consumed.records + consumed.allowed_records),
        })
    }

    /// A notification is about to be answered: the call's end is not to be reported again.
    pub(in crate::warden) fn answered(&self, notification: &Notification, errno: i32) {
        let Some(programs) = &self.programs else { return };
        let Ok(nr) = u32::try_from(notification.nr) else {
            return;
        };
        if let Err(error) = programs.borrow().answered(notification.tid, nr, errno) {
            tracing::error!(error = %chain(&error), "a refused call may be recorded twice");
        }
    }

    /// The answer did not reach its caller.
    pub(in crate::warden) fn unanswered(&self, notification: &Notification) {
        if let Some(programs) = &self.programs {
            programs.borrow().unanswered(notification.tid);
        }
    }

    /// Gives out what is in the ring, for a moment: the one thread has others to serve, and a sandbox can fill the
    /// ring as fast as it is emptied. `true`: there is more.
    pub(in crate::warden) fn drain(&self) -> bool {
        let Some(events) = &self.events else {
            return false;
        };
        let until = Instant::now() + TURN;
        let desks = self.desks.borrow();
        let mut deliver = |event: Event| match desks.get(&event.cgroup_id()) {
            Some(desk) => desk.event(event),
            None => {
                let strays = self.strays.get() + 1;
                self.strays.set(strays);
                // A socket that left its sandbox could be used as often as one likes.
                if strays.is_power_of_two() {
                    tracing::warn!(strays, ?event, "an event of no live sandbox");
                }
            }
        };
        let mut events = events.borrow_mut();
        while events.drain_some(STEP, &mut deliver).more {
            if Instant::now() >= until {
                return true;
            }
        }
        false
    }

    /// Whether everything is read that a sandbox had reported when `since` was taken: its own records are, or as many
    /// as the ring can hold.
    pub(in crate::warden) fn is_settled(&self, slot: u32, since: u64) -> bool {
        let read = self.consumed().saturating_sub(since);
        read >= MOST_RECORDS || self.lost(slot).is_none_or(|lost| lost.unread == 0)
    }

    /// Records read so far, of all sandboxes.
    pub(in crate::warden) fn consumed(&self) -> u64 {
        self.events
            .as_ref()
            .map_or(0, |events| events.borrow().consumed())
    }

    /// Runs of programs that the kernel has skipped, as of a moment ago: every session asks at each of its ticks, and
    /// the answer takes a call for each program.
    pub(in crate::warden) fn skipped(&self) -> Skipped {
        let now = Instant::now();
        if let Some((when, known)) = &*self.skipped.borrow()
            && now.duration_since(*when) < SKIPPED_AGE
        {
            return known.clone();
        }
        self.skipped_now()
    }

    /// The same, as of now.
    pub(in crate::warden) fn skipped_now(&self) -> Skipped {
        let programs = self.programs.as_ref();
        let found = programs.map_or_else(Skipped::default, |programs| programs.borrow().skipped());
        *self.skipped.borrow_mut() = Some((Instant::now(), found.clone()));
        found
    }

    /// Events of no live sandbox that were lost since this was asked the last time.
    pub(in crate::warden) fn stray_losses(&self) -> u64 {
        let lost = self.lost(SLOT_UNKNOWN).map_or(0, |lost| lost.denied);
        lost.saturating_sub(self.strays_told.replace(lost))
    }
}
