//! Slots: each sandbox's counters and its part of the ring.
//!
//! The kernel half counts up and never back. A slot that is used again starts from what it shows then, and
//! only after everything it reserved was read.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use aya::maps::{Array, HashMap, Map, MapData};
use guard_common::{
    abi::{
        self, ConsumedRaw, ConsumedValue, SANDBOX_ENFORCE, SANDBOX_OBSERVE, SANDBOX_STAMP, SLOT_COUNT,
        SLOT_UNKNOWN, SandboxRaw, SlotRaw, SlotValue,
    },
    stamp::StampValue,
};

use super::{
    error::KernelError,
    prepared::Prepared,
    stamps::{Approvals, Stamps},
};

/// The map update that refuses to replace (`BPF_NOEXIST`).
const NEW_ONLY: u64 = 1;
/// The one that replaces and makes nothing (`BPF_EXIST`).
const EXISTING_ONLY: u64 = 2;

/// What became of the records of a sandbox. What was refused or failed and what was allowed are counted
/// apart: `reserved + lost` is how often the first happened, `allowed_reserved + allowed_lost` the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotCounters {
    /// Records that got room in the ring. Each is there or will be in a moment.
    pub reserved: u64,
    /// Records for which the ring, or the sandbox's part of it, had no room.
    pub lost: u64,
    pub allowed_reserved: u64,
    pub allowed_lost: u64,
}

/// What the reader took out of the ring for a sandbox. At a barrier (no task left that could still be in a
/// program, and the ring drained) it equals what was reserved; a difference is loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumed {
    pub records: u64,
    pub allowed_records: u64,
}

impl SlotCounters {
    fn between(base: &SlotValue, now: &SlotValue) -> Self {
        Self {
            reserved: now.reserved.saturating_sub(base.reserved),
            lost: now.lost.saturating_sub(base.lost),
            allowed_reserved: now.allowed_reserved.saturating_sub(base.allowed_reserved),
            allowed_lost: now.allowed_lost.saturating_sub(base.allowed_lost),
        }
    }

    fn add(&mut self, other: &Self) {
        self.reserved = self.reserved.saturating_add(other.reserved);
        self.lost = self.lost.saturating_add(other.lost);
        self.allowed_reserved = self.allowed_reserved.saturating_add(other.allowed_reserved);
        self.allowed_lost = self.allowed_lost.saturating_add(other.allowed_lost);
    }
}

/// Reads the counters, in the loading process or one that takes over.
pub struct CounterReader {
    slots: Array<MapData, SlotRaw>,
    fd: OwnedFd,
}

impl CounterReader {
    /// From a duplicate of the map's descriptor.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, KernelError> {
        let data = MapData::from_fd(fd).map_err(KernelError::map(abi::MAP_SLOTS))?;
        Self::new(Map::Array(data))
    }

    fn new(map: Map) -> Result<Self, KernelError> {
        let fd = duplicate(&map).map_err(KernelError::object)?;
        Ok(Self {
            slots: Array::try_from(map).map_err(KernelError::map(abi::MAP_SLOTS))?,
            fd,
        })
    }

    /// The sum over all slots, since the programs were loaded.
    pub fn total(&self) -> Result<SlotCounters, KernelError> {
        self.sum(SLOT_COUNT)
    }

    fn sum(&self, slots: usize) -> Result<SlotCounters, KernelError> {
        let mut sum = SlotCounters::default();
        for slot in 0..u32::try_from(slots).unwrap_or(u32::MAX) {
            sum.add(&SlotCounters::between(&SlotValue::default(), &self.value(slot)?));
        }
        Ok(sum)
    }

    fn value(&self, slot: u32) -> Result<SlotValue, KernelError> {
        let raw = self.slots.get(&slot, 0);
        let [
            reserved,
            lost,
            allowed_reserved,
            allowed_lost,
            bytes,
            allowed_bytes,
        ] = raw.map_err(KernelError::map(abi::MAP_SLOTS))?;
        Ok(SlotValue {
            reserved,
            lost,
            allowed_reserved,
            allowed_lost,
            bytes,
            allowed_bytes,
        })
    }

    pub(super) fn fd(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }
}

/// How a slot stands.
struct Use {
    open: bool,
    /// What it showed when it was opened.
    base: SlotValue,
    /// What the kernel half is told of its sandbox.
    flags: u32,
    approvals: Approvals,
}

impl Use {
    fn sandbox(&self, slot: u32) -> SandboxRaw {
        [slot, self.flags, self.approvals.withheld(), 0]
    }
}

/// Hands out slots and reads them.
pub(super) struct Slots {
    counters: CounterReader,
    consumed: Array<MapData, ConsumedRaw>,
    consumed_fd: OwnedFd,
    sandboxes: HashMap<MapData, u64, SandboxRaw>,
    stamps: Stamps,
    /// By number. Slot 0 is never handed out.
    used: Vec<Use>,
}

impl Slots {
    pub(super) fn take(prepared: &mut Prepared) -> Result<Self, KernelError> {
        // Left where it is: programs that are not loaded yet name it by its descriptor.
        let mut stamps = Stamps::new(prepared.map(abi::MAP_STAMPS)?)?;
        // For the first sandbox.
        stamps.prepare(1);
        let mut take = |name| prepared.take_map(name);
        let consumed = take(abi::MAP_CONSUMED)?;
        Ok(Self {
            counters: CounterReader::new(take(abi::MAP_SLOTS)?)?,
            consumed_fd: duplicate(&consumed).map_err(KernelError::object)?,
            consumed: Array::try_from(consumed).map_err(KernelError::map(abi::MAP_CONSUMED))?,
            sandboxes: HashMap::try_from(take(abi::MAP_SANDBOXES)?)
                .map_err(KernelError::map(abi::MAP_SANDBOXES))?,
            stamps,
            used: vec![Use {
                open: true,
                base: SlotValue::default(),
                flags: 0,
                approvals: Approvals::default(),
            }],
        })
    }

    pub(super) fn open(&mut self, cgroup_id: u64, observe: bool) -> Result<u32, KernelError> {
        let slot = self.free()?;
        let base = self.counters.value(slot)?;
        let state = Use {
            open: true,
            base,
            flags: if observe { SANDBOX_OBSERVE } else { 0 },
            approvals: Approvals::default(),
        };
        self.sandboxes
            .insert(cgroup_id, state.sandbox(slot), NEW_ONLY)
            .map_err(KernelError::map(abi::MAP_SANDBOXES))?;
        match self.used.get_mut(slot as usize) {
            Some(place) => *place = state,
            None => self.used.push(state),
        }
        Ok(slot)
    }

    /// The security hooks decide for an open slot's sandbox from now on.
    pub(super) fn enforce(&mut self, cgroup_id: u64, slot: u32, observe: bool) -> Result<(), KernelError> {
        self.tell(cgroup_id, slot, |state| {
            state.flags &= !SANDBOX_OBSERVE;
            state.flags |= SANDBOX_ENFORCE | if observe { SANDBOX_OBSERVE } else { 0 };
        })
    }

    /// Gives the sandbox of an open slot a stamp.
    pub(super) fn stamp(
        &mut self,
        cgroup_id: u64,
        slot: u32,
        launch: u32,
        approval_only: u32,
    ) -> Result<OwnedFd, KernelError> {
        let page = self.stamps.take(
            slot,
            StampValue {
                mask: launch,
                ..StampValue::default()
            },
        )?;
        self.tell(cgroup_id, slot, |state| {
            state.flags |= SANDBOX_STAMP;
            state.approvals = Approvals::of(approval_only);
        })?;
        // For the next sandbox.
        self.stamps
            .prepare(u32::try_from(self.used.len()).unwrap_or(u32::MAX));
        Ok(page)
    }

    /// Changes which rights approved calls have.
    pub(super) fn approve(
        &mut self,
        cgroup_id: u64,
        slot: u32,
        change: impl FnOnce(&mut Approvals),
    ) -> Result<(), KernelError> {
        self.tell(cgroup_id, slot, |state| change(&mut state.approvals))
    }

    /// Changes what the kernel half is told of an open slot's sandbox. Of a slot that is not open it is told nothing.
    fn tell(&mut self, cgroup_id: u64, slot: u32, change: impl FnOnce(&mut Use)) -> Result<(), KernelError> {
        let state = self.used.get_mut(slot as usize).filter(|state| state.open);
        let state = state.ok_or(KernelError::Closed)?;
        change(state);
        self.sandboxes
            .insert(cgroup_id, state.sandbox(slot), EXISTING_ONLY)
            .map_err(KernelError::map(abi::MAP_SANDBOXES))
    }

    /// The lowest one that is closed and read to its end, so that few are ever in use.
    fn free(&self) -> Result<u32, KernelError> {
        for (slot, state) in (0u32..).zip(&self.used) {
            if !state.open && self.drained(slot)? {
                return Ok(slot);
            }
        }
        match u32::try_from(self.used.len()) {
            Ok(next) if self.used.len() < SLOT_COUNT => Ok(next),
            _ => Err(KernelError::NoSlot),
        }
    }

    fn drained(&self, slot: u32) -> Result<bool, KernelError> {
        let (reserved, consumed) = (self.counters.value(slot)?, self.consumed_value(slot)?);
        Ok(reserved.bytes == consumed.bytes && reserved.allowed_bytes == consumed.allowed_bytes)
    }

    pub(super) fn close(&mut self, cgroup_id: u64, slot: u32) -> Result<SlotCounters, KernelError> {
        self.sandboxes
            .remove(&cgroup_id)
            .map_err(KernelError::map(abi::MAP_SANDBOXES))?;
        let counters = self.counters(slot);
        if slot != SLOT_UNKNOWN
            && let Some(state) = self.used.get_mut(slot as usize)
        {
            state.open = false;
            if state.flags & SANDBOX_STAMP != 0 {
                self.stamps.prepare(slot);
            }
        }
        counters
    }

    pub(super) fn counters(&self, slot: u32) -> Result<SlotCounters, KernelError> {
        let now = self.counters.value(slot)?;
        Ok(SlotCounters::between(&self.base(slot), &now))
    }

    pub(super) fn consumed(&self, slot: u32) -> Result<Consumed, KernelError> {
        let (base, now) = (self.base(slot), self.consumed_value(slot)?);
        // When the slot was opened, everything it had reserved before had been read.
        Ok(Consumed {
            records: now.records.saturating_sub(base.reserved),
            allowed_records: now.allowed_records.saturating_sub(base.allowed_reserved),
        })
    }

    pub(super) fn total(&self) -> Result<SlotCounters, KernelError> {
        self.counters.sum(self.used.len())
    }

    pub(super) fn counters_fd(&self) -> io::Result<OwnedFd> {
        self.counters.fd()
    }

    pub(super) fn consumed_fd(&self) -> io::Result<OwnedFd> {
        self.consumed_fd.try_clone()
    }

    fn base(&self, slot: u32) -> SlotValue {
        self.used
            .get(slot as usize)
            .map_or_else(SlotValue::default, |state| state.base)
    }

    fn consumed_value(&self, slot: u32) -> Result<ConsumedValue, KernelError> {
        let raw = self.consumed.get(&slot, 0);
        Ok(consumed_from(raw.map_err(KernelError::map(abi::MAP_CONSUMED))?))
    }
}

pub(super) fn consumed_from([records, allowed_records, bytes, allowed_bytes]: ConsumedRaw) -> ConsumedValue {
    ConsumedValue {
        records,
        allowed_records,
        bytes,
        allowed_bytes,
    }
}

fn duplicate(map: &Map) -> io::Result<OwnedFd> {
    match map {
        Map::Array(data) => data.fd().as_fd().try_clone_to_owned(),
        _ => Err(io::Error::other("it is not an array")),
    }
}
