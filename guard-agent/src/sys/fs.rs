//! Opening with explicit resolution rules, and with another user's rights.

use std::{
    ffi::CStr,
    io,
    os::{
        fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    ptr,
};

use super::check;

/// How often an open is tried that something else on this machine disturbed.
const TRIES: usize = 64;

/// `openat2`.
pub fn open_at(directory: impl AsFd, path: &Path, flags: i32, resolve: u64) -> io::Result<OwnedFd> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: an all-zero open_how is a valid value of that plain C struct.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.resolve = resolve;
    let mut tries = 0;
    let fd = loop {
        // SAFETY: `path` is NUL-terminated, `how` has the size passed, both outlive the call.
        let opened = check(unsafe {
            libc::syscall(
                libc::SYS_openat2,
                directory.as_fd().as_raw_fd(),
                path.as_ptr(),
                ptr::from_ref(&how),
                size_of::<libc::open_how>(),
            )
        });
        tries += 1;
        match opened {
            // A rename or a mount meanwhile, anywhere: the kernel cannot tell whether `..` stayed inside.
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && tries < TRIES => {}
            other => break other?,
        }
    };
    // SAFETY: openat2 succeeded: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Looks at an open object, as `stat` does, without a message to whoever serves its filesystem. The number of the mount
/// it was opened on, where the kernel says it (5.8).
pub fn look(object: impl AsFd) -> io::Result<Option<u64>> {
    // SAFETY: an all-zero statx is a valid value of that plain C struct.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: an empty path that ends, and a structure that outlives the call.
    let result = unsafe {
        libc::statx(
            object.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC,
            libc::STATX_MNT_ID,
            &raw mut found,
        )
    };
    check(result.into())?;
    Ok((found.stx_mask & libc::STATX_MNT_ID != 0).then_some(found.stx_mnt_id))
}

/// A file in memory, without a name anywhere.
pub fn memory_file(name: &CStr, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: a NUL-terminated string and an integer; the result is a new descriptor.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), flags) }.into())?;
    // SAFETY: memfd_create succeeded: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Maps the beginning of a file as code, and takes it off again.
pub fn map_code(file: impl AsFd) -> io::Result<()> {
    const LENGTH: usize = 4096;
    // SAFETY: a new mapping at an address of the kernel's choice; nothing is read from it.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            LENGTH,
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE,
            file.as_fd().as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: exactly what was mapped above, to which nothing points.
    check(unsafe { libc::munmap(at, LENGTH) }.into()).map(drop)
}

/// Filesystem rights of a user, taken by this thread alone until dropped.
///
/// With a filesystem uid other than 0 the kernel takes the file capabilities (`CAP_DAC_*`, `CAP_FOWNER` …) away.
pub struct AsUser {
    groups: Vec<libc::gid_t>,
}

impl AsUser {
    pub fn enter(uid: u32, gid: u32, groups: &[u32]) -> io::Result<Self> {
        let before = nix::unistd::getgroups()?.iter().map(|gid| gid.as_raw()).collect();
        let guard = Self { groups: before };
        set_groups(groups)?;
        // SAFETY: plain integers. The raw call changes this thread alone; glibc's wrapper does the same.
        unsafe {
            libc::setfsgid(gid);
            libc::setfsuid(uid);
        }
        // The calls report no error: asking again tells whether the first one took.
        // SAFETY: an invalid id changes nothing and returns the current one.
        let now = unsafe { (libc::setfsuid(u32::MAX) as u32, libc::setfsgid(u32::MAX) as u32) };
        if now != (uid, gid) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        Ok(guard)
    }
}

impl Drop for AsUser {
    fn drop(&mut self) {
        // SAFETY: plain integers; the thread returns to its real ids.
        unsafe {
            libc::setfsuid(libc::geteuid());
            libc::setfsgid(libc::getegid());
        }
        if let Err(error) = set_groups(&self.groups) {
            // A thread left with another user's groups could only do less than it should.
            tracing::error!(%error, "cannot restore supplementary groups");
        }
    }
}

/// The raw call: this thread only, where glibc's wrapper would change every thread of the process.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: pointer and length describe the live slice.
    check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) }).map(drop)
}
