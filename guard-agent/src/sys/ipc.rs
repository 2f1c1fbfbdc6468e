//! A System V memory segment: the object by which an IPC namespace shows.

use std::{io, ptr};

use super::check;

/// A segment that the kernel removes when this process ends.
#[derive(Debug)]
pub struct Segment(i32);

impl Segment {
    pub fn make() -> io::Result<Self> {
        // SAFETY: plain integers.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600) };
        check(id.into())?;
        // SAFETY: the kernel picks a free address; nothing reads or writes there. Attached until the process ends,
        // which is what keeps a removed segment.
        let attached = unsafe { libc::shmat(id, ptr::null(), 0) };
        // SAFETY: this command takes no buffer.
        let removed = check(unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) }.into());
        if attached.addr() == usize::MAX {
            return Err(io::Error::other("cannot attach a memory segment"));
        }
        removed.map(|_| Self(id))
    }

    /// Whether a process with this number for it finds it.
    pub fn look(&self) -> io::Result<()> {
        // SAFETY: an all-zero shmid_ds is a valid value of that plain C struct.
        let mut found: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills the live structure.
        check(unsafe { libc::shmctl(self.0, libc::IPC_STAT, &raw mut found) }.into()).map(drop)
    }
}
