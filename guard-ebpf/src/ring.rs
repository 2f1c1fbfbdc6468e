//! The only way a record leaves the kernel: room in the sandbox's part of the
//! ring, reserve, fill, submit, all of it counted.
//!
//! Programs run on several processors at once and some can be preempted, so the
//! counters are added to atomically. `reserved` is raised before the record is
//! submitted: whoever has consumed `reserved` records has consumed them all.

use core::{
    ffi::c_void,
    intrinsics::{AtomicOrdering, atomic_xadd},
    ptr::from_ref,
};

use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns, bpf_ringbuf_reserve,
    bpf_ringbuf_submit,
};
use guard_common::{
    abi::{ABI_VERSION, SLOT_ALLOWED_BYTES, SLOT_BYTES, SlotValue, ring_bytes},
    event::NetRecord,
    record::{
        ALLOWED, CallRecord, ExecRecord, Header, KIND_CALL, KIND_EXEC, KIND_NET, KIND_PATHS, KIND_VERDICT,
        MARKED, PathsRecord,
    },
    verdict::VerdictRecord,
};

use crate::{
    maps::{CONSUMED, EVENTS, SLOTS},
    scope::Sandbox,
    stamp,
};

/// A record of the ring.
///
/// # Safety
/// The type starts with a [`Header`].
pub(crate) unsafe trait Record {
    const KIND: u16;
}
// SAFETY: its first field is the header.
unsafe impl Record for NetRecord {
    const KIND: u16 = KIND_NET;
}
// SAFETY: its first field is the header.
unsafe impl Record for CallRecord {
    const KIND: u16 = KIND_CALL;
}
// SAFETY: its first field is a call's record, whose first field is the header.
unsafe impl Record for PathsRecord {
    const KIND: u16 = KIND_PATHS;
}
// SAFETY: its first field is the header.
unsafe impl Record for ExecRecord {
    const KIND: u16 = KIND_EXEC;
}

// SAFETY: its first field is the header.
unsafe impl Record for VerdictRecord {
    const KIND: u16 = KIND_VERDICT;
}

/// Reserves a record, has it filled and submits it; without room it only counts.
///
/// The head is complete when `fill` gets the record; every other byte of it is `fill`'s.
#[inline(always)]
pub(crate) fn emit<T: Record>(sandbox: &Sandbox, allowed: bool, fill: impl FnOnce(*mut T)) {
    let Some(slot) = SLOTS.get_ptr_mut(sandbox.slot) else {
        return;
    };
    let size = ring_bytes(size_of::<T>());
    if !has_room(slot, sandbox.slot, size, allowed) {
        count_lost(slot, allowed);
        return;
    }
    // SAFETY: the map is the ring, and the size is not zero.
    let room = unsafe {
        let ring = from_ref(&EVENTS).cast_mut().cast::<c_void>();
        bpf_ringbuf_reserve(ring, size_of::<T>() as u64, 0)
    };
    if room.is_null() {
        count_lost(slot, allowed);
        return;
    }
    count_reserved(slot, size, allowed);
    let record = room.cast::<T>();
    head(record.cast(), T::KIND, sandbox, allowed);
    fill(record);
    // SAFETY: `room` is a reservation that is not submitted yet, and nothing touches it after this.
    unsafe { bpf_ringbuf_submit(room, 0) };
}

/// Whether the slot may hold that much more of the ring.
#[inline(always)]
fn has_room(slot: *mut SlotValue, index: u32, size: u64, allowed: bool) -> bool {
    let Some(consumed) = CONSUMED.get_ptr(index) else {
        return false;
    };
    // SAFETY: both point at live map values of these types. What was consumed is read first: it was
    // reserved before, so the differences are never below zero.
    let (refused, permitted) = unsafe {
        let read = (&raw const (*consumed).bytes).read_volatile();
        let read_allowed = (&raw const (*consumed).allowed_bytes).read_volatile();
        (
            (&raw const (*slot).bytes).read_volatile().wrapping_sub(read),
            (&raw const (*slot).allowed_bytes)
                .read_volatile()
                .wrapping_sub(read_allowed),
        )
    };
    if allowed && permitted.wrapping_add(size) > SLOT_ALLOWED_BYTES {
        return false;
    }
    refused.wrapping_add(permitted).wrapping_add(size) <= SLOT_BYTES
}

#[inline(always)]
fn head(header: *mut Header, kind: u16, sandbox: &Sandbox, allowed: bool) {
    let calls = if sandbox.stamped {
        stamp::calls(sandbox.slot)
    } else {
        None
    };
    let mut flags = if allowed { ALLOWED } else { 0 };
    if calls.is_some() {
        flags |= MARKED;
    }
    // SAFETY: the helpers take no memory of ours; `header` is the beginning of a ring reservation that is
    // not submitted yet, so nobody else reads or writes it.
    unsafe {
        // Volatile throughout: merged stores become a call of `memset`, a loop over bytes.
        let id = bpf_get_current_pid_tgid();
        (&raw mut (*header).abi).write_volatile(ABI_VERSION);
        (&raw mut (*header).kind).write_volatile(kind);
        (&raw mut (*header).flags).write_volatile(flags);
        (&raw mut (*header).ktime_ns).write_volatile(bpf_ktime_get_ns());
        (&raw mut (*header).cgroup_id).write_volatile(sandbox.cgroup);
        (&raw mut (*header).pid).write_volatile((id >> 32) as u32);
        (&raw mut (*header).tid).write_volatile(id as u32);
        (&raw mut (*header).slot).write_volatile(sandbox.slot);
        (&raw mut (*header).cpu).write_volatile(bpf_get_smp_processor_id());
        (&raw mut (*header).calls).write_volatile(calls.unwrap_or(0));
    }
}

#[inline(always)]
fn count_reserved(slot: *mut SlotValue, size: u64, allowed: bool) {
    // SAFETY: `slot` points at a live map value of this type.
    unsafe {
        if allowed {
            add(&raw mut (*slot).allowed_bytes, size);
            add(&raw mut (*slot).allowed_reserved, 1);
        } else {
            add(&raw mut (*slot).bytes, size);
            add(&raw mut (*slot).reserved, 1);
        }
    }
}

#[inline(always)]
fn count_lost(slot: *mut SlotValue, allowed: bool) {
    // SAFETY: `slot` points at a live map value of this type.
    unsafe {
        if allowed {
            add(&raw mut (*slot).allowed_lost, 1);
        } else {
            add(&raw mut (*slot).lost, 1);
        }
    }
}

/// # Safety
/// `counter` points into a live map value, aligned to eight bytes, and every write to it anywhere in the
/// kernel half is this one.
#[inline(always)]
pub(crate) unsafe fn add(counter: *mut u64, by: u64) {
    // The standard atomics have no `fetch_add` here: the target lacks compare-and-swap.
    // SAFETY: as promised by the caller.
    unsafe {
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(counter, by);
    }
}
