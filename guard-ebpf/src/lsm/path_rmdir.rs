//! A directory removed, decided by the one it is in.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::decide,
    object::{argument, load},
    walk,
};
use crate::maps::PATH_DENTRY;

#[lsm(hook = "path_rmdir")]
pub(crate) fn path_rmdir(context: LsmContext) -> i32 {
    decide(&hooks::PATH_RMDIR, |subject| {
        let parent: u64 = argument(&context, 0);
        walk::inside(load(parent, &PATH_DENTRY), subject, hooks::WRITE).of(argument(&context, 1))
    })
}
