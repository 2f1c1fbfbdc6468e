//! A signal, also the one that only asks whether somebody is there.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{decide::decide_nameless, object::argument, ptrace::same};

#[lsm(hook = "task_kill")]
pub(crate) fn task_kill(context: LsmContext) -> i32 {
    decide_nameless(&hooks::TASK_KILL, |subject| same(argument(&context, 0), subject))
}
