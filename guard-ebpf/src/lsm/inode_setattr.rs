//! Times, owner, mode and size, by whatever way: the hooks on paths do not see descriptors' `utimensat`.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_SET_ID, REASON_UNREADABLE};

use super::{
    decide::{Verdict, decide},
    object::{argument, load},
    path_chmod::SET_ID,
    walk,
};
use crate::maps::{IATTR_MODE, IATTR_VALID, SETATTR_DENTRY};

const ATTR_MODE: u32 = 1;

#[lsm(hook = "inode_setattr")]
pub(crate) fn inode_setattr(context: LsmContext) -> i32 {
    decide(&hooks::INODE_SETATTR, |subject| {
        // All are read first: a place that is chosen would be an address within the context, which the verifier
        // takes no load from. The slot is a constant to it, so that it knows which value is used.
        let (first, second, third) = (
            argument(&context, 0),
            argument(&context, 1),
            argument(&context, 2),
        );
        let slot = SETATTR_DENTRY.load();
        let (dentry, attributes) = if slot == 0 {
            (first, second)
        } else if slot == 1 {
            (second, third)
        } else {
            return Verdict::deny(REASON_UNREADABLE);
        };
        let valid: u32 = load(attributes, &IATTR_VALID);
        let mode = u64::from(load::<u16>(attributes, &IATTR_MODE));
        if valid & ATTR_MODE != 0 && mode & SET_ID != 0 {
            return Verdict::deny(REASON_SET_ID).about(dentry).detail(mode & 0o7777);
        }
        walk::inside(dentry, subject, hooks::WRITE)
    })
}
