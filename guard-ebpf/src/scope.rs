//! Which sandbox a task belongs to.
//!
//! For the network programs attachment alone decides that they run; this only
//! names the sandbox in the record. The observing programs run for every task
//! of the host, so for them the test comes first and is as cheap as it can be.

use aya_ebpf::helpers::generated::bpf_get_current_ancestor_cgroup_id;
use guard_common::abi::{SANDBOX_OBSERVE, SANDBOX_STAMP, SLOT_COUNT, SLOT_UNKNOWN};

use crate::maps::{PARENT_CGROUP, SANDBOX_LEVEL, SANDBOXES};

/// Whose record it is.
#[derive(Clone, Copy)]
pub(crate) struct Sandbox {
    /// The current task's ancestor cgroup at the sandboxes' level, 0 when it has none there.
    pub(crate) cgroup: u64,
    /// Whose room in the ring the record takes.
    pub(crate) slot: u32,
    /// The slot's stamp is its own.
    pub(crate) stamped: bool,
}

/// The current task's sandbox, in the slot for unknown ones when the loader was told of none.
#[inline(always)]
pub(crate) fn current() -> Sandbox {
    let cgroup = ancestor(SANDBOX_LEVEL.load());
    let (slot, flags) = known(cgroup);
    Sandbox {
        cgroup,
        slot,
        stamped: flags & SANDBOX_STAMP != 0,
    }
}

/// The current task's sandbox if it is one that is observed.
#[inline(always)]
pub(crate) fn observed() -> Option<Sandbox> {
    let level = SANDBOX_LEVEL.load();
    if ancestor(level.wrapping_sub(1)) != PARENT_CGROUP.load() {
        return None;
    }
    let cgroup = ancestor(level);
    let (slot, flags) = known(cgroup);
    if flags & SANDBOX_OBSERVE == 0 {
        return None;
    }
    Some(Sandbox {
        cgroup,
        slot,
        stamped: flags & SANDBOX_STAMP != 0,
    })
}

#[inline(always)]
fn ancestor(level: u64) -> u64 {
    // SAFETY: the helper takes any level and touches no memory of ours.
    unsafe { bpf_get_current_ancestor_cgroup_id(level as i32) }
}

/// Slot and flags of a sandbox's cgroup.
#[inline(always)]
fn known(cgroup: u64) -> (u32, u32) {
    let Some(value) = SANDBOXES.get_ptr(&cgroup) else {
        return (SLOT_UNKNOWN, 0);
    };
    // SAFETY: `value` points at a live map value of this type; the host half replaces it as a whole.
    let (slot, flags) = unsafe {
        (
            (&raw const (*value).slot).read_volatile(),
            (&raw const (*value).flags).read_volatile(),
        )
    };
    if slot >= SLOT_COUNT as u32 {
        return (SLOT_UNKNOWN, flags);
    }
    (slot, flags)
}
