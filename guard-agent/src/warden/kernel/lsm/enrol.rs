//! Roots and labels. A root is enrolled by the kernel half when the warden looks at the object through its descriptor:
//! what is enrolled is what is held, whatever its path leads to by now.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
};

use guard_common::abi::{self, PENDING_DONE, PENDING_FULL, PENDING_UNREADABLE, PENDING_WANTED, RootRaw};

use super::{super::error::KernelError, Lsm};
use crate::sys::bpf;

impl Lsm {
    /// Lets a sandbox use an object and what lies below it in its filesystem. What it lies in itself is enrolled
    /// before: it gets those rights, too. The caller keeps the object open as long as the sandbox lives: its inode's
    /// address is its name.
    pub(in crate::warden::kernel) fn enrol(
        &mut self,
        object: BorrowedFd<'_>,
        sandbox: u64,
        rights: u32,
    ) -> Result<(), KernelError> {
        let map = KernelError::map(abi::MAP_PENDING);
        let thread = this_thread();
        let wanted = [sandbox, pair(rights, PENDING_WANTED), 0, 0, 0];
        self.pending.insert(thread, wanted, 0).map_err(&map)?;
        let looked = nix::sys::stat::fstat(object.as_fd());
        let pending = self.pending.get(&thread, 0);
        self.pending.remove(&thread).map_err(&map)?;
        let failed = |source: io::Error| KernelError::Enrol { source };
        looked.map_err(|error| failed(error.into()))?;
        let [_, state, inode, ino, identity] = pending.map_err(&map)?;
        let known = self.enrolled.entry(sandbox).or_default();
        match state >> 32 {
            state if state == u64::from(PENDING_DONE) => known.push(inode),
            state if state == u64::from(PENDING_FULL) => {
                return Err(failed(io::Error::other("there is no room for another root")));
            }
            state if state == u64::from(PENDING_UNREADABLE) => {
                return Err(failed(io::Error::other("it has no inode")));
            }
            _ => return Err(failed(io::Error::other("the security hook was not called"))),
        }
        // What the hooks will find.
        let expected: RootRaw = [ino, identity, state & u64::from(u32::MAX)];
        match self.roots.get(&[inode, sandbox], 0) {
            Ok(found) if found == expected => Ok(()),
            Ok(_) => Err(failed(io::Error::other("another root stands in its place"))),
            Err(error) => Err(KernelError::map(abi::MAP_ROOTS)(error)),
        }
    }

    /// The sandbox is over.
    pub(in crate::warden::kernel) fn forget(&mut self, sandbox: u64) {
        for inode in self.enrolled.remove(&sandbox).unwrap_or_default() {
            // Enrolled twice, removed once.
            let _ = self.roots.remove(&[inode, sandbox]);
        }
    }

    /// From now on a process belongs to a sandbox, whatever cgroup it is in, and so does everything it starts.
    pub(in crate::warden::kernel) fn label(&self, pidfd: BorrowedFd<'_>, sandbox: u64) -> io::Result<()> {
        bpf::set_task_value(self.labels.as_fd(), pidfd, [sandbox, 0])?;
        let [found, _] = bpf::task_value::<2>(self.labels.as_fd(), pidfd)?;
        if found == sandbox {
            Ok(())
        } else {
            Err(io::Error::other("another label stands in its place"))
        }
    }

    /// The sandbox that a process is labelled with.
    pub(in crate::warden::kernel) fn label_of(&self, pidfd: BorrowedFd<'_>) -> io::Result<u64> {
        bpf::task_value::<2>(self.labels.as_fd(), pidfd).map(|[sandbox, _]| sandbox)
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
