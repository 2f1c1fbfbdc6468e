//! The record of a network denial.

use core::mem::offset_of;

use guard_common::event::{NetRecord, UNIX_PATH_BYTES};

use crate::{ring::emit, scope};

/// What a denied caller of a cgroup program sees.
const EPERM: u16 = 1;

/// What a program knows about the operation it denies.
pub(crate) struct Denied {
    pub(crate) op: u16,
    pub(crate) reason: u16,
    pub(crate) family: u32,
    pub(crate) sock_type: u32,
    pub(crate) protocol: u32,
    /// Network byte order, as the context has it.
    pub(crate) port: u32,
    /// Network byte order.
    pub(crate) address: [u32; 4],
}

/// Reports a denial. Never changes the verdict: without room it only counts.
#[inline(always)]
pub(crate) fn report(denied: &Denied) {
    report_with(denied, |_| {});
}

/// Like [`report`]; `more` fills in what is left once the record is complete otherwise.
#[inline(always)]
pub(crate) fn report_with(denied: &Denied, more: impl FnOnce(*mut NetRecord)) {
    emit::<NetRecord>(&scope::current(), false, |record| {
        fill(record, denied);
        more(record);
    });
}

#[inline(always)]
fn fill(record: *mut NetRecord, denied: &Denied) {
    let [a, b, c, d] = denied.address;
    // SAFETY: `record` is the whole of a ring reservation of exactly this type that is not submitted yet, so
    // nobody else reads or writes it. Every byte of it but the head, which is there, is written here.
    unsafe {
        // Volatile throughout: merged stores become a call of `memset`, a loop over bytes.
        (&raw mut (*record).op).write_volatile(denied.op);
        (&raw mut (*record).family).write_volatile(denied.family as u16);
        (&raw mut (*record).sock_type).write_volatile(denied.sock_type);
        (&raw mut (*record).protocol).write_volatile(denied.protocol);
        (&raw mut (*record).errno).write_volatile(EPERM);
        (&raw mut (*record).reason).write_volatile(denied.reason);
        (&raw mut (*record).port).write_volatile(u16::from_be(denied.port as u16));
        (&raw mut (*record).unix_path_len).write_volatile(0);
        (&raw mut (*record).reserved).write_volatile(0);
        // The field stands at a multiple of four (asserted with the layout).
        let address = (&raw mut (*record).address).cast::<u32>();
        address.write_volatile(a);
        address.add(1).write_volatile(b);
        address.add(2).write_volatile(c);
        address.add(3).write_volatile(d);
        // The path starts on eight bytes and ends with the record (asserted below).
        let words = (&raw mut (*record).unix_path).cast::<u64>();
        for word in 0..PATH_WORDS {
            words.add(word).write_volatile(0);
        }
    }
}

/// The path and the integer after it, in words of eight bytes.
const PATH_WORDS: usize = (UNIX_PATH_BYTES + 4) / 8;
const _: () = assert!(offset_of!(NetRecord, unix_path) % 8 == 0);
const _: () = assert!(offset_of!(NetRecord, unix_path) + PATH_WORDS * 8 == size_of::<NetRecord>());
