//! Looking into another process, and being looked into: within the sandbox only.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_STRANGER};

use super::{
    decide::{Verdict, decide_nameless},
    object::argument,
    subject::{Subject, current_task, label_of},
};

#[lsm(hook = "ptrace_access_check")]
pub(crate) fn ptrace_access_check(context: LsmContext) -> i32 {
    decide_nameless(&hooks::PTRACE_ACCESS_CHECK, |subject| {
        same(argument(&context, 0), subject)
    })
}

#[lsm(hook = "ptrace_traceme")]
pub(crate) fn ptrace_traceme(context: LsmContext) -> i32 {
    decide_nameless(&hooks::PTRACE_TRACEME, |subject| {
        same(argument(&context, 0), subject)
    })
}

/// Whether a process is of the same sandbox.
#[inline(always)]
pub(super) fn same(other: u64, subject: &Subject) -> Verdict {
    if other == current_task() || label_of(other) == subject.sandbox {
        return Verdict::ALLOW;
    }
    Verdict::deny(REASON_STRANGER)
}
