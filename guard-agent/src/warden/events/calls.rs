//! What the arguments of a system call mean for a record: what it does, which arguments tell it from another, what
//! it is called.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use guard_common::syscalls::Call;

use crate::confine::seccomp::names;

/// What a call does, as far as it is reported differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Open,
    Exec,
    /// Of a file.
    Map,
    /// Of memory that is there already.
    Protect,
    /// What its second path says is a text; nothing is looked up by it.
    Symlink,
    Other,
}

pub(super) fn act(nr: u32) -> Act {
    match i64::from(nr) {
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => Act::Open,
        libc::SYS_execve | libc::SYS_execveat => Act::Exec,
        libc::SYS_mmap => Act::Map,
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => Act::Protect,
        libc::SYS_symlink | libc::SYS_symlinkat => Act::Symlink,
        _ => Act::Other,
    }
}

/// The name of a call in records: `open` and `exec` for all ways to do these, else the system call's own.
pub(super) fn operation(nr: u32) -> Cow<'static, str> {
    match act(nr) {
        Act::Open => "open".into(),
        Act::Exec => "exec".into(),
        _ => names::name(nr).map_or_else(|| format!("syscall-{nr}").into(), Cow::Borrowed),
    }
}

/// The flags of `creat`, which has no argument for them.
const CREAT: i32 = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
/// The bits of open flags that say what is wanted.
const WANTED: i32 = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
const LOW: u64 = u32::MAX as u64;

/// Where `open`'s flags stand. Those of `openat2` stand in memory.
fn flags_at(nr: u32) -> Option<usize> {
    match i64::from(nr) {
        libc::SYS_open => Some(1),
        libc::SYS_openat => Some(2),
        _ => None,
    }
}

/// The arguments that make two attempts different beside their paths; the others are set to zero, so that an address
/// that changes does not make a new attempt.
pub(super) fn telling(nr: u32, call: &Call, args: &[u64; 6], relative: bool) -> [u64; 6] {
    let mut kept = [0; 6];
    let mut keep = |at: usize, mask: u64| {
        if let (Some(to), Some(from)) = (kept.get_mut(at), args.get(at)) {
            *to = from & mask;
        }
    };
    if let Some(at) = flags_at(nr) {
        keep(at, WANTED as u64);
    }
    if relative {
        for at in [call.dirfd, call.second_dirfd].into_iter().flatten() {
            keep(usize::from(at), LOW);
        }
    }
    match i64::from(nr) {
        libc::SYS_mmap => {
            keep(PROTECTION, 7);
            keep(MAPPED, LOW);
        }
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => keep(PROTECTION, 7),
        // Whom, and with which signal.
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_rt_sigqueueinfo | libc::SYS_pidfd_send_signal => {
            keep(0, LOW);
            keep(1, LOW);
        }
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => {
            keep(1, LOW);
            keep(2, LOW);
        }
        libc::SYS_ptrace => {
            keep(0, LOW);
            keep(1, LOW);
        }
        libc::SYS_process_vm_readv
        | libc::SYS_process_vm_writev
        | libc::SYS_pidfd_open
        | libc::SYS_pidfd_getfd => {
            keep(0, LOW);
        }
        libc::SYS_socket => {
            keep(0, LOW);
            keep(1, LOW);
            keep(2, LOW);
        }
        _ => {}
    }
    kept
}

/// Which argument of `mmap` and `mprotect` is the protection, which of `mmap` the file.
pub(super) const PROTECTION: usize = 2;
pub(super) const MAPPED: usize = 4;

/// What an open or exec wanted: `r`, `w`, `x`, and `c`, `t` where it would create or cut.
pub(super) fn rights_wanted(nr: u32, args: &[u64; 6]) -> Option<&'static str> {
    let flags = match (act(nr), flags_at(nr)) {
        (Act::Exec, _) => return Some("x"),
        (Act::Open, Some(at)) => (args.get(at)? & WANTED as u64) as i32,
        _ if i64::from(nr) == libc::SYS_creat => CREAT,
        _ => return None,
    };
    let (create, cut) = (flags & libc::O_CREAT != 0, flags & libc::O_TRUNC != 0);
    Some(match (flags & libc::O_ACCMODE, create, cut) {
        (libc::O_RDONLY, false, false) => "r",
        (libc::O_RDONLY, true, false) => "rc",
        (libc::O_RDONLY, false, true) => "rt",
        (libc::O_RDONLY, true, true) => "rct",
        (libc::O_WRONLY, false, false) => "w",
        (libc::O_WRONLY, true, false) => "wc",
        (libc::O_WRONLY, false, true) => "wt",
        (libc::O_WRONLY, true, true) => "wct",
        (_, false, false) => "rw",
        (_, true, false) => "rwc",
        (_, false, true) => "rwt",
        (_, true, true) => "rwct",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(call: libc::c_long) -> u32 {
        u32::try_from(call).unwrap()
    }

    #[test]
    fn opens_are_told_apart_by_what_they_want() {
        let nr = number(libc::SYS_openat);
        let want = |flags: i32| rights_wanted(nr, &[0, 0, flags as u64, 0, 0, 0]).unwrap();
        assert_eq!(want(libc::O_RDONLY | libc::O_CLOEXEC), "r");
        assert_eq!(want(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC), "wct");
        assert_eq!(want(libc::O_RDWR | libc::O_APPEND), "rw");
        assert_eq!(rights_wanted(number(libc::SYS_creat), &[0; 6]), Some("wct"));
        assert_eq!(rights_wanted(number(libc::SYS_unlink), &[0; 6]), None);
        let call = Call::find(nr).unwrap();
        let args = [u64::MAX, 77, (libc::O_RDWR | libc::O_CLOEXEC) as u64, 0o600, 9, 9];
        assert_eq!(telling(nr, call, &args, false), [0, 0, 2, 0, 0, 0]);
        assert_eq!(telling(nr, call, &args, true), [LOW, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn operations_have_their_names() {
        for (call, name) in [
            (libc::SYS_open, "open"),
            (libc::SYS_openat, "open"),
            (libc::SYS_execveat, "exec"),
            (libc::SYS_unlinkat, "unlinkat"),
        ] {
            assert_eq!(operation(number(call)), name);
        }
        assert_eq!(operation(9999), "syscall-9999");
    }

    #[test]
    fn the_names_agree_with_the_table_of_the_kernel_half() {
        for call in guard_common::syscalls::CALLS {
            assert_eq!(names::name(call.nr), Some(call.name));
        }
    }
}
