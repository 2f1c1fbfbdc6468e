//! Commands to a device or a filesystem: those that type into a terminal, whoever's it is, those that have somebody else
//! told, and those that change what may only be read.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, Hook, REASON_KIND};

use super::{
    decide::{Verdict, decide},
    object::{argument, load},
    walk,
};
use crate::maps::FILE_DENTRY;

const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
/// The kernel looks at half of what the caller gives.
const COMMAND: u64 = 0xffff_ffff;

#[lsm(hook = "file_ioctl")]
pub(crate) fn file_ioctl(context: LsmContext) -> i32 {
    command(&hooks::FILE_IOCTL, &context)
}

/// The same by a call of 32 bits.
#[lsm(hook = "file_ioctl_compat")]
pub(crate) fn file_ioctl_compat(context: LsmContext) -> i32 {
    command(&hooks::FILE_IOCTL_COMPAT, &context)
}

#[inline(always)]
fn command(hook: &Hook, context: &LsmContext) -> i32 {
    decide(hook, |subject| {
        let file: u64 = argument(context, 0);
        let command: u64 = argument(context, 1);
        let command = command & COMMAND;
        if matches!(command, TIOCSTI | TIOCLINUX | FIOSETOWN | SIOCSPGRP) {
            return Verdict::deny(REASON_KIND).detail(command);
        }
        if only_asks(command) {
            return Verdict::ALLOW;
        }
        walk::inside(load(file, &FILE_DENTRY), subject, hooks::WRITE).detail(command)
    })
}

/// What a file that is only read answers, too: whether it is a terminal, how much there is to read, where its blocks
/// and what its flags are; and what changes nothing but the descriptor.
#[inline(always)]
fn only_asks(command: u64) -> bool {
    matches!(
        command,
        0x2 | 0x5401
            | 0x540f
            | 0x5413
            | 0x541b
            | 0x5421
            | 0x5450
            | 0x5451
            | 0x5452
            | 0x5460
            | 0x802c_542a
            | 0x8004_6601
            | 0x8008_6601
            | 0x8004_7601
            | 0x8008_7601
            | 0x801c_581f
            | 0xc020_660b
    )
}
