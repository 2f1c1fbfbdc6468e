//! How a root becomes known: the warden looks at it through the descriptor it holds, and what it looks at is enrolled
//! by what it is. No path and no number of the host half's is believed.

use aya_ebpf::helpers::generated::bpf_get_current_pid_tgid;
use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::abi::{
    PENDING_DONE, PENDING_FULL, PENDING_UNREADABLE, PENDING_WANTED, PendingValue, RootKey, RootValue,
};

use super::{
    object::{argument, load},
    subject::current_task,
    walk,
};
use crate::maps::{
    DENTRY_INODE, INODE_GENERATION, INODE_INO, INODE_SB, PATH_DENTRY, PENDING, ROOTS, SB_DEV, TASK_CRED,
    TASK_REAL_CRED, WARDEN,
};

#[lsm(hook = "inode_getattr")]
pub(crate) fn inode_getattr(context: LsmContext) -> i32 {
    // SAFETY: the helper takes nothing.
    let thread = unsafe { bpf_get_current_pid_tgid() };
    if thread >> 32 == WARDEN.load() {
        let path: u64 = argument(&context, 0);
        enrol(load(path, &PATH_DENTRY), thread);
    }
    0
}

#[inline(always)]
pub(crate) fn enrol(dentry: u64, thread: u64) {
    let task = current_task();
    // A filesystem that looks at another one underneath, with credentials of its own: that one is not meant.
    if load::<u64>(task, &TASK_CRED) != load::<u64>(task, &TASK_REAL_CRED) {
        return;
    }
    let Some(pending) = PENDING.get_ptr_mut(&thread) else {
        return;
    };
    let pending: *mut PendingValue = pending;
    // SAFETY: a live map value of this type; between the warden's two looks at it only its own thread, which is here,
    // writes it.
    let wanted = unsafe { pending.read_volatile() };
    if wanted.state != PENDING_WANTED {
        return;
    }
    let inode: u64 = load(dentry, &DENTRY_INODE);
    if inode == 0 {
        set(pending, PENDING_UNREADABLE);
        return;
    }
    let block: u64 = load(inode, &INODE_SB);
    let key = RootKey {
        inode,
        sandbox: wanted.sandbox,
    };
    // One object by two paths has the rights of both. What it lies in is another one's: the nearest root decides.
    let before = walk::enrolled(inode, wanted.sandbox);
    let root = RootValue {
        ino: load(inode, &INODE_INO),
        dev: load(block, &SB_DEV),
        generation: load(inode, &INODE_GENERATION),
        rights: wanted.rights | before.rights,
        named: wanted.named | before.named,
    };
    if ROOTS.insert(&key, &root, 0).is_err() {
        set(pending, PENDING_FULL);
        return;
    }
    // SAFETY: as above.
    unsafe {
        (&raw mut (*pending).inode).write_volatile(inode);
        (&raw mut (*pending).ino).write_volatile(root.ino);
        (&raw mut (*pending).dev).write_volatile(root.dev);
        (&raw mut (*pending).generation).write_volatile(root.generation);
        (&raw mut (*pending).rights).write_volatile(root.rights);
        (&raw mut (*pending).named).write_volatile(root.named);
    }
    set(pending, PENDING_DONE);
}

#[inline(always)]
fn set(pending: *mut PendingValue, state: u32) {
    // SAFETY: a live map value of this type, written by its own thread alone.
    unsafe { (&raw mut (*pending).state).write_volatile(state) };
}
