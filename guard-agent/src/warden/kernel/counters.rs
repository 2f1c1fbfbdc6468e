//! How many records the kernel half made room for and how many it could not.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use aya::maps::{Array, Map, MapData, MapError};
use guard_common::{
    abi::{self, Counters, CountersRaw},
    event::NetOp,
};

use super::{error::KernelError, loader::PROGRAMS};

/// Reads the counters, in the loading process or one that takes over.
pub struct CounterReader {
    slots: Array<MapData, CountersRaw>,
    fd: OwnedFd,
}

impl CounterReader {
    /// From a duplicate of the map's descriptor.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, KernelError> {
        let data = MapData::from_fd(fd).map_err(KernelError::map(abi::MAP_COUNTERS))?;
        Self::new(Map::Array(data))
    }

    pub(super) fn new(map: Map) -> Result<Self, KernelError> {
        let fd = match &map {
            Map::Array(data) => data.fd().as_fd().try_clone_to_owned(),
            _ => Err(io::Error::other("it is not an array")),
        };
        let fd = fd.map_err(KernelError::object)?;
        let wrong = |error: MapError| KernelError::map(abi::MAP_COUNTERS)(error);
        Ok(Self {
            slots: Array::try_from(map).map_err(wrong)?,
            fd,
        })
    }

    /// The sum over all operations.
    ///
    /// At a barrier (no task left that could still be in a program) `reserved`
    /// minus what all readers of the ring consumed is what is still in it.
    pub fn total(&self) -> Result<Counters, KernelError> {
        let mut sum = Counters::default();
        for (_, counters) in self.by_op()? {
            sum.reserved = sum.reserved.saturating_add(counters.reserved);
            sum.lost = sum.lost.saturating_add(counters.lost);
        }
        Ok(sum)
    }

    /// The same for each operation.
    pub fn by_op(&self) -> Result<Vec<(NetOp, Counters)>, KernelError> {
        let read = |op: NetOp| {
            let slot = self.slots.get(&u32::from(op.raw()), 0);
            let [reserved, lost] = slot.map_err(KernelError::map(abi::MAP_COUNTERS))?;
            Ok((op, Counters { reserved, lost }))
        };
        PROGRAMS.iter().map(|spec| read(spec.op)).collect()
    }

    pub(super) fn fd(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }
}
