//! The registers a system call was made with, which are still there when it returns (x86_64).

use core::{ffi::c_void, mem::MaybeUninit};

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;

/// `offsetof(struct pt_regs, r10)`: from here to the number of the call it is nine words. The layout is
/// part of the kernel's interface (ptrace).
const FIRST: usize = 56;

/// The part of the registers that says what was called.
#[repr(C)]
struct Words {
    r10: u64,
    r9: u64,
    r8: u64,
    rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    orig_rax: u64,
}

/// A call as it was made.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) nr: u32,
    pub(super) args: [u64; 6],
}

/// Reads the call from the registers the tracepoint names.
#[inline(always)]
pub(super) fn call(registers: u64) -> Option<Call> {
    let mut words = MaybeUninit::<Words>::uninit();
    let from = (registers as *const u8).wrapping_add(FIRST).cast::<c_void>();
    // SAFETY: the destination is a local of the given size; the helper checks the source and fails
    // instead of faulting.
    let failed = unsafe { bpf_probe_read_kernel(words.as_mut_ptr().cast(), size_of::<Words>() as u32, from) };
    if failed != 0 {
        return None;
    }
    // SAFETY: the helper wrote all of it, and every bit pattern is valid.
    let words = unsafe { words.assume_init() };
    Some(Call {
        nr: words.orig_rax as u32,
        args: [words.rdi, words.rsi, words.rdx, words.r10, words.r8, words.r9],
    })
}

impl Call {
    /// One argument, 0 for a number that is none. No array is indexed: the number is not known in advance.
    #[inline(always)]
    pub(super) fn argument(&self, number: u8) -> u64 {
        let [a, b, c, d, e, f] = self.args;
        if number == 0 {
            a
        } else if number == 1 {
            b
        } else if number == 2 {
            c
        } else if number == 3 {
            d
        } else if number == 4 {
            e
        } else if number == 5 {
            f
        } else {
            0
        }
    }
}
