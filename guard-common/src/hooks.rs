//! The security hooks of tier T1: what each decides and why, on which kernels it must be there, and where its
//! arguments stand. Both halves and `docs/hooks.md` follow this table.

/// Rights of a root, as both halves count them.
pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const EXECUTE: u32 = 4;
/// Mapping as code what cannot be executed by itself: a library.
pub const MAP: u32 = 8;

/// How a hook decides for a process of a sandbox. Everybody else gets 0, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The object lies in an enrolled root that has these rights; 0: those the operation says.
    Inside(u32),
    /// Like [`Rule::Inside`] for both ends, and nothing gets a right by the move that it had not.
    NoGain,
    /// Refused, whatever it is about.
    Never,
    /// The other end belongs to the same sandbox.
    Same,
    /// By the kind of socket or device command.
    Kind,
    /// Decides nothing: passes the sandbox's label on. Fails closed.
    Label,
    /// Decides nothing: a root becomes known when the warden looks at it.
    Enrol,
}

/// On which kernels a hook has to be there for tier T1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// On every kernel of the tier.
    Required,
    /// Came later, and why its absence before leaves nothing open.
    Since {
        version: &'static str,
        without: &'static str,
    },
}

/// Where an argument stands on the kernels the programs were written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    At(usize),
    /// Moved between kernels: the loader finds it and freezes it in this global.
    Global(&'static str),
}

/// An argument that a program reads. The loader compares it with the running kernel's types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// The structure it points to, or the name of a number's argument.
    pub what: What,
    pub slot: Slot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The n-th pointer to such a structure.
    Pointer(&'static str, usize),
    /// A number: only its place is compared, against the count of arguments.
    Number,
}

/// One hook and its program, which has the hook's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    /// What a record carries. Never used for another hook.
    pub id: u16,
    pub name: &'static str,
    pub rule: Rule,
    /// What a refused caller sees, positive.
    pub errno: u16,
    pub presence: Presence,
    pub arguments: &'static [Argument],
    /// What a sandbox would do without it: for people.
    pub stops: &'static str,
}

/// What a denied caller sees.
pub const EPERM: u16 = 1;
pub const ENOMEM: u16 = 12;
pub const EACCES: u16 = 13;

/// Where the arguments stand that moved between kernels.
pub const GLOBAL_SETATTR_DENTRY: &str = "SETATTR_DENTRY";
pub const GLOBAL_SETXATTR_DENTRY: &str = "SETXATTR_DENTRY";
pub const GLOBAL_REMOVEXATTR_DENTRY: &str = "REMOVEXATTR_DENTRY";

/// More hooks than there are, for the counters.
pub const HOOK_COUNT: usize = 64;

const fn pointer(structure: &'static str, nth: usize, slot: usize) -> Argument {
    Argument {
        what: What::Pointer(structure, nth),
        slot: Slot::At(slot),
    }
}

const fn moved(structure: &'static str, nth: usize, global: &'static str) -> Argument {
    Argument {
        what: What::Pointer(structure, nth),
        slot: Slot::Global(global),
    }
}

const fn number(slot: usize) -> Argument {
    Argument {
        what: What::Number,
        slot: Slot::At(slot),
    }
}

macro_rules! hooks {
    ($($id:literal $constant:ident $name:literal $rule:expr, $errno:ident, $presence:expr, [$($argument:expr),*], $stops:literal;)+) => {
        $(pub const $constant: Hook = Hook {
            id: $id,
            name: $name,
            rule: $rule,
            errno: $errno,
            presence: $presence,
            arguments: &[$($argument),*],
            stops: $stops,
        };)+

        /// Every hook, in the order of their numbers.
        pub const HOOKS: &[Hook] = &[$($constant),+];
    };
}

use Presence::{Required, Since};

hooks! {
    1 FILE_OPEN "file_open" Rule::Inside(0), EACCES, Required, [pointer("file", 0, 0)],
        "opening, reading a directory, executing";
    2 MMAP_FILE "mmap_file" Rule::Inside(MAP), EACCES, Required, [pointer("file", 0, 0), number(2)],
        "mapping a file as code: a program run through the loader";
    3 FILE_MPROTECT "file_mprotect" Rule::Inside(MAP), EACCES, Required,
        [pointer("vm_area_struct", 0, 0), number(2)],
        "making a mapped file code";
    4 FILE_RECEIVE "file_receive" Rule::Inside(0), EACCES, Required, [pointer("file", 0, 0)],
        "taking an open file from another process";
    5 FILE_IOCTL "file_ioctl" Rule::Kind, EACCES, Required, [pointer("file", 0, 0), number(1)],
        "typing into a terminal, changing flags of what is only read";
    6 FILE_TRUNCATE "file_truncate" Rule::Inside(WRITE), EACCES,
        Since { version: "6.2", without: "`path_truncate` is called for descriptors, too" },
        [pointer("file", 0, 0)],
        "cutting an open file";
    7 PATH_TRUNCATE "path_truncate" Rule::Inside(WRITE), EACCES, Required, [pointer("path", 0, 0)],
        "cutting a file by its name";
    8 PATH_CHMOD "path_chmod" Rule::Inside(WRITE), EACCES, Required, [pointer("path", 0, 0), number(1)],
        "changing a mode, giving a set-id bit";
    9 PATH_CHOWN "path_chown" Rule::Inside(WRITE), EACCES, Required, [pointer("path", 0, 0)],
        "changing an owner";
    10 PATH_MKDIR "path_mkdir" Rule::Inside(WRITE), EACCES, Required,
        [pointer("path", 0, 0), pointer("dentry", 0, 1), number(2)],
        "making a directory";
    11 PATH_MKNOD "path_mknod" Rule::Inside(WRITE), EACCES, Required,
        [pointer("path", 0, 0), pointer("dentry", 0, 1), number(2)],
        "making a file, a socket, a device: before there is an empty one";
    12 PATH_RMDIR "path_rmdir" Rule::Inside(WRITE), EACCES, Required, [pointer("path", 0, 0), pointer("dentry", 0, 1)],
        "removing a directory";
    13 PATH_UNLINK "path_unlink" Rule::Inside(WRITE), EACCES, Required,
        [pointer("path", 0, 0), pointer("dentry", 0, 1)],
        "removing a name";
    14 PATH_SYMLINK "path_symlink" Rule::Inside(WRITE), EACCES, Required,
        [pointer("path", 0, 0), pointer("dentry", 0, 1)],
        "making a symbolic link";
    15 PATH_LINK "path_link" Rule::NoGain, EACCES, Required,
        [pointer("dentry", 0, 0), pointer("path", 0, 1)],
        "giving a file a second name where more may be done with it";
    16 PATH_RENAME "path_rename" Rule::NoGain, EACCES, Required,
        [pointer("path", 0, 0), pointer("dentry", 0, 1), pointer("path", 1, 2), pointer("dentry", 1, 3), number(4)],
        "moving a file to where more may be done with it, exchanging two";
    17 PATH_CHROOT "path_chroot" Rule::Never, EPERM, Required, [pointer("path", 0, 0)],
        "another root directory";
    18 PATH_NOTIFY "path_notify" Rule::Inside(READ), EACCES, Required, [pointer("path", 0, 0), number(2)],
        "watching what others do with a file, or on a whole filesystem";
    19 INODE_SETATTR "inode_setattr" Rule::Inside(WRITE), EACCES, Required,
        [moved("dentry", 0, GLOBAL_SETATTR_DENTRY)],
        "changing times, owner or mode through a descriptor";
    20 INODE_SETXATTR "inode_setxattr" Rule::Inside(WRITE), EACCES, Required,
        [moved("dentry", 0, GLOBAL_SETXATTR_DENTRY)],
        "setting an extended attribute";
    21 INODE_REMOVEXATTR "inode_removexattr" Rule::Inside(WRITE), EACCES, Required,
        [moved("dentry", 0, GLOBAL_REMOVEXATTR_DENTRY)],
        "removing an extended attribute";
    22 INODE_SET_ACL "inode_set_acl" Rule::Inside(WRITE), EACCES,
        Since { version: "6.2", without: "an access list is an extended attribute there" },
        [pointer("dentry", 0, 1)],
        "setting an access list";
    23 INODE_REMOVE_ACL "inode_remove_acl" Rule::Inside(WRITE), EACCES,
        Since { version: "6.2", without: "an access list is an extended attribute there" },
        [pointer("dentry", 0, 1)],
        "removing an access list";
    24 INODE_FILE_SETATTR "inode_file_setattr" Rule::Inside(WRITE), EACCES,
        Since { version: "6.17", without: "the flags are set by `ioctl` on an open file alone, which needs it to be opened" },
        [pointer("dentry", 0, 0)],
        "setting a file's flags";
    25 SB_MOUNT "sb_mount" Rule::Never, EPERM, Required, [],
        "mounting";
    26 SB_UMOUNT "sb_umount" Rule::Never, EPERM, Required, [],
        "uncovering what a mount hides";
    27 SB_REMOUNT "sb_remount" Rule::Never, EPERM, Required, [],
        "making a mount writable";
    28 SB_PIVOTROOT "sb_pivotroot" Rule::Never, EPERM, Required, [],
        "another root directory";
    29 MOVE_MOUNT "move_mount" Rule::Never, EPERM, Required, [],
        "attaching a mount made by the newer calls";
    30 USERNS_CREATE "userns_create" Rule::Never, EPERM, Required, [],
        "capabilities in a user namespace of its own";
    31 SOCKET_CREATE "socket_create" Rule::Kind, EACCES, Required, [number(0), number(1), number(3)],
        "sockets of families that no namespace holds: vsock, packet, netlink and others";
    32 SOCKET_POST_CREATE "socket_post_create" Rule::Label, ENOMEM, Required, [pointer("socket", 0, 0), number(4)],
        "an own socket that is taken for a stranger's";
    33 SOCKET_LISTEN "socket_listen" Rule::Kind, EACCES, Required, [pointer("socket", 0, 0)],
        "serving on the network";
    34 UNIX_STREAM_CONNECT "unix_stream_connect" Rule::Same, EACCES, Required,
        [pointer("sock", 0, 0), pointer("sock", 1, 1)],
        "talking with a service outside by a unix socket: D-Bus, docker, ssh-agent";
    35 UNIX_MAY_SEND "unix_may_send" Rule::Same, EACCES, Required,
        [pointer("socket", 0, 0), pointer("socket", 1, 1)],
        "the same by datagrams";
    36 PTRACE_ACCESS_CHECK "ptrace_access_check" Rule::Same, EACCES, Required, [pointer("task_struct", 0, 0)],
        "reading or changing another process: ptrace, /proc/PID/mem, pidfd_getfd, process_vm_readv";
    37 PTRACE_TRACEME "ptrace_traceme" Rule::Same, EACCES, Required, [pointer("task_struct", 0, 0)],
        "being traced from outside";
    38 TASK_KILL "task_kill" Rule::Same, EACCES, Required, [pointer("task_struct", 0, 0)],
        "a signal to a process outside";
    39 TASK_ALLOC "task_alloc" Rule::Label, ENOMEM, Required, [pointer("task_struct", 0, 0)],
        "a process or thread without its sandbox's label";
    40 BPF "bpf" Rule::Never, EPERM, Required, [],
        "loading eBPF programs, changing our maps";
    41 BPF_MAP "bpf_map" Rule::Never, EPERM, Required, [],
        "a descriptor of a map";
    42 BPF_PROG "bpf_prog" Rule::Never, EPERM, Required, [],
        "a descriptor of a program";
    43 PERF_EVENT_OPEN "perf_event_open" Rule::Never, EPERM, Required, [],
        "watching other processes";
    44 URING_OVERRIDE_CREDS "uring_override_creds" Rule::Never, EPERM, Required, [],
        "other credentials through io_uring, with which the hooks take a call for the kernel's own";
    45 URING_SQPOLL "uring_sqpoll" Rule::Never, EPERM, Required, [],
        "a kernel thread that works for the sandbox";
    46 URING_CMD "uring_cmd" Rule::Never, EPERM, Required, [],
        "device commands through io_uring";
    47 URING_ALLOWED "uring_allowed" Rule::Never, EPERM,
        Since { version: "6.15", without: "`inode_init_security_anon` refuses to make a ring" },
        [],
        "io_uring";
    48 KERNEL_MODULE_REQUEST "kernel_module_request" Rule::Never, EPERM, Required, [],
        "having a module loaded";
    49 KERNEL_READ_FILE "kernel_read_file" Rule::Never, EPERM, Required, [],
        "having the kernel read a module or firmware";
    50 KERNEL_LOAD_DATA "kernel_load_data" Rule::Never, EPERM, Required, [],
        "handing the kernel a module or another kernel";
    51 SYSLOG "syslog" Rule::Never, EPERM, Required, [],
        "reading the kernel's log";
    52 SETTIME "settime" Rule::Never, EPERM, Required, [],
        "setting the clock";
    53 QUOTACTL "quotactl" Rule::Never, EPERM, Required, [],
        "changing quotas";
    54 KEY_ALLOC "key_alloc" Rule::Never, EPERM, Required, [],
        "keeping something in the kernel's keyrings";
    55 KEY_PERMISSION "key_permission" Rule::Never, EPERM, Required, [],
        "reading the person's keys";
    56 INODE_GETATTR "inode_getattr" Rule::Enrol, EACCES, Required, [pointer("path", 0, 0)],
        "nothing: the warden's own look at a root enrols it";
    57 INODE_INIT_SECURITY_ANON "inode_init_security_anon" Rule::Kind, EPERM, Required, [pointer("qstr", 0, 1)],
        "io_uring, whose workers act with credentials that the hooks take for the kernel's own; userfaultfd";
    58 FILE_IOCTL_COMPAT "file_ioctl_compat" Rule::Kind, EACCES,
        Since { version: "6.8", without: "`file_ioctl` is called for calls of 32 bits, too" },
        [pointer("file", 0, 0), number(1)],
        "the same as `file_ioctl` by calls of 32 bits";
    59 FILE_FCNTL "file_fcntl" Rule::Kind, EACCES, Required, [number(1)],
        "having the kernel send a signal to a process outside";
}

/// Why something was refused.
pub const REASON_OUTSIDE: u16 = 100;
pub const REASON_RIGHTS: u16 = 101;
pub const REASON_DEPTH: u16 = 102;
pub const REASON_GAIN: u16 = 103;
pub const REASON_SET_ID: u16 = 104;
pub const REASON_NOT_A_FILE: u16 = 105;
pub const REASON_NEVER: u16 = 106;
pub const REASON_STRANGER: u16 = 107;
pub const REASON_KIND: u16 = 108;
pub const REASON_UNKNOWN_SANDBOX: u16 = 109;
pub const REASON_UNREADABLE: u16 = 110;
pub const REASON_DEVICE: u16 = 111;
/// Of a root that has the right: see [`crate::stamp`].
pub const REASON_NO_CALL: u16 = 112;
/// The same, and only an approved call may have it.
pub const REASON_APPROVAL: u16 = 113;
/// The highest number in use.
pub const REASON_LAST: u16 = REASON_APPROVAL;

/// The word of a record for it.
pub const fn reason(number: u16) -> Option<&'static str> {
    Some(match number {
        REASON_OUTSIDE => "outside-roots",
        REASON_RIGHTS => "right-missing",
        REASON_DEPTH => "too-deep",
        REASON_GAIN => "would-gain-rights",
        REASON_SET_ID => "set-id",
        REASON_NOT_A_FILE => "no-file",
        REASON_NEVER => "never",
        REASON_STRANGER => "stranger",
        REASON_KIND => "kind",
        REASON_UNKNOWN_SANDBOX => "unknown-sandbox",
        REASON_UNREADABLE => "unreadable",
        REASON_DEVICE => "device",
        REASON_NO_CALL => "no-call-needs-it",
        REASON_APPROVAL => "approval-missing",
        _ => return None,
    })
}

/// The hook of a record.
pub fn hook(id: u16) -> Option<&'static Hook> {
    HOOKS.get(usize::from(id).checked_sub(1)?)
}

const _: () = {
    let mut index = 0;
    while index < HOOKS.len() {
        // Found by its number.
        assert!(HOOKS[index].id as usize == index + 1);
        index += 1;
    }
    assert!(HOOKS.len() < HOOK_COUNT);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_of_one_hook_each() {
        for (index, one) in HOOKS.iter().enumerate() {
            assert_eq!(hook(one.id), Some(one));
            assert!(HOOKS[index + 1..].iter().all(|other| other.name != one.name));
        }
        assert_eq!(hook(0), None);
        assert_eq!(hook(u16::try_from(HOOKS.len() + 1).unwrap()), None);
    }

    #[test]
    fn every_reason_has_a_word_of_its_own() {
        for one in REASON_OUTSIDE..=REASON_LAST {
            assert!(reason(one).is_some(), "{one}");
            assert!(
                (one + 1..=REASON_LAST).all(|other| reason(one) != reason(other)),
                "{one}"
            );
        }
        assert_eq!(reason(REASON_LAST + 1), None);
    }
}
