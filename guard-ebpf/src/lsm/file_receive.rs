//! An open file that another process hands over: as if it were opened here.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::decide,
    file_open::needs,
    object::{argument, load},
    walk,
};
use crate::maps::FILE_DENTRY;

#[lsm(hook = "file_receive")]
pub(crate) fn file_receive(context: LsmContext) -> i32 {
    decide(&hooks::FILE_RECEIVE, |subject| {
        let file: u64 = argument(&context, 0);
        walk::inside(load(file, &FILE_DENTRY), subject, needs(file))
    })
}
