//! A ring of `io_uring`, and handling one's own page faults: known by what the kernel calls the object it makes for them.
//!
//! A ring acts later and by others: with credentials that its maker has changed since, which the hooks would take for the
//! kernel's own.

use aya_ebpf::{helpers::generated::bpf_probe_read_kernel_str, macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_KIND, REASON_UNREADABLE};

use super::{
    decide::{Verdict, decide_nameless},
    object::{argument, load},
};
use crate::maps::QSTR_NAME;

/// Two words: more than either name.
const RING: [u64; 2] = words(b"[io_uring]");
const FAULTS: [u64; 2] = words(b"[userfaultfd]");

#[lsm(hook = "inode_init_security_anon")]
pub(crate) fn inode_init_security_anon(context: LsmContext) -> i32 {
    decide_nameless(&hooks::INODE_INIT_SECURITY_ANON, |_| {
        let text: u64 = argument(&context, 1);
        let name: u64 = load(text, &QSTR_NAME);
        let mut read = [0_u64; 2];
        // SAFETY: the destination is a local of the given size; the helper checks the source.
        let copied = unsafe { bpf_probe_read_kernel_str((&raw mut read).cast(), 16, name as *const _) };
        if copied <= 0 {
            return Verdict::deny(REASON_UNREADABLE);
        }
        if same(&read, &RING) || same(&read, &FAULTS) {
            return Verdict::deny(REASON_KIND);
        }
        Verdict::ALLOW
    })
}

#[inline(always)]
fn same(one: &[u64; 2], other: &[u64; 2]) -> bool {
    let ([a, b], [c, d]) = (one, other);
    a == c && b == d
}

const fn words(name: &[u8]) -> [u64; 2] {
    let mut words = [0; 2];
    let mut at = 0;
    while at < name.len() {
        words[at / 8] |= (name[at] as u64) << (at % 8 * 8);
        at += 1;
    }
    words
}
