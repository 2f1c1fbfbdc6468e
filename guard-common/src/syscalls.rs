//! The system calls that are observed (x86_64): their numbers, names, paths, and which ends are reported.
//!
//! The loader hands the kernel half what it needs of this table, so that the program has no list of its own.

use crate::abi::{CALL_ALLOWED, CallSpec, NO_ARGUMENT};

pub const EPERM: u16 = 1;
pub const ENOENT: u16 = 2;
pub const ESRCH: u16 = 3;
pub const EACCES: u16 = 13;
pub const EXDEV: u16 = 18;
pub const ENOTDIR: u16 = 20;
pub const EROFS: u16 = 30;
pub const ENETUNREACH: u16 = 101;

/// Which ends of a call are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Names a file by a path.
    Path,
    /// Works on files or mounts without a path that can be read.
    Handle,
    /// Looks into another process.
    Process,
    /// Signals or names another process.
    Signal,
    /// Makes memory executable or maps a file.
    Memory,
    /// EPERM is missing: the network programs and seccomp have recorded what they refuse.
    Socket,
}

impl Class {
    pub const ALL: [Self; 6] = [
        Self::Path,
        Self::Handle,
        Self::Process,
        Self::Signal,
        Self::Memory,
        Self::Socket,
    ];

    pub const fn errnos(self) -> &'static [u16] {
        match self {
            Self::Path => &[EPERM, ENOENT, EACCES, EXDEV, ENOTDIR, EROFS],
            Self::Handle | Self::Process => &[EPERM, EACCES, EXDEV, EROFS],
            Self::Signal => &[EPERM, ESRCH, EACCES, EXDEV, EROFS],
            Self::Memory => &[EPERM, EACCES],
            Self::Socket => &[ENOENT, EACCES, ENETUNREACH],
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Handle => "handle",
            Self::Process => "process",
            Self::Signal => "signal",
            Self::Memory => "memory",
            Self::Socket => "socket",
        }
    }
}

/// One observed call. Arguments are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub nr: u32,
    /// As audit records spell the operation.
    pub name: &'static str,
    pub class: Class,
    /// The directory that `path` starts from when it is relative.
    pub dirfd: Option<u8>,
    /// The path that is acted on: of a link its own name, of a mount its target.
    pub path: Option<u8>,
    pub second_dirfd: Option<u8>,
    /// The other path: where a rename goes, what a link points to, what is mounted.
    pub second: Option<u8>,
    /// A socket address and its length.
    pub address: Option<(u8, u8)>,
    /// Reported when it succeeds, too.
    pub allowed: bool,
}

const fn call(nr: u32, name: &'static str, class: Class) -> Call {
    Call {
        nr,
        name,
        class,
        dirfd: None,
        path: None,
        second_dirfd: None,
        second: None,
        address: None,
        allowed: false,
    }
}

/// One path.
const fn path(nr: u32, name: &'static str, argument: u8) -> Call {
    Call {
        path: Some(argument),
        ..call(nr, name, Class::Path)
    }
}

/// A directory's descriptor in the first argument, a path in the second.
const fn at(nr: u32, name: &'static str) -> Call {
    Call {
        dirfd: Some(0),
        ..path(nr, name, 1)
    }
}

const fn two(nr: u32, name: &'static str, first: u8, second: u8) -> Call {
    Call {
        second: Some(second),
        ..path(nr, name, first)
    }
}

/// From a directory and path to another.
const fn two_at(nr: u32, name: &'static str) -> Call {
    Call {
        second_dirfd: Some(2),
        second: Some(3),
        ..at(nr, name)
    }
}

const fn opens(open: Call) -> Call {
    Call {
        allowed: true,
        ..open
    }
}

const fn addressed(nr: u32, name: &'static str, pointer: u8, length: u8) -> Call {
    Call {
        address: Some((pointer, length)),
        ..call(nr, name, Class::Socket)
    }
}

/// Every observed call, by number.
pub const CALLS: &[Call] = &[
    opens(path(2, "open", 0)),
    path(4, "stat", 0),
    path(6, "lstat", 0),
    call(9, "mmap", Class::Memory),
    call(10, "mprotect", Class::Memory),
    path(21, "access", 0),
    call(41, "socket", Class::Socket),
    addressed(42, "connect", 1, 2),
    addressed(44, "sendto", 4, 5),
    call(46, "sendmsg", Class::Socket),
    addressed(49, "bind", 1, 2),
    call(50, "listen", Class::Socket),
    path(59, "execve", 0),
    call(62, "kill", Class::Signal),
    path(76, "truncate", 0),
    path(80, "chdir", 0),
    two(82, "rename", 0, 1),
    path(83, "mkdir", 0),
    path(84, "rmdir", 0),
    opens(path(85, "creat", 0)),
    two(86, "link", 1, 0),
    path(87, "unlink", 0),
    two(88, "symlink", 1, 0),
    path(89, "readlink", 0),
    path(90, "chmod", 0),
    path(92, "chown", 0),
    path(94, "lchown", 0),
    call(101, "ptrace", Class::Process),
    call(129, "rt_sigqueueinfo", Class::Signal),
    path(132, "utime", 0),
    path(133, "mknod", 0),
    path(137, "statfs", 0),
    two(155, "pivot_root", 0, 1),
    path(161, "chroot", 0),
    two(165, "mount", 1, 0),
    path(166, "umount2", 0),
    path(188, "setxattr", 0),
    path(189, "lsetxattr", 0),
    path(191, "getxattr", 0),
    path(192, "lgetxattr", 0),
    path(194, "listxattr", 0),
    path(195, "llistxattr", 0),
    path(197, "removexattr", 0),
    path(198, "lremovexattr", 0),
    call(200, "tkill", Class::Signal),
    call(234, "tgkill", Class::Signal),
    path(235, "utimes", 0),
    path(254, "inotify_add_watch", 1),
    opens(at(257, "openat")),
    at(258, "mkdirat"),
    at(259, "mknodat"),
    at(260, "fchownat"),
    at(261, "futimesat"),
    at(262, "newfstatat"),
    at(263, "unlinkat"),
    two_at(264, "renameat"),
    Call {
        dirfd: Some(2),
        second_dirfd: Some(0),
        ..two(265, "linkat", 3, 1)
    },
    Call {
        dirfd: Some(1),
        ..two(266, "symlinkat", 2, 0)
    },
    at(267, "readlinkat"),
    at(268, "fchmodat"),
    at(269, "faccessat"),
    at(280, "utimensat"),
    call(297, "rt_tgsigqueueinfo", Class::Signal),
    at(303, "name_to_handle_at"),
    call(304, "open_by_handle_at", Class::Handle),
    call(307, "sendmmsg", Class::Socket),
    call(310, "process_vm_readv", Class::Process),
    call(311, "process_vm_writev", Class::Process),
    two_at(316, "renameat2"),
    at(322, "execveat"),
    call(329, "pkey_mprotect", Class::Memory),
    at(332, "statx"),
    call(424, "pidfd_send_signal", Class::Signal),
    at(428, "open_tree"),
    Call {
        dirfd: Some(2),
        second_dirfd: Some(0),
        ..two(429, "move_mount", 3, 1)
    },
    call(430, "fsopen", Class::Handle),
    call(431, "fsconfig", Class::Handle),
    call(432, "fsmount", Class::Handle),
    at(433, "fspick"),
    call(434, "pidfd_open", Class::Signal),
    at(437, "openat2"),
    call(438, "pidfd_getfd", Class::Signal),
    at(439, "faccessat2"),
    at(442, "mount_setattr"),
    at(452, "fchmodat2"),
    at(463, "setxattrat"),
    at(464, "getxattrat"),
    at(465, "listxattrat"),
    at(466, "removexattrat"),
    at(467, "open_tree_attr"),
    at(468, "file_getattr"),
    at(469, "file_setattr"),
];

impl Call {
    /// The row of a number.
    pub fn find(nr: u32) -> Option<&'static Self> {
        let at = CALLS.binary_search_by_key(&nr, |call| call.nr).ok()?;
        CALLS.get(at)
    }

    /// Whether a call that ends so is reported.
    pub fn reports(&self, errno: u16) -> bool {
        match errno {
            0 => self.allowed,
            errno => self.class.errnos().contains(&errno),
        }
    }

    /// What the kernel half has to know.
    pub fn spec(&self) -> CallSpec {
        let number = |argument: Option<u8>| argument.unwrap_or(NO_ARGUMENT);
        let mut errnos = [0; 2];
        for errno in self.class.errnos() {
            if let Some(word) = errnos.get_mut(usize::from(errno / 64)) {
                *word |= 1 << (errno % 64);
            }
        }
        CallSpec {
            errnos,
            path: number(self.path),
            second: number(self.second),
            address: number(self.address.map(|(pointer, _)| pointer)),
            address_length: number(self.address.map(|(_, length)| length)),
            flags: if self.allowed { CALL_ALLOWED } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::CALL_COUNT;

    #[test]
    fn rows_are_in_order_and_within_the_map() {
        assert!(CALLS.windows(2).all(|pair| pair[0].nr < pair[1].nr));
        assert!(CALLS.iter().all(|call| (call.nr as usize) < CALL_COUNT));
        for call in CALLS {
            assert_eq!(Call::find(call.nr), Some(call));
            assert_eq!(call.path.is_some(), call.class == Class::Path, "{}", call.name);
            for argument in [call.path, call.second, call.dirfd, call.second_dirfd] {
                assert!(argument.is_none_or(|argument| argument < 6), "{}", call.name);
            }
        }
        assert_eq!(Call::find(0), None);
    }

    #[test]
    fn the_bit_set_says_what_the_list_says() {
        for call in CALLS {
            let spec = call.spec();
            for errno in 1..128u16 {
                let bit = spec.errnos[usize::from(errno / 64)] >> (errno % 64) & 1 == 1;
                assert_eq!(bit, call.reports(errno), "{} {errno}", call.name);
            }
            assert!(!call.class.errnos().is_empty());
        }
    }
}
