//! Signal dispositions. An ignored signal stays ignored across `execve`: what a client ignores would reach our
//! roles and the server.

use std::{io, ptr};

use super::check;

/// The kernel's `struct sigaction`; libc's own does not let its two private real-time signals through.
#[repr(C)]
struct Action {
    handler: usize,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

fn reset(signal: libc::c_int) -> io::Result<()> {
    let default = Action {
        handler: libc::SIG_DFL,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    // SAFETY: `default` is a live local at least as large as the kernel's structure, and all zeros, which is the
    // default action in any layout of it; nothing is written back. No handler of this process is lost: it has none.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            ptr::from_ref(&default),
            ptr::null_mut::<Action>(),
            size_of::<u64>(),
        )
    };
    match check(result) {
        // SIGKILL and SIGSTOP have no other.
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
        _ => Ok(()),
    }
}

/// Dead children are waited for: where SIGCHLD is ignored the kernel throws their status away.
pub fn reset_children() -> io::Result<()> {
    reset(libc::SIGCHLD)
}

/// All of them, real-time ones too, as a login gives them.
pub fn reset_all() -> io::Result<()> {
    (1..=64).try_for_each(reset)
}
