//! A verdict and what is told of it.

use guard_common::{
    abi::HitValue,
    hooks::{EPERM, Hook, REASON_UNKNOWN_SANDBOX},
};

use super::{
    subject::{Subject, subject},
    tell,
};
use crate::maps::HITS;

/// What a program thinks of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Verdict {
    /// 0: allowed.
    pub(super) reason: u16,
    /// The object, 0 for none.
    pub(super) dentry: u64,
    pub(super) needs: u32,
    pub(super) found: u32,
    pub(super) detail: u64,
}

impl Verdict {
    pub(crate) const ALLOW: Self = Self::deny(0);

    #[inline(always)]
    pub(crate) const fn deny(reason: u16) -> Self {
        Self {
            reason,
            dentry: 0,
            needs: 0,
            found: 0,
            detail: 0,
        }
    }

    #[inline(always)]
    pub(crate) const fn about(self, dentry: u64) -> Self {
        Self { dentry, ..self }
    }

    /// The same verdict, told of another object: of the new name instead of its directory.
    #[inline(always)]
    pub(super) fn of(self, dentry: u64) -> Self {
        Self { dentry, ..self }
    }

    #[inline(always)]
    pub(crate) const fn rights(self, needs: u32, found: u32) -> Self {
        Self { needs, found, ..self }
    }

    #[inline(always)]
    pub(crate) const fn detail(self, detail: u64) -> Self {
        Self { detail, ..self }
    }
}

/// Decides about an object for a task of a sandbox, counts and tells; 0 for everybody else.
#[inline(always)]
pub(super) fn decide(hook: &Hook, judge: impl FnOnce(&Subject) -> Verdict) -> i32 {
    judged::<true>(hook, judge)
}

/// The same where no object has a name.
#[inline(always)]
pub(super) fn decide_nameless(hook: &Hook, judge: impl FnOnce(&Subject) -> Verdict) -> i32 {
    judged::<false>(hook, judge)
}

/// Every value returned is a literal: the verifier takes none whose range it does not know.
#[inline(always)]
fn judged<const NAMED: bool>(hook: &Hook, judge: impl FnOnce(&Subject) -> Verdict) -> i32 {
    let Some(subject) = subject() else { return 0 };
    if !subject.known {
        count(hook, true);
        tell::refused::<false>(hook, &subject, &Verdict::deny(REASON_UNKNOWN_SANDBOX));
        return refusal(hook);
    }
    let verdict = judge(&subject);
    if verdict.reason == 0 {
        count(hook, false);
        return 0;
    }
    count(hook, true);
    tell::refused::<NAMED>(hook, &subject, &verdict);
    refusal(hook)
}

/// What the record says that the caller sees.
#[inline(always)]
fn refusal(hook: &Hook) -> i32 {
    if hook.errno == EPERM {
        return -1;
    }
    -13
}

/// Counts what a hook decided, for the proof that it is called.
#[inline(always)]
pub(super) fn count(hook: &Hook, denied: bool) {
    let Some(value) = HITS.get_ptr_mut(u32::from(hook.id)) else {
        return;
    };
    let value: *mut HitValue = value;
    // SAFETY: a live map value of this type; its counters are written here alone.
    unsafe {
        if denied {
            crate::ring::add(&raw mut (*value).denied, 1);
        } else {
            crate::ring::add(&raw mut (*value).allowed, 1);
        }
    }
}
