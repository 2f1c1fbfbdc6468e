//! A watch on a file: what others do with it.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::decide,
    object::{argument, load},
    walk,
};
use crate::maps::PATH_DENTRY;

#[lsm(hook = "path_notify")]
pub(crate) fn path_notify(context: LsmContext) -> i32 {
    decide(&hooks::PATH_NOTIFY, |subject| {
        let path: u64 = argument(&context, 0);
        walk::inside(load(path, &PATH_DENTRY), subject, hooks::READ)
    })
}
