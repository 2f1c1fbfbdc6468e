//! A file, a socket, a pipe: before it is made. No devices.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_DEVICE, REASON_SET_ID};

use super::{
    decide::{Verdict, decide},
    object::{argument, load},
    path_chmod::SET_ID,
    walk,
};
use crate::maps::PATH_DENTRY;

const KIND: u64 = 0o170_000;
const CHARACTER_DEVICE: u64 = 0o020_000;
const BLOCK_DEVICE: u64 = 0o060_000;

#[lsm(hook = "path_mknod")]
pub(crate) fn path_mknod(context: LsmContext) -> i32 {
    decide(&hooks::PATH_MKNOD, |subject| {
        let parent: u64 = argument(&context, 0);
        let new: u64 = argument(&context, 1);
        let mode: u64 = argument(&context, 2);
        if mode & SET_ID != 0 {
            return Verdict::deny(REASON_SET_ID).about(new).detail(mode & 0o7777);
        }
        let kind = mode & KIND;
        if kind == CHARACTER_DEVICE || kind == BLOCK_DEVICE {
            return Verdict::deny(REASON_DEVICE)
                .about(new)
                .detail(mode & (KIND | 0o7777));
        }
        walk::inside(load(parent, &PATH_DENTRY), subject, hooks::WRITE).of(new)
    })
}
