//! `execve` and leaving without running destructors.

use std::{ffi::CString, io, ptr};

/// Replaces this process. Returns only the error.
pub fn exec(program: &CString, argv: &[CString], environment: &[CString]) -> io::Error {
    let list = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings
            .iter()
            .map(|text| text.as_ptr())
            .chain([ptr::null()])
            .collect()
    };
    let (argv, environment) = (list(argv), list(environment));
    // SAFETY: the three pointers lead to NUL-terminated strings and NULL-terminated arrays owned by this frame.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Leaves at once: a forked child must not run its parent's destructors.
pub fn leave(status: i32) -> ! {
    // SAFETY: `_exit` takes no pointer and does not return.
    unsafe { libc::_exit(status) }
}
