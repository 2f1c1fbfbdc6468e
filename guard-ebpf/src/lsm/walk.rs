//! Where an object lies: from its own entry up to the root of its filesystem, never across a mount and never by a
//! name. What was enrolled on the way says what may be done.

use guard_common::{
    abi::{RootKey, RootValue},
    hooks::{
        EXECUTE, MAP, REASON_APPROVAL, REASON_DEPTH, REASON_NO_CALL, REASON_NOT_A_FILE, REASON_OUTSIDE,
        REASON_RIGHTS, REASON_UNREADABLE,
    },
};

use super::{decide::Verdict, object::load, subject::Subject};
use crate::{
    maps::{
        DENTRY_INODE, DENTRY_PARENT, DENTRY_SB, INODE_GENERATION, INODE_INO, INODE_SB, ROOTS, SB_DEV,
        SB_FLAGS,
    },
    stamp,
};

/// Levels that are looked at; what lies deeper is refused.
const LEVELS: u32 = 256;
/// `SB_NOUSER`: pipes, sockets, anonymous and memory files, which no name leads to.
const NO_USER: u64 = 1 << 31;

/// What was found above an object.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// Whatever calls there are.
    pub(super) rights: u32,
    /// As far as the stamp allows.
    pub(super) named: u32,
    /// The root of the filesystem was not reached.
    deep: bool,
}

impl Found {
    const NOTHING: Self = Self {
        rights: 0,
        named: 0,
        deep: false,
    };

    /// What the sandbox was launched with.
    #[inline(always)]
    pub(super) const fn all(&self) -> u32 {
        self.rights | self.named
    }

    /// Why an operation that needs these rights is refused; 0: it is not.
    #[inline(always)]
    pub(super) fn refuses(&self, needs: u32, subject: &Subject) -> u16 {
        let missing = needs & !self.rights;
        if missing == 0 {
            return 0;
        }
        if missing & !self.named != 0 {
            return self.lacking();
        }
        if !subject.is_stamped() {
            return 0;
        }
        let Some(mask) = stamp::mask(subject.slot) else {
            return REASON_UNREADABLE;
        };
        if missing & !mask != 0 {
            REASON_NO_CALL
        } else if missing & subject.withheld != 0 {
            REASON_APPROVAL
        } else {
            0
        }
    }

    /// Why the rights of the launch do not suffice.
    #[inline(always)]
    fn lacking(&self) -> u16 {
        if self.deep {
            REASON_DEPTH
        } else if self.all() == 0 {
            REASON_OUTSIDE
        } else {
            REASON_RIGHTS
        }
    }
}

/// Whether no name leads to an object: a pipe, a socket, a memory file.
#[inline(always)]
pub(super) fn is_nameless(dentry: u64) -> bool {
    let block: u64 = load(dentry, &DENTRY_SB);
    load::<u64>(block, &SB_FLAGS) & NO_USER != 0
}

/// What an object that is enrolled itself has, nothing of another.
#[inline(always)]
pub(super) fn enrolled(inode: u64, sandbox: u64) -> Found {
    let Some(root) = ROOTS.get_ptr(&RootKey { inode, sandbox }) else {
        return Found::NOTHING;
    };
    // SAFETY: a live map value of this type.
    let root: RootValue = unsafe { root.read_volatile() };
    confirmed(&root, inode)
}

/// What the nearest root that an object lies in gives.
#[inline(always)]
pub(super) fn rights(dentry: u64, sandbox: u64) -> Found {
    let mut at = dentry;
    for _ in 0..LEVELS {
        let inode: u64 = load(at, &DENTRY_INODE);
        if let Some(root) = ROOTS.get_ptr(&RootKey { inode, sandbox }) {
            // SAFETY: a live map value of this type.
            let root: RootValue = unsafe { root.read_volatile() };
            return confirmed(&root, inode);
        }
        let parent: u64 = load(at, &DENTRY_PARENT);
        if parent == at {
            return Found::NOTHING;
        }
        at = parent;
    }
    Found {
        deep: true,
        ..Found::NOTHING
    }
}

/// What a root gives, nothing when the inode is another one that took its place in memory.
#[inline(always)]
fn confirmed(root: &RootValue, inode: u64) -> Found {
    // No root was enrolled without one.
    if inode == 0 {
        return Found::NOTHING;
    }
    let block: u64 = load(inode, &INODE_SB);
    if root.ino != load::<u64>(inode, &INODE_INO)
        || root.generation != load::<u32>(inode, &INODE_GENERATION)
        || root.dev != load::<u32>(block, &SB_DEV)
    {
        return Found::NOTHING;
    }
    Found {
        rights: root.rights,
        named: root.named,
        deep: false,
    }
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
    let reason = found.refuses(needs, subject);
    if reason == 0 {
        return Verdict::ALLOW;
    }
    Verdict::deny(reason).about(dentry).rights(needs, found.all())
}
