//! What a refused call was, in the words of an audit record.

use std::sync::LazyLock;

use libc::{EPERM, c_int};
use serde_json::{Map, Value, json};

use super::{
    arguments::IOCTL_NAMES,
    names,
    rule::{Refusal, Verdict},
    table,
};
use crate::confine::notify::Notification;

/// A refused call. The arguments are the caller's own, read from registers: nothing is read from its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The system call's name, or `syscall-N` for one this build does not know.
    pub op: String,
    /// What the caller is to get.
    pub errno: i32,
    /// Arguments that say what was tried; an object, perhaps empty.
    pub detail: Value,
}

/// Errno of every reported call, by number.
static ERRNOS: LazyLock<std::collections::HashMap<u32, i32>> = LazyLock::new(|| {
    let rows = table::CHILD.iter().filter_map(|row| match row.verdict {
        Verdict::AllowIf(_, Refusal::Notify(errno)) | Verdict::Refuse(Refusal::Notify(errno)) => {
            Some((row, errno))
        }
        _ => None,
    });
    rows.flat_map(|(row, errno)| {
        row.calls
            .iter()
            .filter_map(move |call| Some((names::number(call)?, errno)))
    })
    .collect()
});

/// Calls that are refused whatever their arguments are.
static REFUSED: LazyLock<std::collections::HashSet<u32>> = LazyLock::new(|| {
    let rows = table::CHILD
        .iter()
        .filter(|row| matches!(row.verdict, Verdict::Refuse(_)));
    rows.flat_map(|row| row.calls.iter().filter_map(|call| names::number(call)))
        .collect()
});

/// Whether the filter of a sandbox lets no call of this number through.
pub(crate) fn refuses(number: u32) -> bool {
    REFUSED.contains(&number)
}

/// What to answer to a notification.
pub(crate) fn answer(notification: &Notification) -> i32 {
    let number = u32::try_from(notification.nr).ok();
    number
        .and_then(|number| ERRNOS.get(&number).copied())
        .unwrap_or(EPERM)
}

/// Says what a notification is about, and what to answer.
pub fn describe(notification: &Notification) -> Denied {
    let name = u32::try_from(notification.nr).ok().and_then(names::name);
    Denied {
        op: name.map_or_else(|| format!("syscall-{}", notification.nr), str::to_owned),
        errno: answer(notification),
        detail: detail(name.unwrap_or_default(), &notification.args),
    }
}

/// The arguments that `describe` tells; the others as zero. Two calls with equal ones have equal descriptions.
pub(crate) fn telling(notification: &Notification) -> [u64; 6] {
    const LOW: u64 = u32::MAX as u64;
    let name = u32::try_from(notification.nr).ok().and_then(names::name);
    let kept: [u64; 6] = match name.unwrap_or_default() {
        "socket" | "socketpair" => [LOW, LOW, LOW, 0, 0, 0],
        "clone" | "bpf" | "keyctl" | "syslog" | "process_vm_readv" | "process_vm_writev" => {
            [LOW, 0, 0, 0, 0, 0]
        }
        "unshare" => [LOW, 0, 0, 0, 0, 0],
        "setns" | "ioctl" | "fchmod" | "ptrace" | "kcmp" | "pidfd_getfd" | "seccomp" => {
            [LOW, LOW, 0, 0, 0, 0]
        }
        "memfd_create" | "chmod" | "creat" | "mkdir" => [0, LOW, 0, 0, 0, 0],
        "fchmodat" | "mkdirat" | "open" | "reboot" => [0, 0, LOW, 0, 0, 0],
        "openat" => [0, 0, 0, LOW, 0, 0],
        "mknod" => [0, LOW, u64::MAX, 0, 0, 0],
        "mknodat" => [0, 0, LOW, u64::MAX, 0, 0],
        _ => [0; 6],
    };
    let mut args = notification.args;
    for (arg, mask) in args.iter_mut().zip(kept) {
        *arg &= mask;
    }
    args
}

fn detail(call: &str, args: &[u64; 6]) -> Value {
    // The kernel takes these as 32 bits; so do the filters and the record.
    let arg = |at: usize| args[at] as u32;
    match call {
        "socket" | "socketpair" => json!({
            "family": named(arg(0), FAMILIES),
            "type": named(arg(1) & 0xf, SOCKET_TYPES),
            "protocol": arg(2),
        }),
        "clone" => json!({ "flags": flags(arg(0), NAMESPACES) }),
        "unshare" => json!({ "flags": flags(arg(0), UNSHARE) }),
        "setns" => json!({ "fd": arg(0) as c_int, "type": flags(arg(1), UNSHARE) }),
        "memfd_create" => json!({ "flags": flags(arg(1), MEMFD) }),
        "ioctl" => json!({ "fd": arg(0) as c_int, "request": named(arg(1), IOCTL_NAMES) }),
        "chmod" | "creat" | "mkdir" => json!({ "mode": octal(arg(1)) }),
        "fchmod" => json!({ "fd": arg(0) as c_int, "mode": octal(arg(1)) }),
        "fchmodat" | "mkdirat" | "open" => json!({ "mode": octal(arg(2)) }),
        "openat" => json!({ "mode": octal(arg(3)) }),
        "mknod" => json!({ "mode": octal(arg(1)), "dev": args[2] }),
        "mknodat" => json!({ "mode": octal(arg(2)), "dev": args[3] }),
        "ptrace" => json!({ "request": named(arg(0), PTRACE), "target": arg(1) as c_int }),
        "process_vm_readv" | "process_vm_writev" => json!({ "target": arg(0) as c_int }),
        "kcmp" => json!({ "first": arg(0) as c_int, "second": arg(1) as c_int }),
        "pidfd_getfd" => json!({ "pidfd": arg(0) as c_int, "fd": arg(1) as c_int }),
        "bpf" => json!({ "command": arg(0) }),
        "keyctl" => json!({ "operation": arg(0) }),
        "seccomp" => json!({ "operation": arg(0), "flags": flags(arg(1), SECCOMP) }),
        "syslog" => json!({ "action": arg(0) }),
        "reboot" => json!({ "command": format!("{:#x}", arg(2)) }),
        _ => Value::Object(Map::new()),
    }
}

pub(crate) fn octal(mode: u32) -> String {
    // `umode_t` has 16 bits.
    format!("{:#o}", mode & 0xffff)
}

/// An address family, as the other records spell it.
pub(crate) fn family(number: u32) -> String {
    named(number, FAMILIES)
}

pub(crate) fn socket_type(number: u32) -> String {
    named(number, SOCKET_TYPES)
}

/// A command of `ioctl`.
pub(crate) fn request(number: u32) -> String {
    named(number, IOCTL_NAMES)
}

/// The name of a value, or its hexadecimal form.
fn named(value: u32, names: &[(u32, &str)]) -> String {
    names
        .iter()
        .find(|(known, _)| *known == value)
        .map_or_else(|| format!("{value:#x}"), |(_, name)| (*name).to_owned())
}

/// The names of the bits that are set; what has no name is one hexadecimal number at the end.
fn flags(value: u32, names: &[(u32, &str)]) -> Vec<String> {
    let mut rest = value;
    let mut found = Vec::new();
    for (bit, name) in names {
        if value & bit == *bit {
            found.push((*name).to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 {
        found.push(format!("{rest:#x}"));
    }
    found
}

const NAMESPACES: &[(u32, &str)] = &[
    (libc::CLONE_NEWNS as u32, "CLONE_NEWNS"),
    (libc::CLONE_NEWCGROUP as u32, "CLONE_NEWCGROUP"),
    (libc::CLONE_NEWUTS as u32, "CLONE_NEWUTS"),
    (libc::CLONE_NEWIPC as u32, "CLONE_NEWIPC"),
    (libc::CLONE_NEWUSER as u32, "CLONE_NEWUSER"),
    (libc::CLONE_NEWPID as u32, "CLONE_NEWPID"),
    (libc::CLONE_NEWNET as u32, "CLONE_NEWNET"),
];

/// For calls without an exit signal, where the bit of the time namespace is its own.
const UNSHARE: &[(u32, &str)] = &[
    (libc::CLONE_NEWNS as u32, "CLONE_NEWNS"),
    (libc::CLONE_NEWCGROUP as u32, "CLONE_NEWCGROUP"),
    (libc::CLONE_NEWUTS as u32, "CLONE_NEWUTS"),
    (libc::CLONE_NEWIPC as u32, "CLONE_NEWIPC"),
    (libc::CLONE_NEWUSER as u32, "CLONE_NEWUSER"),
    (libc::CLONE_NEWPID as u32, "CLONE_NEWPID"),
    (libc::CLONE_NEWNET as u32, "CLONE_NEWNET"),
    (0x80, "CLONE_NEWTIME"),
    (libc::CLONE_FS as u32, "CLONE_FS"),
    (libc::CLONE_FILES as u32, "CLONE_FILES"),
];

const MEMFD: &[(u32, &str)] = &[
    (1, "MFD_CLOEXEC"),
    (2, "MFD_ALLOW_SEALING"),
    (4, "MFD_HUGETLB"),
    (8, "MFD_NOEXEC_SEAL"),
    (0x10, "MFD_EXEC"),
];

const SECCOMP: &[(u32, &str)] = &[
    (libc::SECCOMP_FILTER_FLAG_TSYNC as u32, "TSYNC"),
    (libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32, "NEW_LISTENER"),
];

const SOCKET_TYPES: &[(u32, &str)] = &[
    (libc::SOCK_STREAM as u32, "SOCK_STREAM"),
    (libc::SOCK_DGRAM as u32, "SOCK_DGRAM"),
    (libc::SOCK_RAW as u32, "SOCK_RAW"),
    (libc::SOCK_RDM as u32, "SOCK_RDM"),
    (libc::SOCK_SEQPACKET as u32, "SOCK_SEQPACKET"),
    (libc::SOCK_DCCP as u32, "SOCK_DCCP"),
    (10, "SOCK_PACKET"),
];

const PTRACE: &[(u32, &str)] = &[
    (libc::PTRACE_TRACEME, "PTRACE_TRACEME"),
    (libc::PTRACE_PEEKTEXT, "PTRACE_PEEKTEXT"),
    (libc::PTRACE_PEEKDATA, "PTRACE_PEEKDATA"),
    (libc::PTRACE_POKETEXT, "PTRACE_POKETEXT"),
    (libc::PTRACE_POKEDATA, "PTRACE_POKEDATA"),
    (libc::PTRACE_ATTACH, "PTRACE_ATTACH"),
    (libc::PTRACE_SEIZE, "PTRACE_SEIZE"),
];

const FAMILIES: &[(u32, &str)] = &[
    (0, "AF_UNSPEC"),
    (1, "AF_UNIX"),
    (2, "AF_INET"),
    (3, "AF_AX25"),
    (4, "AF_IPX"),
    (5, "AF_APPLETALK"),
    (9, "AF_X25"),
    (10, "AF_INET6"),
    (15, "AF_KEY"),
    (16, "AF_NETLINK"),
    (17, "AF_PACKET"),
    (21, "AF_RDS"),
    (23, "AF_IRDA"),
    (24, "AF_PPPOX"),
    (26, "AF_LLC"),
    (27, "AF_IB"),
    (28, "AF_MPLS"),
    (29, "AF_CAN"),
    (30, "AF_TIPC"),
    (31, "AF_BLUETOOTH"),
    (33, "AF_RXRPC"),
    (35, "AF_PHONET"),
    (36, "AF_IEEE802154"),
    (38, "AF_ALG"),
    (39, "AF_NFC"),
    (40, "AF_VSOCK"),
    (41, "AF_KCM"),
    (42, "AF_QIPCRTR"),
    (43, "AF_SMC"),
    (44, "AF_XDP"),
    (45, "AF_MCTP"),
];
