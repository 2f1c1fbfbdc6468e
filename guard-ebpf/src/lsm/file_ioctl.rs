//! Commands that type into a terminal, whoever's it is.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_KIND};

use super::{
    decide::{Verdict, decide_nameless},
    object::argument,
};

const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
/// The kernel looks at half of what the caller gives.
const COMMAND: u64 = 0xffff_ffff;

#[lsm(hook = "file_ioctl")]
pub(crate) fn file_ioctl(context: LsmContext) -> i32 {
    decide_nameless(&hooks::FILE_IOCTL, |_| {
        let command: u64 = argument(&context, 1);
        let command = command & COMMAND;
        if command == TIOCSTI || command == TIOCLINUX {
            return Verdict::deny(REASON_KIND).detail(command);
        }
        Verdict::ALLOW
    })
}
