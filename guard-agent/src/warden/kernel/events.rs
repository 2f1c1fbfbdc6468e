//! The ring of denied operations, read by one task.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use aya::maps::{Map, MapData, MapError, RingBuf};
use guard_common::{abi::RING_BYTES, event::NetRecord};

use super::decode::NetEvent;

/// As many records as the ring can hold at once, so that one visit ends even under a flood.
const ONE_VISIT: usize = RING_BYTES / size_of::<NetRecord>();

/// The consuming end. Readable (`poll`, `AsyncFd`) when there is something to drain.
///
/// There must be one at a time for a ring: two would take records from each other.
pub struct Events {
    ring: RingBuf<MapData>,
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
    /// Takes the ring over from another process, by a duplicate of its descriptor.
    pub fn from_fd(ring: OwnedFd) -> Result<Self, MapError> {
        Self::new(Map::RingBuf(MapData::from_fd(ring)?))
    }

    pub(super) fn new(map: Map) -> Result<Self, MapError> {
        Ok(Self {
            ring: RingBuf::try_from(map)?,
            consumed: 0,
            undecodable: 0,
        })
    }

    /// Hands over what is in the ring, in order.
    pub fn drain(&mut self, mut each: impl FnMut(NetEvent)) -> Drained {
        let mut records = 0;
        while records < ONE_VISIT {
            let Some(item) = self.ring.next() else {
                return Drained { records, more: false };
            };
            match NetEvent::decode(&item) {
                Ok(event) => each(event),
                Err(error) => {
                    self.undecodable = self.undecodable.saturating_add(1);
                    tracing::error!(%error, "a record of the kernel half cannot be read");
                }
            }
            records += 1;
            self.consumed = self.consumed.saturating_add(1);
        }
        Drained { records, more: true }
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
