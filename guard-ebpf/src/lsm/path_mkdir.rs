//! A directory, decided by the one it is made in.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_SET_ID};

use super::{
    decide::{Verdict, decide},
    object::{argument, load},
    path_chmod::SET_ID,
    walk,
};
use crate::maps::PATH_DENTRY;

#[lsm(hook = "path_mkdir")]
pub(crate) fn path_mkdir(context: LsmContext) -> i32 {
    decide(&hooks::PATH_MKDIR, |subject| {
        let parent: u64 = argument(&context, 0);
        let new: u64 = argument(&context, 1);
        let mode: u64 = argument(&context, 2);
        if mode & SET_ID != 0 {
            return Verdict::deny(REASON_SET_ID).about(new).detail(mode & 0o7777);
        }
        walk::inside(load(parent, &PATH_DENTRY), subject, hooks::WRITE).of(new)
    })
}
