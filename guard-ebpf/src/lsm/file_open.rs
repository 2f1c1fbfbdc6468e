//! Opening, also to execute and to list. The object is the one that is opened, whatever led to it.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, Hook};

use super::{
    decide::decide,
    object::{argument, load},
    walk,
};
use crate::maps::{FILE_DENTRY, FILE_FLAGS, FILE_MODE};

const FMODE_READ: u32 = 1;
const FMODE_WRITE: u32 = 2;
/// A place and no more: nothing is done through it.
const FMODE_PATH: u32 = 0x4000;
/// `__FMODE_EXEC`, in the flags of a file that is opened to be executed.
const FOR_EXECUTION: u32 = 0x20;

#[lsm(hook = "file_open")]
pub(crate) fn file_open(context: LsmContext) -> i32 {
    decide(&hooks::FILE_OPEN, |subject| {
        let file: u64 = argument(&context, 0);
        walk::inside(load(file, &FILE_DENTRY), subject, needs(file))
    })
}

/// The verdict on reading an object, as if that hook had been asked.
#[inline(always)]
pub(crate) fn judge_read(hook: &Hook, dentry: impl FnOnce() -> u64) -> i32 {
    decide(hook, |subject| walk::inside(dentry(), subject, hooks::READ))
}

/// The rights that the mode of an open file stands for. One that is opened neither to read nor to write takes the
/// commands of its filesystem or device, which is why the kernel asks for both, too.
#[inline(always)]
pub(crate) fn needs(file: u64) -> u32 {
    let mode: u32 = load(file, &FILE_MODE);
    let execute = load::<u32>(file, &FILE_FLAGS) & FOR_EXECUTION;
    // By arithmetic alone: the verifier follows the walk anew for each value that it knows.
    let asked = mode & (FMODE_READ | FMODE_WRITE);
    let place = mode / FMODE_PATH & 1;
    let neither = !(asked | asked >> 1 | place) & 1;
    asked | neither * (hooks::READ | hooks::WRITE) | execute / FOR_EXECUTION * hooks::EXECUTE
}

const _: () = assert!(FMODE_READ == hooks::READ && FMODE_WRITE == hooks::WRITE);
