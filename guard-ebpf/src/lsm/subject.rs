//! For whom a hook decides: a task with a sandbox's label, or one in a sandbox's cgroup.
//!
//! Both, because each alone can be missed: a cgroup is left through `clone3`, a label's look-up can fail while the
//! storage is busy (before Linux 6.2).

use aya_ebpf::helpers::generated::{bpf_get_current_ancestor_cgroup_id, bpf_get_current_task_btf};
use guard_common::abi::{SANDBOX_ENFORCE, SANDBOX_STAMP, SLOT_COUNT, SLOT_UNKNOWN};

use super::object::load;
use crate::maps::{LABELS, PARENT_CGROUP, SANDBOX_LEVEL, SANDBOXES, TASK_CRED, TASK_REAL_CRED};

/// A task of a sandbox.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    /// Id of the sandbox's cgroup.
    pub(super) sandbox: u64,
    pub(super) slot: u32,
    /// The warden has told of the sandbox; with one that it has not everything is refused.
    pub(super) known: bool,
    /// What the warden has told of it.
    pub(super) flags: u32,
    /// Rights that only an approved call may have, and none has them.
    pub(super) withheld: u32,
}

const _: () = assert!(SLOT_COUNT.is_power_of_two());

#[inline(always)]
pub(crate) fn current_task() -> u64 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_get_current_task_btf() as u64 }
}

/// The sandbox of the label of a task, 0 without one.
#[inline(always)]
pub(super) fn label_of(task: u64) -> u64 {
    let label = LABELS.of(task);
    if label.is_null() {
        return 0;
    }
    // SAFETY: a live value of this type.
    unsafe { (&raw const (*label).sandbox).read_volatile() }
}

/// The current task, if the hooks decide for it.
#[inline(always)]
pub(super) fn subject() -> Option<Subject> {
    let task = current_task();
    let label = label_of(task);
    let sandbox = if label != 0 {
        label
    } else {
        let level = SANDBOX_LEVEL.load();
        if ancestor(level.wrapping_sub(1)) != PARENT_CGROUP.load() {
            return None;
        }
        ancestor(level)
    };
    // The kernel acts with other credentials than the task's own, as overlayfs does when it opens what is underneath.
    // Nothing in a sandbox can have that done for itself: io_uring's personalities are refused.
    if load::<u64>(task, &TASK_CRED) != load::<u64>(task, &TASK_REAL_CRED) {
        return None;
    }
    let Some(value) = SANDBOXES.get_ptr(&sandbox) else {
        // In a cgroup without being told of it: a sandbox that is being set up. With a label: one that is over.
        if label == 0 {
            return None;
        }
        return Some(Subject {
            sandbox,
            slot: SLOT_UNKNOWN,
            known: false,
            flags: 0,
            withheld: 0,
        });
    };
    // SAFETY: `value` points at a live map value of this type; the host half replaces it as a whole.
    let (slot, flags, withheld) = unsafe {
        (
            (&raw const (*value).slot).read_volatile(),
            (&raw const (*value).flags).read_volatile(),
            (&raw const (*value).withheld).read_volatile(),
        )
    };
    let known = flags & SANDBOX_ENFORCE != 0;
    if !known && label == 0 {
        return None;
    }
    // The warden writes no other. Without a branch: the verifier follows the rest anew for each value that it knows.
    let slot = slot & (SLOT_COUNT as u32 - 1);
    Some(Subject {
        sandbox,
        slot,
        known,
        flags,
        withheld,
    })
}

impl Subject {
    /// It has a stamp, which cuts what may be done in its roots.
    #[inline(always)]
    pub(super) fn is_stamped(&self) -> bool {
        self.flags & SANDBOX_STAMP != 0
    }
}

/// Whether the task is where the network programs of its sandbox are. A socket stays where it was made.
#[inline(always)]
pub(super) fn is_in_its_cgroup(subject: &Subject) -> bool {
    ancestor(SANDBOX_LEVEL.load()) == subject.sandbox
}

#[inline(always)]
fn ancestor(level: u64) -> u64 {
    // SAFETY: the helper takes any level and touches no memory of ours.
    unsafe { bpf_get_current_ancestor_cgroup_id(level as i32) }
}
