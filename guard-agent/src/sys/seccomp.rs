//! `seccomp(2)` with a listener, and the listener's requests.

use std::{
    io,
    mem::size_of,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use libc::{c_int, c_long, c_ulong, seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};

/// Sizes of the running kernel's structures; they may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotifSizes {
    notification: usize,
    response: usize,
}

/// Adds a filter to the calling thread.
pub fn install(program: &[sock_filter]) -> io::Result<()> {
    set_filter(program, 0).map(drop)
}

/// Adds a filter to all threads of the process.
pub fn install_all_threads(program: &[sock_filter]) -> io::Result<()> {
    match set_filter(program, libc::SECCOMP_FILTER_FLAG_TSYNC)? {
        0 => Ok(()),
        thread => Err(io::Error::other(format!(
            "thread {thread} cannot take the filter"
        ))),
    }
}

/// Adds a filter to the calling thread and returns its listener (close-on-exec).
pub fn install_with_listener(program: &[sock_filter]) -> io::Result<OwnedFd> {
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // With the second flag (5.19) a caller whose call was read waits on through signals that do not kill it:
    // without, each signal restarts the call, and one attempt is recorded several times.
    let fd = match set_filter(program, listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => set_filter(program, listener)?,
        other => other?,
    };
    let fd = c_int::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel made this descriptor for us just now; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_filter(program: &[sock_filter], flags: c_ulong) -> io::Result<c_long> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The kernel only reads the instructions; the field is not const in C.
    let fprog = sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `fprog` and the `len` instructions of `program` live until the call returns; the kernel copies them
    // and does not write.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const fprog,
        )
    };
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc)
    }
}

/// Asks the kernel for its sizes.
pub fn notif_sizes() -> io::Result<NotifSizes> {
    let mut sizes = libc::seccomp_notif_sizes {
        seccomp_notif: 0,
        seccomp_notif_resp: 0,
        seccomp_data: 0,
    };
    // SAFETY: `sizes` is ours and writable, and has the layout the kernel fills.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_NOTIF_SIZES,
            0,
            &raw mut sizes,
        )
    };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    let notification = usize::from(sizes.seccomp_notif);
    let response = usize::from(sizes.seccomp_notif_resp);
    if notification < size_of::<seccomp_notif>() || response < size_of::<seccomp_notif_resp>() {
        return Err(io::Error::other(format!(
            "the kernel's notifications are {notification} and {response} bytes, less than this build knows"
        )));
    }
    Ok(NotifSizes {
        notification,
        response,
    })
}

/// Zeroed, aligned memory of at least `bytes`: the kernel refuses a buffer that is not zero.
fn buffer(bytes: usize) -> Vec<u64> {
    vec![0; bytes.div_ceil(size_of::<u64>())]
}

/// Takes the next notification; blocks when there is none.
pub fn notif_recv(listener: BorrowedFd<'_>, sizes: &NotifSizes) -> io::Result<seccomp_notif> {
    let mut memory = buffer(sizes.notification);
    // SAFETY: the kernel writes `sizes.notification` bytes, its own figure; `memory` has them and lives through
    // the call.
    let rc = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            memory.as_mut_ptr(),
        )
    };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `memory` is aligned to 8 bytes, initialised, and at least as large as the structure (checked in
    // `notif_sizes`), which has only integers.
    Ok(unsafe { memory.as_ptr().cast::<seccomp_notif>().read() })
}

/// Answers a notification with an errno.
pub fn notif_refuse(listener: BorrowedFd<'_>, sizes: &NotifSizes, id: u64, errno: c_int) -> io::Result<()> {
    let mut memory = buffer(sizes.response);
    // A value of zero or less would let the call succeed in the caller's eyes.
    let errno = if errno > 0 { errno } else { libc::EPERM };
    let response = seccomp_notif_resp {
        id,
        val: 0,
        error: -errno,
        flags: 0,
    };
    // SAFETY: `memory` is aligned to 8 bytes and at least as large as the structure; the ioctl reads
    // `sizes.response` bytes of it, which it has, and it lives through the call.
    let rc = unsafe {
        memory.as_mut_ptr().cast::<seccomp_notif_resp>().write(response);
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            memory.as_mut_ptr(),
        )
    };
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Whether the call of a notification still waits.
pub fn notif_id_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads eight bytes of `id`, which lives through the call.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const id,
        ) == 0
    }
}
