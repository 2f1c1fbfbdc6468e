//! `execve` and leaving without running destructors.

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    ptr,
};

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|text| text.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// Replaces this process. Returns only the error.
pub fn exec(program: &CString, argv: &[CString], environment: &[CString]) -> io::Error {
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: the three pointers lead to NUL-terminated strings and NULL-terminated arrays owned by this frame.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Replaces this process by the program of an open file. Returns only the error.
pub fn exec_at(program: BorrowedFd<'_>, argv: &[CString], environment: &[CString]) -> io::Error {
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: a borrowed descriptor, a static string, and two NULL-terminated arrays of NUL-terminated strings owned
    // by this frame.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

/// Leaves at once: a forked child must not run its parent's destructors.
pub fn leave(status: i32) -> ! {
    // SAFETY: `_exit` takes no pointer and does not return.
    unsafe { libc::_exit(status) }
}
