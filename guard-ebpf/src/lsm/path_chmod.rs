//! Another mode. Never with a set-id bit: who executes the file is somebody else.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_SET_ID};

use super::{
    decide::{Verdict, decide},
    object::{argument, load},
    walk,
};
use crate::maps::PATH_DENTRY;

/// `S_ISUID | S_ISGID`
pub(super) const SET_ID: u64 = 0o6000;

#[lsm(hook = "path_chmod")]
pub(crate) fn path_chmod(context: LsmContext) -> i32 {
    decide(&hooks::PATH_CHMOD, |subject| {
        let path: u64 = argument(&context, 0);
        let mode: u64 = argument(&context, 1);
        let dentry = load(path, &PATH_DENTRY);
        if mode & SET_ID != 0 {
            return Verdict::deny(REASON_SET_ID).about(dentry).detail(mode & 0o7777);
        }
        walk::inside(dentry, subject, hooks::WRITE)
    })
}
