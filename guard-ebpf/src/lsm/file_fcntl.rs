//! Whom the kernel sends a signal to when a descriptor is ready: nobody, since it would not be asked then whether it may.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_KIND};

use super::{
    decide::{Verdict, decide_nameless},
    object::argument,
};

const F_SETOWN: u64 = 8;
const F_SETOWN_EX: u64 = 15;
/// The kernel looks at half of what the caller gives.
const COMMAND: u64 = 0xffff_ffff;

#[lsm(hook = "file_fcntl")]
pub(crate) fn file_fcntl(context: LsmContext) -> i32 {
    decide_nameless(&hooks::FILE_FCNTL, |_| {
        let command: u64 = argument(&context, 1);
        let command = command & COMMAND;
        if command == F_SETOWN || command == F_SETOWN_EX {
            return Verdict::deny(REASON_KIND).detail(command);
        }
        Verdict::ALLOW
    })
}
