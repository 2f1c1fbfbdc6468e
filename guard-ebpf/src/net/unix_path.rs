//! The name a unix socket operation gave, read from the kernel's own context.
//!
//! The context a program sees has no field for it; the kernel's structure
//! behind it has, at offsets the loader takes from the running kernel's types.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::bpf_sock_addr, helpers::generated::bpf_probe_read_kernel, programs::SockAddrContext,
};
use guard_common::{
    abi::ABSENT,
    event::{NetRecord, UNIX_PATH_BYTES},
};

use super::denied;
use crate::{
    emit,
    maps::{UADDR_OFFSET, UADDRLEN_OFFSET},
};

/// `offsetof(struct sockaddr_un, sun_path)`.
const SUN_PATH: u64 = 2;

/// Reports an operation on a unix socket.
#[inline(always)]
pub(crate) fn report_unix(op: u16, context: &SockAddrContext) {
    let context = context.sock_addr;
    emit::report_with(&denied(op, context, 0, [0; 4]), |record| fill(record, context));
}

/// Leaves the record without a name where the layout is unknown or a read fails.
#[inline(always)]
fn fill(record: *mut NetRecord, context: *const bpf_sock_addr) {
    let (uaddr_offset, length_offset) = (UADDR_OFFSET.load(), UADDRLEN_OFFSET.load());
    if uaddr_offset == ABSENT || length_offset == ABSENT {
        return;
    }
    let (mut uaddr, mut length) = (0u64, 0u32);
    // SAFETY: the helper checks the source address itself and fails instead of
    // faulting; the destinations are two locals of the given sizes.
    let failed = unsafe {
        read(&raw mut uaddr, context, uaddr_offset) != 0 || read(&raw mut length, context, length_offset) != 0
    };
    if failed || u64::from(length) <= SUN_PATH {
        return;
    }
    let given = u64::from(length) - SUN_PATH;
    let kept = if given > UNIX_PATH_BYTES as u64 {
        UNIX_PATH_BYTES as u64
    } else {
        given
    };
    // SAFETY: `record` is a ring reservation that is not submitted yet, the
    // destination lies in it with this size; the helper checks the source.
    unsafe {
        let path = (&raw mut (*record).unix_path).cast::<c_void>();
        let from = uaddr.wrapping_add(SUN_PATH) as *const c_void;
        if bpf_probe_read_kernel(path, UNIX_PATH_BYTES as u32, from) == 0 {
            (&raw mut (*record).unix_path_len).write(kept as u16);
        }
    }
}

/// # Safety
/// `into` must be valid for a write of its type.
#[inline(always)]
unsafe fn read<T>(into: *mut T, context: *const bpf_sock_addr, offset: u64) -> i64 {
    let from = context
        .cast::<u8>()
        .wrapping_add(offset as usize)
        .cast::<c_void>();
    // SAFETY: the destination has the size of its type (the caller's promise); the helper checks the source.
    unsafe { bpf_probe_read_kernel(into.cast(), size_of::<T>() as u32, from) as i64 }
}
