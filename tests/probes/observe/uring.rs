//! One io_uring, kept from order to order.

use std::{
    io, ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::children::answer;

/// Offsets in `struct io_uring_params`, and where the parts of a ring are mapped from.
const PARAMS: usize = 120;
const SQ_TAIL: usize = 44;
const SQ_MASK: usize = 48;
const SQ_ARRAY: usize = 64;
const CQ_HEAD: usize = 80;
const CQ_MASK: usize = 88;
const CQ_CQES: usize = 100;
const ENTRIES_AT: i64 = 0x1000_0000;
const ENTRY: usize = 64;
const KEPT: i32 = 205;
const ENTER_GETEVENTS: u32 = 1;

struct Ring {
    fd: i64,
    shared: *mut u8,
    entries: *mut u8,
    params: [u8; PARAMS],
}

// SAFETY: the mappings live as long as the program and are used under the lock alone.
unsafe impl Send for Ring {}

static RING: Mutex<Option<Ring>> = Mutex::new(None);

/// Makes the ring: its descriptor, or why not.
pub(crate) fn make(flags: u32) -> String {
    let mut params = [0_u8; PARAMS];
    params[8..12].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: `params` is as long as the kernel's structure. The mappings are where the kernel likes, and of the length
    // that four entries need at most.
    let mut made = unsafe {
        let fd = libc::syscall(libc::SYS_io_uring_setup, 4, params.as_mut_ptr());
        if fd < 0 {
            return answer(-i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0)));
        }
        let map = |length, at| {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd as i32,
                at,
            )
        };
        Ring {
            fd,
            shared: map(4096, 0).cast(),
            entries: map(4096, ENTRIES_AT).cast(),
            params,
        }
    };
    // Where the orders that close what is open leave it.
    // SAFETY: a duplicate, and the end of the first.
    unsafe {
        let kept = libc::fcntl(made.fd as i32, libc::F_DUPFD_CLOEXEC, KEPT);
        libc::close(made.fd as i32);
        made.fd = i64::from(kept);
    }
    let fd = made.fd;
    let failed = libc::MAP_FAILED.cast();
    if made.shared == failed || made.entries == failed {
        return answer(-1000);
    }
    *RING.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
    answer(fd)
}

/// Has the ring do one thing and waits for it: `OPCODE FLAGS FD ADDRESS LENGTH MORE PERSONALITY`.
pub(crate) fn act(numbers: &[u64]) -> String {
    let ring = RING.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(ring), [opcode, flags, fd, address, length, more, personality]) = (&*ring, numbers) else {
        return answer(-1001);
    };
    let mut entry = [0_u8; ENTRY];
    entry[0] = *opcode as u8;
    entry[1] = *flags as u8;
    entry[4..8].copy_from_slice(&(*fd as u32).to_ne_bytes());
    entry[16..24].copy_from_slice(&address.to_ne_bytes());
    entry[24..28].copy_from_slice(&(*length as u32).to_ne_bytes());
    entry[28..32].copy_from_slice(&(*more as u32).to_ne_bytes());
    entry[42..44].copy_from_slice(&(*personality as u16).to_ne_bytes());
    // SAFETY: the offsets are those the kernel gave for this ring, and lie in its first page; there is one entry at a
    // time, so that the next places are free.
    unsafe {
        let word = |at: usize| ring.shared.add(ring.offset(at)).cast::<AtomicU32>();
        let tail = (*word(SQ_TAIL)).load(Ordering::Acquire);
        let place = tail & (*word(SQ_MASK)).load(Ordering::Relaxed);
        ptr::copy_nonoverlapping(entry.as_ptr(), ring.entries.add(place as usize * ENTRY), ENTRY);
        (*word(SQ_ARRAY).add(place as usize)).store(place, Ordering::Relaxed);
        (*word(SQ_TAIL)).store(tail.wrapping_add(1), Ordering::Release);
        let entered = libc::syscall(libc::SYS_io_uring_enter, ring.fd, 1, 1, ENTER_GETEVENTS, 0, 0);
        if entered < 0 {
            return answer(-i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0)));
        }
        let head = (*word(CQ_HEAD)).load(Ordering::Acquire);
        let place = head & (*word(CQ_MASK)).load(Ordering::Relaxed);
        let done = ring.shared.add(ring.offset(CQ_CQES) + place as usize * 16 + 8);
        let result = done.cast::<i32>().read_volatile();
        (*word(CQ_HEAD)).store(head.wrapping_add(1), Ordering::Release);
        answer(i64::from(result))
    }
}

impl Ring {
    fn offset(&self, at: usize) -> usize {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.params[at..at + 4]);
        u32::from_ne_bytes(bytes) as usize
    }
}
