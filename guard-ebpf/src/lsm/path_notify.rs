//! A watch on a file: what others do with it. Never on all of a mount or a filesystem, of which a root is a part.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_KIND};

use super::{
    decide::{Verdict, decide},
    object::{argument, load},
    walk,
};
use crate::maps::PATH_DENTRY;

/// `FSNOTIFY_OBJ_TYPE_INODE`
const INODE: u64 = 0;
const NUMBER: u64 = 0xffff_ffff;

#[lsm(hook = "path_notify")]
pub(crate) fn path_notify(context: LsmContext) -> i32 {
    decide(&hooks::PATH_NOTIFY, |subject| {
        let path: u64 = argument(&context, 0);
        let kind: u64 = argument(&context, 2);
        let dentry = load(path, &PATH_DENTRY);
        if kind & NUMBER != INODE {
            return Verdict::deny(REASON_KIND).about(dentry).detail(kind & NUMBER);
        }
        walk::inside(dentry, subject, hooks::READ)
    })
}
