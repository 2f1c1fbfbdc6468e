//! A symbolic link, decided by its directory. Where it points to is looked at by whoever follows it.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::decide,
    object::{argument, load},
    walk,
};
use crate::maps::PATH_DENTRY;

#[lsm(hook = "path_symlink")]
pub(crate) fn path_symlink(context: LsmContext) -> i32 {
    decide(&hooks::PATH_SYMLINK, |subject| {
        let parent: u64 = argument(&context, 0);
        walk::inside(load(parent, &PATH_DENTRY), subject, hooks::WRITE).of(argument(&context, 1))
    })
}
