//! What another security module refused to a sandbox before our hooks were asked: Landlock stands before them. Each
//! program runs at the end of the kernel's function that asks all modules, sees what came of it and changes nothing.
//!
//! They run for every task of the host, so what came of it is looked at first: who is refused nothing pays for that.
//! Which functions there are, and why those, is in `guard_common::told`.

mod files;
mod names;
mod others;

use aya_ebpf::{EbpfContext, programs::FExitContext};
use guard_common::{
    abi::{SANDBOX_OBSERVE, SANDBOX_STAMP, SLOT_COUNT},
    told::Told,
    verdict::{BY_ANOTHER, VerdictRecord},
};

use crate::{
    lsm::{Verdict, argument, current_task, fill, load},
    maps::{LABELS, SANDBOXES, TASK_CRED, TASK_REAL_CRED},
    ring::emit,
    scope::Sandbox,
};

/// The kernel's largest error.
const MOST: u32 = 4095;

/// Tells of a refusal that an object with names may be about.
#[inline(always)]
fn tell(told: &Told, context: &FExitContext, what: impl FnOnce() -> Verdict) -> i32 {
    refused::<true>(told, context, what);
    0
}

/// The same where no object has a name.
#[inline(always)]
fn tell_nameless(told: &Told, context: &FExitContext) -> i32 {
    refused::<false>(told, context, || Verdict::ALLOW);
    0
}

#[inline(always)]
fn refused<const NAMED: bool>(told: &Told, context: &impl EbpfContext, what: impl FnOnce() -> Verdict) {
    // What it returned, an `int`, stands behind its arguments.
    let errno = (argument(context, told.arguments) as u32).wrapping_neg();
    if errno == 0 || errno > MOST {
        return;
    }
    let Some(sandbox) = sandbox(told) else { return };
    let verdict = what();
    emit::<VerdictRecord>(&sandbox, false, |record| {
        fill::<NAMED>(record, told.hook, errno as u16, BY_ANOTHER, &verdict)
    });
}

/// The current task's sandbox, if it is observed and this refusal is not told by the hook's own program.
///
/// By its label alone: who was only put into a sandbox's cgroup has none, and nothing of ours confines it.
#[inline(always)]
fn sandbox(told: &Told) -> Option<Sandbox> {
    let task = current_task();
    let label = LABELS.of(task);
    if label.is_null() {
        return None;
    }
    // SAFETY: a live value of this type; only its own task writes these fields.
    let (cgroup, ours) = unsafe {
        let field = &raw mut (*label).refused;
        let ours = field.read_volatile() == u32::from(told.hook.id);
        if ours {
            field.write_volatile(0);
        }
        ((&raw const (*label).sandbox).read_volatile(), ours)
    };
    // With other credentials it is the kernel that acts, as the hooks' own programs have it.
    if ours || load::<u64>(task, &TASK_CRED) != load::<u64>(task, &TASK_REAL_CRED) {
        return None;
    }
    let value = SANDBOXES.get_ptr(&cgroup)?;
    // SAFETY: `value` points at a live map value of this type; the host half replaces it as a whole.
    let (slot, flags) = unsafe {
        (
            (&raw const (*value).slot).read_volatile(),
            (&raw const (*value).flags).read_volatile(),
        )
    };
    if flags & SANDBOX_OBSERVE == 0 || slot >= SLOT_COUNT as u32 {
        return None;
    }
    // The end of the call is not to be told, too.
    // SAFETY: as above.
    unsafe { (&raw mut (*label).told).write_volatile(1) };
    Some(Sandbox {
        cgroup,
        slot,
        stamped: flags & SANDBOX_STAMP != 0,
    })
}
