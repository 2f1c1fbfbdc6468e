//! The record of a refusal.

use aya_ebpf::{
    Global, helpers::generated::bpf_probe_read_kernel, helpers::generated::bpf_probe_read_kernel_str,
};
use core::ffi::c_void;
use guard_common::{
    hooks::Hook,
    verdict::{NAME_BYTES, NAMED, NAMES_COUNT, NAMES_LIMIT, NAMES_WHOLE, OBJECT_KNOWN, VerdictRecord},
};

use super::{
    decide::Verdict,
    subject::{Subject, current_task},
};
use crate::{
    maps::{DENTRY_INODE, DENTRY_NAME, DENTRY_PARENT, DENTRY_SB, INODE_INO, INODE_NLINK, LABELS, SB_DEV},
    ring::emit,
    scope::Sandbox,
};

/// Tells of a refusal. Never changes it: without room it is only counted. `NAMED`: the verdict may be about an object.
#[inline(always)]
pub(super) fn refused<const NAMED: bool>(hook: &Hook, subject: &Subject, verdict: &Verdict) {
    // Neither the end of the hook nor that of the call is to be told, too.
    let label = LABELS.of(current_task());
    if !label.is_null() {
        // SAFETY: a live value of this type; only its own task writes these fields.
        unsafe {
            (&raw mut (*label).told).write_volatile(1);
            (&raw mut (*label).refused).write_volatile(u32::from(hook.id));
        }
    }
    let sandbox = Sandbox {
        cgroup: subject.sandbox,
        slot: subject.slot,
        stamped: subject.is_stamped(),
    };
    emit::<VerdictRecord>(&sandbox, false, |record| {
        fill::<NAMED>(record, hook, hook.errno, 0, verdict)
    });
}

/// All of the record but its head. `also`: flags beside those of the object.
#[inline(always)]
pub(crate) fn fill<const NAMED: bool>(
    record: *mut VerdictRecord,
    hook: &Hook,
    errno: u16,
    also: u16,
    verdict: &Verdict,
) {
    let inode: u64 = if NAMED {
        read(verdict.dentry, &DENTRY_INODE)
    } else {
        0
    };
    // Of the name, not of the inode: what is about to be made has none.
    let block: u64 = if NAMED {
        read(verdict.dentry, &DENTRY_SB)
    } else {
        0
    };
    let mut flags = if inode == 0 { also } else { also | OBJECT_KNOWN };
    // SAFETY: `record` is a ring reservation of this type that is not submitted yet, so nobody else reads or writes
    // it. Every byte but the head and the names past their length is written here.
    unsafe {
        (&raw mut (*record).hook).write_volatile(hook.id);
        (&raw mut (*record).errno).write_volatile(errno);
        (&raw mut (*record).reason).write_volatile(verdict.reason);
        (&raw mut (*record).needs).write_volatile(verdict.needs);
        (&raw mut (*record).found).write_volatile(verdict.found);
        (&raw mut (*record).detail).write_volatile(verdict.detail);
        (&raw mut (*record).dev).write_volatile(read::<u32>(block, &SB_DEV));
        (&raw mut (*record).nlink).write_volatile(read::<u32>(inode, &INODE_NLINK));
        (&raw mut (*record).ino).write_volatile(read::<u64>(inode, &INODE_INO));
        (&raw mut (*record).reserved).write_volatile(0);
        let (length, more) = if NAMED {
            names((&raw mut (*record).names).cast(), verdict.dentry)
        } else {
            (0, 0)
        };
        flags |= more;
        (&raw mut (*record).names_len).write_volatile(length);
        (&raw mut (*record).flags).write_volatile(flags);
    }
}

/// Copies the names from the object upwards: how many bytes, and what they are.
///
/// # Safety
/// `into` must be valid for `NAMES_BYTES` bytes and belong to nobody else.
#[inline(always)]
unsafe fn names(into: *mut u8, dentry: u64) -> (u32, u16) {
    if dentry == 0 {
        return (0, 0);
    }
    let mut at = dentry;
    let mut used: usize = 0;
    for _ in 0..NAMES_COUNT {
        let parent: u64 = read(at, &DENTRY_PARENT);
        if parent == at || parent == 0 {
            return (used as u32, NAMED | NAMES_WHOLE);
        }
        if used >= NAMES_LIMIT {
            return (used as u32, NAMED);
        }
        let name: u64 = read(at, &DENTRY_NAME);
        // SAFETY: below the limit there is room for the longest name (the caller's promise); the helper checks the
        // source.
        let copied = unsafe {
            let to = into.add(used & (NAMES_LIMIT - 1));
            bpf_probe_read_kernel_str(to.cast(), NAME_BYTES as u32, name as *const c_void)
        };
        if copied <= 0 {
            return (used as u32, NAMED);
        }
        used = used.wrapping_add(copied as usize & (NAME_BYTES * 2 - 1));
        at = parent;
    }
    (used as u32, NAMED)
}

/// A field, by way of the helper that fails instead of faulting; 0 without a structure. What is told is no verdict.
#[inline(always)]
fn read<T: Copy + Default>(structure: u64, offset: &Global<u64>) -> T {
    let mut value = T::default();
    if structure != 0 {
        let from = (structure as *const u8).wrapping_add(offset.load() as usize);
        // SAFETY: the destination is a local of the given size, an integer; the helper checks the source.
        unsafe { bpf_probe_read_kernel((&raw mut value).cast(), size_of::<T>() as u32, from.cast()) };
    }
    value
}
