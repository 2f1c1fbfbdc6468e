//! A file cut by its name.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::decide,
    object::{argument, load},
    walk,
};
use crate::maps::PATH_DENTRY;

#[lsm(hook = "path_truncate")]
pub(crate) fn path_truncate(context: LsmContext) -> i32 {
    decide(&hooks::PATH_TRUNCATE, |subject| {
        let path: u64 = argument(&context, 0);
        walk::inside(load(path, &PATH_DENTRY), subject, hooks::WRITE)
    })
}
