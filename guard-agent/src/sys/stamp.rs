//! A call stamp's page in this process: shared with the kernel half, which only reads it.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64},
};

use guard_common::stamp::{CALLS_OFFSET, FLAGS_OFFSET, MASK_OFFSET, StampValue};

use super::check;

/// What is mapped. The kernel has pages of this size on the one architecture there is.
const PAGE: usize = 4096;

/// The page as long as this lives; its descriptor may be closed.
#[derive(Debug)]
pub struct StampPage {
    at: NonNull<libc::c_void>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached through atomics alone.
unsafe impl Send for StampPage {}
// SAFETY: as above.
unsafe impl Sync for StampPage {}

impl StampPage {
    /// Maps the stamp behind a descriptor that the warden has made with [`super::bpf::new_page`].
    pub fn map(stamp: impl AsFd) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice, of an open descriptor.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                stamp.as_fd().as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at).ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))?;
        Ok(Self { at })
    }

    /// Bits of the calls in flight.
    pub fn calls(&self) -> &AtomicU64 {
        // SAFETY: the field lies within the mapping, which lives as long as `self`, at a multiple of its size, and
        // nobody in this process reaches it but through atomics.
        unsafe { AtomicU64::from_ptr(self.field::<CALLS_OFFSET>().cast()) }
    }

    /// Rights that may be used.
    pub fn mask(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.field::<MASK_OFFSET>().cast()) }
    }

    /// What else is said.
    pub fn flags(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.field::<FLAGS_OFFSET>().cast()) }
    }

    fn field<const OFFSET: usize>(&self) -> *mut u8 {
        const { assert!(OFFSET < size_of::<StampValue>() && size_of::<StampValue>() <= PAGE) };
        // SAFETY: the offset lies within the mapping (asserted above).
        unsafe { self.at.as_ptr().cast::<u8>().add(OFFSET) }
    }
}

impl Drop for StampPage {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; references to it cannot outlive `self`.
        let _ = check(unsafe { libc::munmap(self.at.as_ptr(), PAGE) }.into());
    }
}
