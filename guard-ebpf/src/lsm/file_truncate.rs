//! An open file that is cut: its descriptor may come from elsewhere.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::decide,
    object::{argument, load},
    walk,
};
use crate::maps::FILE_DENTRY;

#[lsm(hook = "file_truncate")]
pub(crate) fn file_truncate(context: LsmContext) -> i32 {
    decide(&hooks::FILE_TRUNCATE, |subject| {
        let file: u64 = argument(&context, 0);
        walk::inside(load(file, &FILE_DENTRY), subject, hooks::WRITE)
    })
}
