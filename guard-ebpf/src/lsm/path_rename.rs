//! A file moved, or two exchanged. Both places must be writable, and what is moved must not come to where more may be
//! done with it: data into a directory whose programs may be run.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_GAIN};

use super::{
    decide::{Verdict, decide},
    object::{argument, load},
    subject::Subject,
    walk,
};
use crate::maps::PATH_DENTRY;

const RENAME_EXCHANGE: u64 = 2;

#[lsm(hook = "path_rename")]
pub(crate) fn path_rename(context: LsmContext) -> i32 {
    decide(&hooks::PATH_RENAME, |subject| {
        let (from, old): (u64, u64) = (argument(&context, 0), argument(&context, 1));
        let (to, new): (u64, u64) = (argument(&context, 2), argument(&context, 3));
        let flags: u64 = argument(&context, 4);
        let (from, to): (u64, u64) = (load(from, &PATH_DENTRY), load(to, &PATH_DENTRY));
        // Its name is taken away there.
        let taken = walk::inside(from, subject, hooks::WRITE).of(old);
        if taken.reason != 0 {
            return taken;
        }
        let there = no_gain(old, to, subject);
        if there.reason != 0 || flags & RENAME_EXCHANGE == 0 {
            return there;
        }
        no_gain(new, from, subject)
    })
}

/// Whether an object may get a name in a directory.
#[inline(always)]
pub(super) fn no_gain(object: u64, directory: u64, subject: &Subject) -> Verdict {
    let before = walk::rights(object, subject.sandbox);
    let reason = before.refuses(hooks::WRITE, subject);
    if reason != 0 {
        return Verdict::deny(reason)
            .about(object)
            .rights(hooks::WRITE, before.all());
    }
    let after = walk::rights(directory, subject.sandbox);
    let reason = after.refuses(hooks::WRITE, subject);
    if reason != 0 {
        return Verdict::deny(reason)
            .about(directory)
            .rights(hooks::WRITE, after.all());
    }
    // Whatever calls there are: it stays there longer than they last.
    if after.all() & !before.all() != 0 {
        return Verdict::deny(REASON_GAIN)
            .about(object)
            .rights(after.all(), before.all());
    }
    Verdict::ALLOW
}
