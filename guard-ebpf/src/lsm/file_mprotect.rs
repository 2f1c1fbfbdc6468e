//! A mapped file made code afterwards.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::{Verdict, decide},
    mmap_file::PROT_EXEC,
    object::{argument, load},
    walk,
};
use crate::maps::{FILE_DENTRY, VMA_FILE};

#[lsm(hook = "file_mprotect")]
pub(crate) fn file_mprotect(context: LsmContext) -> i32 {
    decide(&hooks::FILE_MPROTECT, |subject| {
        let area: u64 = argument(&context, 0);
        let protection: u64 = argument(&context, 2);
        if protection & PROT_EXEC == 0 {
            return Verdict::ALLOW;
        }
        let file: u64 = load(area, &VMA_FILE);
        if file == 0 {
            return Verdict::ALLOW;
        }
        walk::inside(load(file, &FILE_DENTRY), subject, hooks::MAP)
    })
}
