//! The mount calls by descriptor: what was opened is what is mounted.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
    ptr,
};

use serde::{Deserialize, Serialize};

use super::check;

/// Attributes of a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    pub read_only: bool,
    pub no_exec: bool,
    pub no_dev: bool,
    pub no_suid: bool,
}

impl Attributes {
    fn bits(self) -> u64 {
        let bit = |on: bool, bit: u64| if on { bit } else { 0 };
        bit(self.read_only, libc::MOUNT_ATTR_RDONLY)
            | bit(self.no_exec, libc::MOUNT_ATTR_NOEXEC)
            | bit(self.no_dev, libc::MOUNT_ATTR_NODEV)
            | bit(self.no_suid, libc::MOUNT_ATTR_NOSUID)
    }
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the call that produced `fd` succeeded and returns a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// A detached copy of the mount tree at an already opened object.
pub fn clone_tree(object: impl AsFd, recursive: bool) -> io::Result<OwnedFd> {
    let recursive = if recursive { libc::AT_RECURSIVE as u32 } else { 0 };
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as u32 | recursive;
    // SAFETY: a borrowed descriptor and a static string; no memory is written.
    descriptor(unsafe {
        libc::syscall(
            libc::SYS_open_tree,
            object.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
        )
    })
}

/// Sets attributes on a whole (detached) mount tree; never clears any.
pub fn set_attributes(tree: impl AsFd, attributes: Attributes) -> io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let attr = MountAttr {
        set: attributes.bits(),
        clear: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    // SAFETY: `attr` has the kernel's layout for this size and outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            ptr::from_ref(&attr),
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// Attaches a detached tree at an opened object of this process's mount namespace.
pub fn attach(tree: impl AsFd, at: impl AsFd) -> io::Result<()> {
    const F_EMPTY_PATH: u32 = 0x4;
    const T_EMPTY_PATH: u32 = 0x40;
    // SAFETY: two borrowed descriptors and static strings; no memory is written.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            at.as_fd().as_raw_fd(),
            c"".as_ptr(),
            F_EMPTY_PATH | T_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// A new, detached filesystem such as a tmpfs or a proc.
pub fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, CString)],
    attributes: Attributes,
) -> io::Result<OwnedFd> {
    const SET_STRING: u32 = 1;
    const CREATE: u32 = 6;
    // SAFETY: a NUL-terminated string; the result is a new descriptor.
    let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1u32) })?;
    for (key, value) in options {
        // SAFETY: key and value are NUL-terminated and outlive the call.
        check(unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                SET_STRING,
                key.as_ptr(),
                value.as_ptr(),
                0,
            )
        })?;
    }
    // SAFETY: this command takes no key and no value.
    check(unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            CREATE,
            ptr::null::<libc::c_char>(),
            ptr::null::<libc::c_char>(),
            0,
        )
    })?;
    // SAFETY: plain integers; the result is a new descriptor.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1u32, attributes.bits()) })
}
