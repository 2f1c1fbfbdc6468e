//! What a verdict on an open costs, on a machine whose security hooks take no program. `guard_common::measured` says
//! how that is asked for.

use aya_ebpf::{
    helpers::generated::bpf_get_current_pid_tgid, macros::raw_tracepoint, programs::RawTracePointContext,
};
use guard_common::{
    hooks,
    measured::{ENROLS, JUDGED},
};

use crate::{
    lsm::{argument, current_task, enrol, judge_read, load},
    maps::{FS_PWD, PATH_DENTRY, TASK_FS, WARDEN},
};

#[raw_tracepoint(tracepoint = "sys_enter")]
pub(crate) fn measured_walk(context: RawTracePointContext) -> i32 {
    match argument(&context, 1) {
        JUDGED => {
            judge_read(&hooks::FILE_OPEN, directory);
        }
        ENROLS => {
            // SAFETY: the helper takes nothing.
            let thread = unsafe { bpf_get_current_pid_tgid() };
            if thread >> 32 == WARDEN.load() {
                enrol(directory(), thread);
            }
        }
        _ => {}
    }
    0
}

/// The entry of the directory that the current task is in.
#[inline(always)]
fn directory() -> u64 {
    let context: u64 = load(current_task(), &TASK_FS);
    let place = context.wrapping_add(FS_PWD.load());
    load(place, &PATH_DENTRY)
}
