//! A new process or thread gets its maker's label, before it runs. Also the kernel's workers that act for a task.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::{abi::LabelValue, hooks};

use super::{
    decide::count,
    object::argument,
    subject::{current_task, label_of},
};
use crate::maps::LABELS;

#[lsm(hook = "task_alloc")]
pub(crate) fn task_alloc(context: LsmContext) -> i32 {
    let sandbox = label_of(current_task());
    if sandbox == 0 {
        return 0;
    }
    if LABELS
        .give(
            argument(&context, 0),
            LabelValue {
                sandbox,
                told: 0,
                refused: 0,
            },
        )
        .is_null()
    {
        count(&hooks::TASK_ALLOC, true);
        return -12;
    }
    count(&hooks::TASK_ALLOC, false);
    0
}
