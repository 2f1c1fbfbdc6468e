//! What Landlock the kernel has, by its system call: the securityfs file may not be mounted.

use std::{io, ptr};

const CREATE_RULESET_VERSION: u32 = 1;
const CREATE_RULESET_ERRATA: u32 = 2;

fn ask(flag: u32) -> io::Result<u32> {
    // SAFETY: with these flags the kernel takes a null attribute of size 0 and only returns a number.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<libc::c_void>(),
            0_usize,
            flag,
        )
    };
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        u32::try_from(rc).map_err(io::Error::other)
    }
}

/// The ABI version. ENOSYS: not built in; EOPNOTSUPP: not enabled at boot.
pub fn abi() -> io::Result<u32> {
    ask(CREATE_RULESET_VERSION)
}

/// A bit for each fixed erratum (6.15 and stable kernels); EINVAL where the question is unknown.
pub fn errata() -> io::Result<u32> {
    ask(CREATE_RULESET_ERRATA)
}
