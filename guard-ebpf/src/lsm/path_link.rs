//! A second name for a file.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::decide,
    object::{argument, load},
    path_rename::no_gain,
};
use crate::maps::PATH_DENTRY;

#[lsm(hook = "path_link")]
pub(crate) fn path_link(context: LsmContext) -> i32 {
    decide(&hooks::PATH_LINK, |subject| {
        let old: u64 = argument(&context, 0);
        let parent: u64 = argument(&context, 1);
        no_gain(old, load(parent, &PATH_DENTRY), subject)
    })
}
