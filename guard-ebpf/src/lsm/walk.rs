//! Where an object lies: from its own entry up to the root of its filesystem, never across a mount and never by a
//! name. What was enrolled on the way says what may be done.

use guard_common::{
    abi::{RootKey, RootValue},
    hooks::{REASON_DEPTH, REASON_NOT_A_FILE, REASON_OUTSIDE, REASON_RIGHTS},
};

use super::{decide::Verdict, object::load, subject::Subject};
use crate::maps::{
    DENTRY_INODE, DENTRY_PARENT, DENTRY_SB, INODE_GENERATION, INODE_INO, INODE_SB, ROOTS, SB_DEV, SB_FLAGS,
};

/// Levels that are looked at; what lies deeper is refused.
const LEVELS: u32 = 64;
/// `SB_NOUSER`: pipes, sockets, anonymous and memory files, which no name leads to.
const NO_USER: u64 = 1 << 31;

/// What was found above an object.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) rights: u32,
    /// The root of the filesystem was not reached.
    pub(super) deep: bool,
}

/// Whether no name leads to an object: a pipe, a socket, a memory file.
#[inline(always)]
pub(super) fn is_nameless(dentry: u64) -> bool {
    let block: u64 = load(dentry, &DENTRY_SB);
    load::<u64>(block, &SB_FLAGS) & NO_USER != 0
}

/// Adds up the rights of everything enrolled from the object upwards, until there are `enough`.
#[inline(always)]
pub(super) fn rights(dentry: u64, subject: &Subject, enough: u32) -> Found {
    let mut at = dentry;
    let mut rights = 0;
    for _ in 0..LEVELS {
        let inode: u64 = load(at, &DENTRY_INODE);
        rights |= enrolled(inode, subject.sandbox);
        if rights & enough == enough {
            return Found { rights, deep: false };
        }
        let parent: u64 = load(at, &DENTRY_PARENT);
        if parent == at {
            return Found { rights, deep: false };
        }
        at = parent;
    }
    Found { rights, deep: true }
}

/// The rights of a root of this sandbox, 0 for what is none.
#[inline(always)]
fn enrolled(inode: u64, sandbox: u64) -> u32 {
    if inode == 0 {
        return 0;
    }
    let Some(root) = ROOTS.get_ptr(&RootKey { inode, sandbox }) else {
        return 0;
    };
    // SAFETY: a live map value of this type.
    let root: RootValue = unsafe { root.read_volatile() };
    let block: u64 = load(inode, &INODE_SB);
    if root.ino != load::<u64>(inode, &INODE_INO)
        || root.generation != load::<u32>(inode, &INODE_GENERATION)
        || root.dev != load::<u32>(block, &SB_DEV)
    {
        return 0;
    }
    root.rights
}

/// The verdict on an operation that needs these rights on an object.
#[inline(always)]
pub(super) fn inside(dentry: u64, subject: &Subject, needs: u32) -> Verdict {
    if is_nameless(dentry) {
        if needs & guard_common::hooks::EXECUTE != 0 {
            return Verdict::deny(REASON_NOT_A_FILE).about(dentry).rights(needs, 0);
        }
        return Verdict::ALLOW;
    }
    let found = rights(dentry, subject, needs);
    if found.rights & needs == needs {
        return Verdict::ALLOW;
    }
    Verdict::deny(refusal(found))
        .about(dentry)
        .rights(needs, found.rights)
}

/// Why rights do not suffice.
#[inline(always)]
pub(super) fn refusal(found: Found) -> u16 {
    if found.deep {
        REASON_DEPTH
    } else if found.rights == 0 {
        REASON_OUTSIDE
    } else {
        REASON_RIGHTS
    }
}
