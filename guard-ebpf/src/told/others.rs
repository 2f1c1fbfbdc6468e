//! Processes and sockets, which have no place among the names.

use aya_ebpf::{macros::fexit, programs::FExitContext};
use guard_common::told::{
    TOLD_PTRACE_ACCESS_CHECK, TOLD_TASK_KILL, TOLD_UNIX_MAY_SEND, TOLD_UNIX_STREAM_CONNECT,
};

use super::tell_nameless;
use crate::lsm::argument;

/// `PTRACE_MODE_NOAUDIT`: what is only looked at on the way, as for a line of `/proc/PID/stat`. No call fails of it.
const NO_AUDIT: u64 = 4;

#[fexit(function = "security_ptrace_access_check")]
pub(crate) fn told_ptrace_access_check(context: FExitContext) -> i32 {
    if argument(&context, 1) & NO_AUDIT != 0 {
        return 0;
    }
    tell_nameless(&TOLD_PTRACE_ACCESS_CHECK, &context)
}

#[fexit(function = "security_task_kill")]
pub(crate) fn told_task_kill(context: FExitContext) -> i32 {
    tell_nameless(&TOLD_TASK_KILL, &context)
}

#[fexit(function = "security_unix_stream_connect")]
pub(crate) fn told_unix_stream_connect(context: FExitContext) -> i32 {
    tell_nameless(&TOLD_UNIX_STREAM_CONNECT, &context)
}

#[fexit(function = "security_unix_may_send")]
pub(crate) fn told_unix_may_send(context: FExitContext) -> i32 {
    tell_nameless(&TOLD_UNIX_MAY_SEND, &context)
}
