//! Loads the programs and attaches the network ones to the cgroup that holds
//! nothing but sandboxes: every required one, or none. The observing ones wait.
//!
//! Attachments are links held by descriptors. As long as any process has a
//! duplicate, the kernel enforces; when the last one is closed, it stops.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    sync::{Mutex, MutexGuard, PoisonError},
};

use guard_common::{abi, event::NetOp};

use super::{
    error::KernelError,
    events::Events,
    layout,
    lsm::{Lsm, places::Places},
    object::OBJECT,
    observe::Observer,
    offsets::{self, Offsets},
    prepared::Prepared,
    slots::{Consumed, SlotCounters, Slots},
    told::Tellers,
};
use crate::sys::bpf;

/// One program: what it denies, and the kernel's number of the place it is attached to.
pub(super) struct Spec {
    pub(super) op: NetOp,
    pub(super) attach_type: u32,
    /// Exists on every supported kernel.
    pub(super) required: bool,
}

/// `enum bpf_attach_type` of the kernel's interface.
pub(super) const PROGRAMS: [Spec; 9] = [
    Spec {
        op: NetOp::SockCreate,
        attach_type: 2,
        required: true,
    },
    Spec {
        op: NetOp::Bind4,
        attach_type: 8,
        required: true,
    },
    Spec {
        op: NetOp::Bind6,
        attach_type: 9,
        required: true,
    },
    Spec {
        op: NetOp::Connect4,
        attach_type: 10,
        required: true,
    },
    Spec {
        op: NetOp::Connect6,
        attach_type: 11,
        required: true,
    },
    Spec {
        op: NetOp::Sendmsg4,
        attach_type: 14,
        required: true,
    },
    Spec {
        op: NetOp::Sendmsg6,
        attach_type: 15,
        required: true,
    },
    Spec {
        op: NetOp::UnixConnect,
        attach_type: 49,
        required: false,
    },
    Spec {
        op: NetOp::UnixSendmsg,
        attach_type: 50,
        required: false,
    },
];

/// What became of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramInfo {
    pub name: &'static str,
    pub attached: bool,
    pub why_not: Option<String>,
    /// Instructions the verifier walked, where the kernel tells (5.16).
    pub verified_instructions: Option<u32>,
    /// Runs the kernel skipped; anything but 0 means the claim is broken.
    pub recursion_misses: u64,
}

impl ProgramInfo {
    pub(super) fn new(
        name: &'static str,
        attached: bool,
        why_not: Option<String>,
        facts: Option<bpf::ProgramFacts>,
    ) -> Self {
        Self {
            name,
            attached,
            why_not,
            verified_instructions: facts.map(|f| f.verified_instructions).filter(|count| *count > 0),
            recursion_misses: facts.map_or(0, |facts| facts.recursion_misses),
        }
    }
}

struct Attached {
    link: OwnedFd,
    program: OwnedFd,
}

/// The programs in force. Dropping it drops this process's links and programs.
pub struct Programs {
    attached: Vec<(&'static Spec, Result<Attached, String>)>,
    pub(super) slots: Mutex<Slots>,
    observer: Mutex<Observer>,
    events: Option<Events>,
    ring: OwnedFd,
    /// What this kernel has for tier T1, and its programs once they are in force.
    pub(super) places: Places,
    /// What the programs of tier T1 are loaded from, until they are.
    pub(super) prepared: Option<Prepared>,
    pub(super) lsm: Option<Lsm>,
    /// What tells of other modules' refusals, at tier T1.
    pub(super) tellers: Option<Tellers>,
}

impl Programs {
    /// Loads everything, then attaches everything to `parent`, an open cgroup directory.
    ///
    /// `level` is the depth of the sandboxes' own cgroups, the children of
    /// `parent`, counted from the root of the hierarchy, which is 0.
    pub fn load_and_attach(parent: &File, level: u32) -> Result<Self, KernelError> {
        Self::load_and_attach_object(OBJECT, parent, level)
    }

    /// The same with another object than the embedded one: how the task runner tries a fresh build.
    pub fn load_and_attach_object(object: &[u8], parent: &File, level: u32) -> Result<Self, KernelError> {
        layout::check(object)?;
        let (prepared, places) = prepare(object, parent, level)?;
        let mut ready = Vec::with_capacity(PROGRAMS.len());
        for spec in &PROGRAMS {
            let program = match spec.op {
                NetOp::SockCreate => prepared.load_sock(spec.op.name()),
                _ => prepared.load_sock_addr(spec.op.name(), spec.attach_type),
            };
            ready.push((spec, program));
        }
        let mut attached = Vec::with_capacity(PROGRAMS.len());
        for (spec, program) in ready {
            let result = program.and_then(|program| attach(spec, program, parent));
            match result {
                Err(error) if spec.required => return Err(error),
                Err(error) => attached.push((spec, Err(crate::refusal::chain(&error)))),
                Ok(link) => attached.push((spec, Ok(link))),
            }
        }
        Self::assemble(prepared, attached, places)
    }

    fn assemble(
        mut prepared: Prepared,
        attached: Vec<(&'static Spec, Result<Attached, String>)>,
        places: Places,
    ) -> Result<Self, KernelError> {
        let ring = prepared.take_map(abi::MAP_EVENTS)?;
        let slots = Slots::take(&mut prepared)?;
        let observer = Observer::load(&mut prepared)?;
        let consumed = slots.consumed_fd().map_err(KernelError::object)?;
        let events = Events::new(ring, consumed)?;
        let ring = events.as_fd().try_clone_to_owned().map_err(KernelError::object)?;
        Ok(Self {
            attached,
            slots: Mutex::new(slots),
            observer: Mutex::new(observer),
            events: Some(events),
            ring,
            places,
            prepared: Some(prepared),
            lsm: None,
            tellers: None,
        })
    }

    /// Duplicates of the attachments, to be held by a process that must outlive this one.
    /// Never give one to an unprivileged process: it can detach what it holds.
    pub fn link_fds(&self) -> io::Result<Vec<OwnedFd>> {
        let hooks = self.lsm.iter().flat_map(Lsm::links);
        self.links()
            .map(|attached| &attached.link)
            .chain(hooks)
            .map(OwnedFd::try_clone)
            .collect()
    }

    /// A duplicate of the ring's descriptor, for [`Events::from_fds`] in a process that takes over.
    pub fn ring_fd(&self) -> io::Result<OwnedFd> {
        self.ring.try_clone()
    }

    /// A duplicate of the descriptor that says what was read, for [`Events::from_fds`] there.
    pub fn consumed_fd(&self) -> io::Result<OwnedFd> {
        lock(&self.slots).consumed_fd()
    }

    /// A duplicate of the counters' descriptor, for [`super::CounterReader::from_fd`] there.
    pub fn counters_fd(&self) -> io::Result<OwnedFd> {
        lock(&self.slots).counters_fd()
    }

    /// Whether calls and execs can be observed here, or why not.
    pub fn observation(&self) -> Result<(), String> {
        lock(&self.observer).possible()
    }

    /// Attaches the observing programs, unless they are. Every task of the host pays while they are.
    pub fn observe_start(&mut self) -> Result<(), KernelError> {
        let observer = self.observer.get_mut().unwrap_or_else(PoisonError::into_inner);
        observer.start()
    }

    /// Detaches them when this was called as often as [`Self::observe_start`] succeeded.
    pub fn observe_stop(&mut self) {
        self.observer
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .stop();
    }

    /// From now on what happens in this sandbox is counted in a slot of its own, from 0, and takes part of
    /// the ring of its own. `observe`: its calls and execs are reported, not only what the network programs deny.
    pub fn open_slot(&self, cgroup_id: u64, observe: bool) -> Result<u32, KernelError> {
        lock(&self.slots).open(cgroup_id, observe)
    }

    /// Ends that; no task may be left in the sandbox. The slot is used again once the ring is read.
    pub fn close_slot(&self, cgroup_id: u64, slot: u32) -> Result<SlotCounters, KernelError> {
        lock(&self.slots).close(cgroup_id, slot)
    }

    /// What became of the records of an open slot so far.
    pub fn slot_counters(&self, slot: u32) -> Result<SlotCounters, KernelError> {
        lock(&self.slots).counters(slot)
    }

    /// What was read for an open slot, as of the last return of [`Events::drain`].
    pub fn consumed(&self, slot: u32) -> Result<Consumed, KernelError> {
        lock(&self.slots).consumed(slot)
    }

    /// To be said before a seccomp notification is answered: the exit of that call is not to be reported again.
    /// `tid` is the thread in the kernel's first pid namespace.
    pub fn answered(&self, tid: u32, nr: u32, errno: i32) -> Result<(), KernelError> {
        lock(&self.observer).answered(tid, nr, errno)
    }

    /// Takes that back: the caller was gone or interrupted, and the answer did not reach it.
    pub fn unanswered(&self, tid: u32) {
        lock(&self.observer).unanswered(tid);
    }

    /// Whether unix sockets are covered, or why not.
    pub fn unix_hooks(&self) -> Result<(), String> {
        let optional = self.attached.iter().filter(|(spec, _)| !spec.required);
        let refused: Vec<String> = optional
            .filter_map(|(spec, result)| Some(format!("`{}`: {}", spec.op.name(), result.as_ref().err()?)))
            .collect();
        if refused.is_empty() {
            Ok(())
        } else {
            Err(refused.join("; "))
        }
    }

    /// Every program of the object and what became of it.
    pub fn programs(&self) -> Vec<ProgramInfo> {
        let describe = |(spec, result): &(&'static Spec, Result<Attached, String>)| {
            let program = result.as_ref().ok().map(|attached| attached.program.as_fd());
            ProgramInfo::new(
                spec.op.name(),
                result.is_ok(),
                result.as_ref().err().cloned(),
                program.and_then(|program| bpf::program_facts(program).ok()),
            )
        };
        let observer = lock(&self.observer);
        self.attached
            .iter()
            .map(describe)
            .chain(observer.programs())
            .chain(self.lsm.iter().flat_map(Lsm::programs))
            .chain(self.tellers.iter().flat_map(Tellers::programs))
            .collect()
    }

    /// The reading end of the ring: once, there is one reader.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }

    /// The same end, looked into before it is taken.
    pub fn events(&mut self) -> Option<&mut Events> {
        self.events.as_mut()
    }

    /// What became of all records so far, of every slot.
    pub fn counters(&self) -> Result<SlotCounters, KernelError> {
        lock(&self.slots).total()
    }

    fn links(&self) -> impl Iterator<Item = &Attached> {
        self.attached
            .iter()
            .filter_map(|(_, result)| result.as_ref().ok())
    }
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs")
            .field("programs", &self.programs())
            .finish_non_exhaustive()
    }
}

/// Nothing that can be left half done happens under these locks.
pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn prepare(object: &[u8], parent: &File, level: u32) -> Result<(Prepared, Places), KernelError> {
    // The kernel's number of a cgroup is the inode of its directory.
    let parent = parent.metadata().map_err(KernelError::object)?.ino();
    let Offsets { mut globals, lsm } = offsets::read();
    globals.extend(&lsm.globals);
    globals.push((abi::GLOBAL_WARDEN, u64::from(std::process::id())));
    globals.push((abi::GLOBAL_SANDBOX_LEVEL, u64::from(level)));
    globals.push((abi::GLOBAL_PARENT_CGROUP, parent));
    Ok((Prepared::new(object, &globals)?, lsm))
}

fn attach(spec: &Spec, program: OwnedFd, parent: &File) -> Result<Attached, KernelError> {
    let link =
        bpf::attach_to_cgroup(program.as_fd(), parent.as_fd(), spec.attach_type).map_err(|source| {
            KernelError::Attach {
                program: spec.op.name(),
                source,
            }
        })?;
    Ok(Attached { link, program })
}

#[cfg(test)]
mod tests {
    use guard_common::{
        hooks::{HOOKS, Rule},
        measured,
        told::TOLD,
    };

    use super::{super::observe::OBSERVERS, *};

    #[test]
    fn the_embedded_object_has_every_program_and_map() {
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        let mut names: Vec<&str> = object.programs.keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = PROGRAMS.iter().map(|spec| spec.op.name()).collect();
        wanted.extend(OBSERVERS);
        wanted.extend(HOOKS.iter().map(|hook| hook.name));
        wanted.extend(TOLD.iter().map(|told| told.program));
        wanted.push(measured::PROGRAM);
        names.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(names, wanted);
        for map in [
            abi::MAP_EVENTS,
            abi::MAP_SLOTS,
            abi::MAP_CONSUMED,
            abi::MAP_SANDBOXES,
            abi::MAP_CALLS,
            abi::MAP_ANSWERED,
            abi::MAP_LABELS,
            abi::MAP_SOCKETS,
            abi::MAP_ROOTS,
            abi::MAP_PENDING,
            abi::MAP_HITS,
            abi::MAP_STAMPS,
        ] {
            assert!(object.maps.contains_key(map), "no map `{map}`");
        }
        assert_eq!(object.license.to_bytes(), b"Dual MIT/GPL");
    }

    /// Two processors meet in a counter too rarely for a test at run time (measured: 400,000
    /// denials with plain adds lost none), so the instructions are looked at.
    #[test]
    fn the_counters_are_added_to_atomically() {
        const ATOMIC_ADD_64: u8 = 0xdb;
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        for (name, program) in &object.programs {
            let function = &object.functions[&program.function_key()];
            let adds = function
                .instructions
                .iter()
                .filter(|instruction| instruction.code == ATOMIC_ADD_64)
                .count();
            let least = match HOOKS.iter().find(|hook| hook.name == name).map(|hook| hook.rule) {
                Some(Rule::Enrol) => 0,
                // What it decided.
                Some(Rule::Label) => 1,
                // Of each record: its bytes, that it was reserved, or that it was lost.
                _ => 3,
            };
            assert!(adds >= least, "`{name}` has {adds}");
        }
    }
}
