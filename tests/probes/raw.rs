//! System calls by number, so that a probe asks the kernel and not a library.
#![expect(unsafe_code, reason = "the one place where a probe's call is made")]

use std::{
    ffi::{CStr, CString},
    os::{
        fd::{AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::errno::Errno;

/// A pointer into the page that is never mapped: a call that reads it has passed every filter and answers `EFAULT`.
pub(crate) const BAD: usize = 1;
pub(crate) const NULL: usize = 0;

/// One argument of a call as the register sees it.
pub(crate) trait Word {
    fn word(&self) -> usize;
}

macro_rules! word_by_cast {
    // A register is 64 bits, sign extended as C does.
    ($($kind:ty),*) => { $(impl Word for $kind {
        fn word(&self) -> usize { *self as usize }
    })* };
}
word_by_cast!(i32, i64, u32, u64, usize);

impl Word for CStr {
    fn word(&self) -> usize {
        self.as_ptr() as usize
    }
}
impl Word for CString {
    fn word(&self) -> usize {
        self.as_ptr() as usize
    }
}
impl Word for OwnedFd {
    fn word(&self) -> usize {
        self.as_raw_fd().word()
    }
}
impl Word for BorrowedFd<'_> {
    fn word(&self) -> usize {
        self.as_raw_fd().word()
    }
}
impl<T: Word + ?Sized> Word for &T {
    fn word(&self) -> usize {
        (**self).word()
    }
}

/// The address of a structure or buffer the caller keeps alive over the call.
pub(crate) fn at<T: ?Sized>(value: &mut T) -> usize {
    (&raw mut *value).cast::<u8>() as usize
}

/// A path as the kernel takes it. Fixture paths hold no NUL.
pub(crate) fn path(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap_or_default()
}

/// Makes the call; prefer the `call!` macro.
pub(crate) fn syscall(number: libc::c_long, words: &[usize]) -> Result<usize, Errno> {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    // SAFETY: each word is a number, null, an address that is never mapped, or the address of a value
    // that the probe keeps borrowed until the call returns and that is as large as the call's ABI says.
    // The probe runs in a process of its own that ends after it.
    let result = unsafe { libc::syscall(number, word(0), word(1), word(2), word(3), word(4), word(5)) };
    usize::try_from(result).map_err(|_| Errno::last())
}

/// `call!(SYS_mount, c"none", path, …)`: the system call, its result or its errno.
macro_rules! call {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        $crate::raw::syscall(libc::$number, &[$($crate::raw::Word::word(&$argument)),*])
    };
}
pub(crate) use call;
