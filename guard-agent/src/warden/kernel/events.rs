//! The ring, read by one task, which tells the kernel half what it has read.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use aya::maps::{Array, Map, MapData, RingBuf};
use guard_common::{
    abi::{self, ConsumedRaw, ConsumedValue, RING_BYTES, SLOT_COUNT, ring_bytes},
    event::NetRecord,
};

use super::{
    error::KernelError,
    event::{self, Event, Owner},
    slots::consumed_from,
};

/// As many of the smallest records as the ring can hold at once, so that one visit ends even under a flood.
const ONE_VISIT: usize = RING_BYTES / ring_bytes(size_of::<NetRecord>()) as usize;

/// Records read before the kernel half is told: one map update a sandbox instead of one a record.
const BATCH: usize = 256;

/// The consuming end. Readable (`poll`, `AsyncFd`) when there is something to drain.
///
/// There must be one at a time for a ring: two would take records from each other.
pub struct Events {
    ring: RingBuf<MapData>,
    published: Array<MapData, ConsumedRaw>,
    /// What was read of each slot; `true`: the kernel half does not know yet.
    slots: BTreeMap<u32, (ConsumedValue, bool)>,
    consumed: u64,
    undecodable: u64,
}

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "readiness may only be cleared when there is no more"]
pub struct Drained {
    pub records: usize,
    /// The visit ended by its bound: come back before waiting for readiness.
    pub more: bool,
}

impl Events {
    /// Takes the ring over from another process, by duplicates of its descriptor and of the one that says
    /// what was read.
    pub fn from_fds(ring: OwnedFd, consumed: OwnedFd) -> Result<Self, KernelError> {
        let data = MapData::from_fd(ring).map_err(KernelError::map(abi::MAP_EVENTS))?;
        Self::new(Map::RingBuf(data), consumed)
    }

    pub(super) fn new(ring: Map, consumed: OwnedFd) -> Result<Self, KernelError> {
        let data = MapData::from_fd(consumed).map_err(KernelError::map(abi::MAP_CONSUMED))?;
        Ok(Self {
            ring: RingBuf::try_from(ring).map_err(KernelError::map(abi::MAP_EVENTS))?,
            published: Array::try_from(Map::Array(data)).map_err(KernelError::map(abi::MAP_CONSUMED))?,
            slots: BTreeMap::new(),
            consumed: 0,
            undecodable: 0,
        })
    }

    /// Hands over what is in the ring, in order. When it returns, the kernel half knows what was read.
    pub fn drain(&mut self, each: impl FnMut(Event)) -> Drained {
        self.drain_some(ONE_VISIT, each)
    }

    /// The same for a visit of so many records at most.
    pub fn drain_some(&mut self, most: usize, mut each: impl FnMut(Event)) -> Drained {
        let mut records = 0;
        let more = loop {
            if records >= most {
                break true;
            }
            let Some(item) = self.ring.next() else {
                break false;
            };
            let owner = event::header(&item).map(|header| Owner::of(&header));
            let decoded = Event::decode(&item);
            let bytes = ring_bytes(item.len());
            drop(item);
            if let Ok(owner) = owner {
                self.count(owner, bytes);
            }
            match decoded {
                Ok(event) => each(event),
                Err(error) => {
                    self.undecodable = self.undecodable.saturating_add(1);
                    tracing::error!(%error, "a record of the kernel half cannot be read");
                }
            }
            records += 1;
            self.consumed = self.consumed.saturating_add(1);
            if records % BATCH == 0 {
                self.publish();
            }
        };
        self.publish();
        Drained { records, more }
    }

    fn count(&mut self, owner: Owner, bytes: u64) {
        if owner.slot as usize >= SLOT_COUNT {
            return;
        }
        let published = &self.published;
        let (value, dirty) = self.slots.entry(owner.slot).or_insert_with(|| {
            // What a reader before this one has read.
            let before = published.get(&owner.slot, 0).unwrap_or_default();
            (consumed_from(before), false)
        });
        *dirty = true;
        let (records, sum) = if owner.allowed {
            (&mut value.allowed_records, &mut value.allowed_bytes)
        } else {
            (&mut value.records, &mut value.bytes)
        };
        *records = records.saturating_add(1);
        *sum = sum.saturating_add(bytes);
    }

    fn publish(&mut self) {
        for (slot, (value, dirty)) in &mut self.slots {
            if !*dirty {
                continue;
            }
            let raw = [
                value.records,
                value.allowed_records,
                value.bytes,
                value.allowed_bytes,
            ];
            match self.published.set(*slot, raw, 0) {
                Ok(()) => *dirty = false,
                // The kernel half goes on counting as unread what was read, and says so as loss.
                Err(error) => tracing::error!(slot, %error, "cannot tell the kernel half what was read"),
            }
        }
    }

    /// Records taken out of the ring so far by this reader, unreadable ones too.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Records of those that could not be read: each is a gap.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("consumed", &self.consumed)
            .field("undecodable", &self.undecodable)
            .finish_non_exhaustive()
    }
}
