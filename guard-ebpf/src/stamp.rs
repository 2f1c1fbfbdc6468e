//! The call stamp of a sandbox: what its gateway says of calls in flight, and what they may do.

use guard_common::stamp::{STAMP_MARKS, StampValue};

use crate::maps::STAMPS;

/// A sandbox's stamp; null where the slot has none.
#[inline(always)]
fn of(slot: u32) -> *const StampValue {
    STAMPS
        .get_value_ptr_mut(slot, &0)
        .map_or(core::ptr::null(), |value| value.cast_const().cast())
}

/// The calls in flight; none where nobody marks them.
#[inline(always)]
pub(crate) fn calls(slot: u32) -> Option<u64> {
    let stamp = of(slot);
    if stamp.is_null() {
        return None;
    }
    // SAFETY: a live map value of this type. Its gateway writes it meanwhile; each field is read whole, and any value
    // is one.
    let (calls, flags) = unsafe {
        (
            (&raw const (*stamp).calls).read_volatile(),
            (&raw const (*stamp).flags).read_volatile(),
        )
    };
    if flags & STAMP_MARKS == 0 {
        return None;
    }
    Some(calls)
}

/// The rights that the stamp allows on roots; none where there should be a stamp and is none.
#[inline(always)]
pub(crate) fn mask(slot: u32) -> Option<u32> {
    let stamp = of(slot);
    if stamp.is_null() {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { (&raw const (*stamp).mask).read_volatile() })
}
