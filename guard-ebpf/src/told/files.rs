//! Files that are open, or about to be.

use aya_ebpf::{macros::fexit, programs::FExitContext};
use guard_common::{
    hooks,
    told::{TOLD_FILE_IOCTL, TOLD_FILE_OPEN, TOLD_FILE_TRUNCATE},
};

use super::tell;
use crate::{
    lsm::{Verdict, argument, load, needs},
    maps::FILE_DENTRY,
};

/// The kernel looks at half of what the caller gives.
const COMMAND: u64 = 0xffff_ffff;

/// The object of an open file.
#[inline(always)]
fn about(file: u64, needs: u32) -> Verdict {
    Verdict::ALLOW.about(load(file, &FILE_DENTRY)).rights(needs, 0)
}

#[fexit(function = "security_file_open")]
pub(crate) fn told_file_open(context: FExitContext) -> i32 {
    tell(&TOLD_FILE_OPEN, &context, || {
        let file = argument(&context, 0);
        about(file, needs(file))
    })
}

#[fexit(function = "security_file_truncate")]
pub(crate) fn told_file_truncate(context: FExitContext) -> i32 {
    tell(&TOLD_FILE_TRUNCATE, &context, || {
        about(argument(&context, 0), hooks::WRITE)
    })
}

#[fexit(function = "security_file_ioctl")]
pub(crate) fn told_file_ioctl(context: FExitContext) -> i32 {
    tell(&TOLD_FILE_IOCTL, &context, || {
        let command = argument(&context, 1);
        about(argument(&context, 0), 0).detail(command & COMMAND)
    })
}
