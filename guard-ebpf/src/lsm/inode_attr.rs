//! Extended attributes, access lists and flags of a file: changed by who may write to it.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, Hook, REASON_UNREADABLE};

use super::{
    decide::{Verdict, decide},
    object::argument,
    walk,
};
use crate::maps::{REMOVEXATTR_DENTRY, SETXATTR_DENTRY};

#[lsm(hook = "inode_setxattr")]
pub(crate) fn inode_setxattr(context: LsmContext) -> i32 {
    changed(&hooks::INODE_SETXATTR, &context, SETXATTR_DENTRY.load())
}

#[lsm(hook = "inode_removexattr")]
pub(crate) fn inode_removexattr(context: LsmContext) -> i32 {
    changed(&hooks::INODE_REMOVEXATTR, &context, REMOVEXATTR_DENTRY.load())
}

#[lsm(hook = "inode_set_acl")]
pub(crate) fn inode_set_acl(context: LsmContext) -> i32 {
    changed(&hooks::INODE_SET_ACL, &context, 1)
}

#[lsm(hook = "inode_remove_acl")]
pub(crate) fn inode_remove_acl(context: LsmContext) -> i32 {
    changed(&hooks::INODE_REMOVE_ACL, &context, 1)
}

#[lsm(hook = "inode_file_setattr")]
pub(crate) fn inode_file_setattr(context: LsmContext) -> i32 {
    changed(&hooks::INODE_FILE_SETATTR, &context, 0)
}

/// Both are read first: a place that is chosen would be an address within the context, which the verifier takes no load
/// from. The slot is a constant to it, so that it knows which value is used.
#[inline(always)]
fn changed(hook: &Hook, context: &LsmContext, slot: u64) -> i32 {
    decide(hook, |subject| {
        let (first, second) = (argument(context, 0), argument(context, 1));
        let dentry = if slot == 0 {
            first
        } else if slot == 1 {
            second
        } else {
            return Verdict::deny(REASON_UNREADABLE);
        };
        walk::inside(dentry, subject, hooks::WRITE)
    })
}
