//! Where an object lies: from its own entry up to the root of its filesystem, never across a mount and never by a
//! name. What was enrolled on the way says what may be done.

use guard_common::{
    abi::{RootKey, RootValue},
    hooks::{EXECUTE, MAP, REASON_DEPTH, REASON_NOT_A_FILE, REASON_OUTSIDE, REASON_RIGHTS},
};

use super::{decide::Verdict, object::load, subject::Subject};
use crate::maps::{
    DENTRY_INODE, DENTRY_PARENT, DENTRY_SB, INODE_GENERATION, INODE_INO, INODE_SB, ROOTS, SB_DEV, SB_FLAGS,
};

/// Levels that are looked at; what lies deeper is refused.
const LEVELS: u32 = 256;
/// `SB_NOUSER`: pipes, sockets, anonymous and memory files, which no name leads to.
const NO_USER: u64 = 1 << 31;

/// What was found above an object.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) rights: u32,
    /// The root of the filesystem was not reached.
    pub(super) deep: bool,
}

impl Found {
    const NOTHING: Self = Self {
        rights: 0,
        deep: false,
    };
}

/// Whether no name leads to an object: a pipe, a socket, a memory file.
#[inline(always)]
pub(super) fn is_nameless(dentry: u64) -> bool {
    let block: u64 = load(dentry, &DENTRY_SB);
    load::<u64>(block, &SB_FLAGS) & NO_USER != 0
}

/// The rights of an object that is enrolled itself, 0 for another.
#[inline(always)]
pub(super) fn enrolled(inode: u64, sandbox: u64) -> u32 {
    let Some(root) = ROOTS.get_ptr(&RootKey { inode, sandbox }) else {
        return 0;
    };
    // SAFETY: a live map value of this type.
    let root: RootValue = unsafe { root.read_volatile() };
    confirmed(&root, inode)
}

/// The rights of the nearest root that an object lies in.
#[inline(always)]
pub(super) fn rights(dentry: u64, sandbox: u64) -> Found {
    let mut at = dentry;
    for _ in 0..LEVELS {
        let inode: u64 = load(at, &DENTRY_INODE);
        if let Some(root) = ROOTS.get_ptr(&RootKey { inode, sandbox }) {
            // SAFETY: a live map value of this type.
            let root: RootValue = unsafe { root.read_volatile() };
            return Found {
                rights: confirmed(&root, inode),
                deep: false,
            };
        }
        let parent: u64 = load(at, &DENTRY_PARENT);
        if parent == at {
            return Found::NOTHING;
        }
        at = parent;
    }
    Found {
        rights: 0,
        deep: true,
    }
}

/// The rights of a root, none when the inode is another one that took its place in memory.
#[inline(always)]
fn confirmed(root: &RootValue, inode: u64) -> u32 {
    // No root was enrolled without one.
    if inode == 0 {
        return 0;
    }
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
        if needs & (EXECUTE | MAP) != 0 {
            return Verdict::deny(REASON_NOT_A_FILE).about(dentry).rights(needs, 0);
        }
        return Verdict::ALLOW;
    }
    let found = rights(dentry, subject.sandbox);
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
