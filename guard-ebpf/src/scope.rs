//! Which sandbox a task belongs to.
//!
//! Attachment alone decides that a program runs; this only names the sandbox in its record.

use aya_ebpf::helpers::generated::bpf_get_current_ancestor_cgroup_id;

use crate::maps::SANDBOX_LEVEL;

/// The current task's ancestor at the sandboxes' level, 0 when it has none there.
#[inline(always)]
pub(crate) fn sandbox_cgroup() -> u64 {
    let level = SANDBOX_LEVEL.load() as i32;
    // SAFETY: the helper takes any level and touches no memory of ours.
    unsafe { bpf_get_current_ancestor_cgroup_id(level) }
}
