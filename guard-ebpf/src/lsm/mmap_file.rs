//! A file mapped as code: how a program is run through the loader, and a library brought in.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks;

use super::{
    decide::{Verdict, decide},
    object::{argument, load},
    walk,
};
use crate::maps::FILE_DENTRY;

pub(super) const PROT_EXEC: u64 = 4;

#[lsm(hook = "mmap_file")]
pub(crate) fn mmap_file(context: LsmContext) -> i32 {
    decide(&hooks::MMAP_FILE, |subject| {
        let file: u64 = argument(&context, 0);
        let protection: u64 = argument(&context, 2);
        // Memory without a file: what a runtime compiles there is its own.
        if file == 0 || protection & PROT_EXEC == 0 {
            return Verdict::ALLOW;
        }
        walk::inside(load(file, &FILE_DENTRY), subject, hooks::MAP)
    })
}
