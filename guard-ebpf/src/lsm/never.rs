//! What no sandbox does, whatever it is about. The table says of each what it would be good for.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, Hook, REASON_NEVER};

use super::decide::{Verdict, decide_nameless};

#[inline(always)]
fn never(hook: &Hook) -> i32 {
    decide_nameless(hook, |_| Verdict::deny(REASON_NEVER))
}

#[lsm(hook = "path_chroot")]
pub(crate) fn path_chroot(_context: LsmContext) -> i32 {
    never(&hooks::PATH_CHROOT)
}

#[lsm(hook = "sb_mount")]
pub(crate) fn sb_mount(_context: LsmContext) -> i32 {
    never(&hooks::SB_MOUNT)
}

#[lsm(hook = "sb_umount")]
pub(crate) fn sb_umount(_context: LsmContext) -> i32 {
    never(&hooks::SB_UMOUNT)
}

#[lsm(hook = "sb_remount")]
pub(crate) fn sb_remount(_context: LsmContext) -> i32 {
    never(&hooks::SB_REMOUNT)
}

#[lsm(hook = "sb_pivotroot")]
pub(crate) fn sb_pivotroot(_context: LsmContext) -> i32 {
    never(&hooks::SB_PIVOTROOT)
}

#[lsm(hook = "move_mount")]
pub(crate) fn move_mount(_context: LsmContext) -> i32 {
    never(&hooks::MOVE_MOUNT)
}

#[lsm(hook = "userns_create")]
pub(crate) fn userns_create(_context: LsmContext) -> i32 {
    never(&hooks::USERNS_CREATE)
}

#[lsm(hook = "bpf")]
pub(crate) fn bpf(_context: LsmContext) -> i32 {
    never(&hooks::BPF)
}

#[lsm(hook = "bpf_map")]
pub(crate) fn bpf_map(_context: LsmContext) -> i32 {
    never(&hooks::BPF_MAP)
}

#[lsm(hook = "bpf_prog")]
pub(crate) fn bpf_prog(_context: LsmContext) -> i32 {
    never(&hooks::BPF_PROG)
}

#[lsm(hook = "perf_event_open")]
pub(crate) fn perf_event_open(_context: LsmContext) -> i32 {
    never(&hooks::PERF_EVENT_OPEN)
}

#[lsm(hook = "uring_override_creds")]
pub(crate) fn uring_override_creds(_context: LsmContext) -> i32 {
    never(&hooks::URING_OVERRIDE_CREDS)
}

#[lsm(hook = "uring_sqpoll")]
pub(crate) fn uring_sqpoll(_context: LsmContext) -> i32 {
    never(&hooks::URING_SQPOLL)
}

#[lsm(hook = "uring_cmd")]
pub(crate) fn uring_cmd(_context: LsmContext) -> i32 {
    never(&hooks::URING_CMD)
}

#[lsm(hook = "uring_allowed")]
pub(crate) fn uring_allowed(_context: LsmContext) -> i32 {
    never(&hooks::URING_ALLOWED)
}

#[lsm(hook = "kernel_module_request")]
pub(crate) fn kernel_module_request(_context: LsmContext) -> i32 {
    never(&hooks::KERNEL_MODULE_REQUEST)
}

#[lsm(hook = "kernel_read_file")]
pub(crate) fn kernel_read_file(_context: LsmContext) -> i32 {
    never(&hooks::KERNEL_READ_FILE)
}

#[lsm(hook = "kernel_load_data")]
pub(crate) fn kernel_load_data(_context: LsmContext) -> i32 {
    never(&hooks::KERNEL_LOAD_DATA)
}

#[lsm(hook = "syslog")]
pub(crate) fn syslog(_context: LsmContext) -> i32 {
    never(&hooks::SYSLOG)
}

#[lsm(hook = "settime")]
pub(crate) fn settime(_context: LsmContext) -> i32 {
    never(&hooks::SETTIME)
}

#[lsm(hook = "quotactl")]
pub(crate) fn quotactl(_context: LsmContext) -> i32 {
    never(&hooks::QUOTACTL)
}

#[lsm(hook = "key_alloc")]
pub(crate) fn key_alloc(_context: LsmContext) -> i32 {
    never(&hooks::KEY_ALLOC)
}

#[lsm(hook = "key_permission")]
pub(crate) fn key_permission(_context: LsmContext) -> i32 {
    never(&hooks::KEY_PERMISSION)
}
