//! Text copied into a record, from the caller's memory or the kernel's, and how much of it there is.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_probe_read_kernel_str, bpf_probe_read_user, bpf_probe_read_user_str};
use guard_common::record::{PATH_CUT, PATH_GIVEN, PATH_UNREADABLE};

/// How much was copied, and the `PATH_` flags that say what it is.
#[derive(Clone, Copy)]
pub(super) struct Copied {
    pub(super) length: u16,
    pub(super) flags: u16,
}

pub(super) const NOTHING: Copied = Copied { length: 0, flags: 0 };

/// Copies text of the caller. A page that is not there is not fetched.
///
/// # Safety
/// `into` must be valid for `SIZE` bytes and belong to nobody else.
#[inline(always)]
pub(super) unsafe fn user<const SIZE: usize>(into: *mut u8, from: u64) -> Copied {
    if from == 0 {
        return NOTHING;
    }
    // SAFETY: the destination has this size (the caller's promise); the helper checks the source.
    let copied = unsafe { bpf_probe_read_user_str(into.cast(), SIZE as u32, from as *const c_void) } as i64;
    if copied != SIZE as i64 {
        return short(copied);
    }
    // As long as the room, zero included: complete only if the caller's zero is there, too.
    let mut last = 0u8;
    // SAFETY: the destination is a local of this size; the helper checks the source.
    let failed = unsafe {
        let at = (from as *const u8).wrapping_add(SIZE - 1).cast::<c_void>();
        bpf_probe_read_user((&raw mut last).cast(), 1, at)
    };
    full::<SIZE>(failed != 0 || last != 0)
}

/// Copies text of the kernel's own.
///
/// # Safety
/// `into` must be valid for `SIZE` bytes and belong to nobody else.
#[inline(always)]
pub(super) unsafe fn kernel<const SIZE: usize>(into: *mut u8, from: u64) -> Copied {
    if from == 0 {
        return NOTHING;
    }
    // SAFETY: the destination has this size (the caller's promise); the helper checks the source.
    let copied = unsafe { bpf_probe_read_kernel_str(into.cast(), SIZE as u32, from as *const c_void) } as i64;
    if copied != SIZE as i64 {
        return short(copied);
    }
    full::<SIZE>(true)
}

#[inline(always)]
fn short(copied: i64) -> Copied {
    if copied < 0 {
        return Copied {
            length: 0,
            flags: PATH_GIVEN | PATH_UNREADABLE,
        };
    }
    // The zero is counted, but not that of an empty text before Linux 6.13.
    let length = if copied == 0 { 0 } else { copied - 1 };
    Copied {
        length: length as u16,
        flags: PATH_GIVEN,
    }
}

#[inline(always)]
fn full<const SIZE: usize>(cut: bool) -> Copied {
    Copied {
        length: (SIZE - 1) as u16,
        flags: if cut { PATH_GIVEN | PATH_CUT } else { PATH_GIVEN },
    }
}
