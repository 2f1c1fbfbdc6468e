//! Roots. One is enrolled by the kernel half when the warden looks at the object through its descriptor:
//! what is enrolled is what is held, whatever its path leads to by now.

use std::{collections::BTreeMap, io, os::fd::BorrowedFd};

use aya::maps::{HashMap, Map, MapData};
use guard_common::abi::{
    self, PENDING_DONE, PENDING_FULL, PENDING_UNREADABLE, PENDING_WANTED, PendingRaw, RootKeyRaw, RootRaw,
};

use super::super::error::KernelError;
use crate::sys;

/// Tells the kernel half what sandboxes may use, from whichever thread makes them.
pub struct Enroller {
    roots: HashMap<MapData, RootKeyRaw, RootRaw>,
    pending: HashMap<MapData, u64, PendingRaw>,
    /// What was enrolled, by sandbox: the inodes' addresses, which go nowhere else.
    enrolled: BTreeMap<u64, Vec<u64>>,
}

impl std::fmt::Debug for Enroller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enroller")
            .field("sandboxes", &self.enrolled.len())
            .finish_non_exhaustive()
    }
}

impl Enroller {
    pub(super) fn new(roots: Map, pending: Map) -> Result<Self, KernelError> {
        Ok(Self {
            roots: HashMap::try_from(roots).map_err(KernelError::map(abi::MAP_ROOTS))?,
            pending: HashMap::try_from(pending).map_err(KernelError::map(abi::MAP_PENDING))?,
            enrolled: BTreeMap::new(),
        })
    }

    /// Lets a sandbox use an object and what lies below it in its filesystem, up to the next object that is enrolled.
    /// The caller keeps the object open as long as the sandbox lives: its inode's address is its name.
    ///
    /// What the runtime needs, and what is the sandbox's own: the rights hold whatever calls there are.
    pub fn enrol(&mut self, sandbox: u64, object: BorrowedFd<'_>, rights: u32) -> Result<(), KernelError> {
        self.enrol_with(sandbox, object, (rights, 0))
    }

    /// The same for what the operator named as a root: a stamp of the sandbox cuts the rights.
    pub fn enrol_root(
        &mut self,
        sandbox: u64,
        object: BorrowedFd<'_>,
        rights: u32,
    ) -> Result<(), KernelError> {
        self.enrol_with(sandbox, object, (0, rights))
    }

    fn enrol_with(
        &mut self,
        sandbox: u64,
        object: BorrowedFd<'_>,
        (rights, named): (u32, u32),
    ) -> Result<(), KernelError> {
        let map = KernelError::map(abi::MAP_PENDING);
        let thread = this_thread();
        let wanted = [sandbox, pair(rights, named), u64::from(PENDING_WANTED), 0, 0, 0];
        self.pending.insert(thread, wanted, 0).map_err(&map)?;
        // The hook is called before the filesystem is asked: what that answers does not matter, and nothing is sent to a
        // server that may not answer.
        let looked = sys::fs::look(object);
        let pending = self.pending.get(&thread, 0);
        self.pending.remove(&thread).map_err(&map)?;
        let failed = |source: io::Error| KernelError::Enrol { source };
        let [_, rights, state, inode, ino, identity] = pending.map_err(&map)?;
        let known = self.enrolled.entry(sandbox).or_default();
        match state {
            state if state == u64::from(PENDING_DONE) => known.push(inode),
            state if state == u64::from(PENDING_FULL) => {
                return Err(failed(io::Error::other("there is no room for another root")));
            }
            state if state == u64::from(PENDING_UNREADABLE) => {
                return Err(failed(io::Error::other("it has no inode")));
            }
            _ => {
                let why = looked.err().map_or_else(
                    || "the security hook was not called".to_owned(),
                    |error| error.to_string(),
                );
                return Err(failed(io::Error::other(why)));
            }
        }
        // What the hooks will find.
        let expected: RootRaw = [ino, identity, rights];
        match self.roots.get(&[inode, sandbox], 0) {
            Ok(found) if found == expected => Ok(()),
            Ok(_) => Err(failed(io::Error::other("another root stands in its place"))),
            Err(error) => Err(KernelError::map(abi::MAP_ROOTS)(error)),
        }
    }

    /// The sandbox is over.
    pub fn forget(&mut self, sandbox: u64) {
        for inode in self.enrolled.remove(&sandbox).unwrap_or_default() {
            // Enrolled twice, removed once.
            let _ = self.roots.remove(&[inode, sandbox]);
        }
    }
}

/// As the kernel half sees this thread. Only in the kernel's first pid namespace, which tier T1 takes.
fn this_thread() -> u64 {
    let process = u64::from(std::process::id());
    process << 32 | u64::from(nix::unistd::gettid().as_raw().cast_unsigned())
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
