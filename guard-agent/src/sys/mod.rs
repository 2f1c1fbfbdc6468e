//! The only unsafe code of the agent: system calls that no library wraps.
#![expect(
    unsafe_code,
    reason = "this is where it lives; every block says why it is sound"
)]

pub mod bpf;
pub mod clone;
pub mod exec;
pub mod family;
pub mod fs;
pub mod ipc;
pub mod landlock;
pub mod mount;
pub mod process;
pub mod ready;
pub mod seccomp;
pub mod seqpacket;
pub mod signals;
pub mod stamp;

use std::io;

/// The result of a raw system call as an `io::Result`.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
