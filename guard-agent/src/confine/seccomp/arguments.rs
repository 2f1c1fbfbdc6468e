//! Conditions on arguments, kept apart from the table so that it reads as a list.

use super::rule::{Cond, Needs, Rule};

/// Set-user-id and set-group-id.
pub(super) const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// Namespace flags of `clone` that fit its 32 bits. `CLONE_NEWTIME` is not among them: it falls into the
/// byte of the exit signal, where `clone` does not look for flags.
pub(super) const NEW_NAMESPACE: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
pub(super) const MFD_NOEXEC_SEAL: u32 = 8;
/// The bit of `O_TMPFILE` that is not `O_DIRECTORY`.
const TMPFILE: u32 = 0o20_000_000;
const IPPROTO_MPTCP: u32 = 262;
/// `type` without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
const SOCK_TYPE: u32 = 0xf;
const PR_GET_AUXV: u32 = 0x4155_5856;
const PR_SET_VMA: u32 = 0x5356_4d41;

const fn no_set_id(arg: u8) -> Cond {
    Cond::masked(arg, SET_ID, 0)
}

/// The mode counts only when a file may be created; without that the register holds anything.
const fn no_create(arg: u8) -> Cond {
    Cond::masked(arg, libc::O_CREAT as u32 | TMPFILE, 0)
}

/// Emptying by opening is opening for writing, or somebody else judges it.
const fn no_truncation(arg: u8) -> Cond {
    Cond::masked(arg, libc::O_TRUNC as u32, 0)
}
const fn access(arg: u8, mode: i32) -> Cond {
    Cond::masked(arg, libc::O_ACCMODE as u32, mode as u32)
}

pub(super) const OPEN: &[Rule] = &[
    Rule::when(Needs::TruncationJudged, &[no_create(1)]),
    Rule::when(Needs::TruncationJudged, &[no_set_id(2)]),
    Rule::new(&[no_create(1), no_truncation(1)]),
    Rule::new(&[no_create(1), access(1, libc::O_WRONLY)]),
    Rule::new(&[no_create(1), access(1, libc::O_RDWR)]),
    Rule::new(&[no_set_id(2), no_truncation(1)]),
    Rule::new(&[no_set_id(2), access(1, libc::O_WRONLY)]),
    Rule::new(&[no_set_id(2), access(1, libc::O_RDWR)]),
];
pub(super) const OPENAT: &[Rule] = &[
    Rule::when(Needs::TruncationJudged, &[no_create(2)]),
    Rule::when(Needs::TruncationJudged, &[no_set_id(3)]),
    Rule::new(&[no_create(2), no_truncation(2)]),
    Rule::new(&[no_create(2), access(2, libc::O_WRONLY)]),
    Rule::new(&[no_create(2), access(2, libc::O_RDWR)]),
    Rule::new(&[no_set_id(3), no_truncation(2)]),
    Rule::new(&[no_set_id(3), access(2, libc::O_WRONLY)]),
    Rule::new(&[no_set_id(3), access(2, libc::O_RDWR)]),
];
/// Modes, owners, times and attributes of files, watches of them.
pub(super) const ATTRIBUTES: &[Rule] = &[Rule::when(Needs::ReadOnlyOutside, &[])];
pub(super) const TRUNCATE: &[Rule] = &[Rule::when(Needs::TruncationJudged, &[])];
pub(super) const CHMOD: &[Rule] = &[Rule::when(Needs::ReadOnlyOutside, &[no_set_id(1)])];
pub(super) const CHMODAT: &[Rule] = &[Rule::when(Needs::ReadOnlyOutside, &[no_set_id(2)])];
/// A pid of 0 is the caller itself.
pub(super) const OWN_FIRST: &[Rule] = &[Rule::when(Needs::OwnProcesses, &[]), Rule::new(&[Cond::eq(0, 0)])];
/// `PRIO_PROCESS` or `IOPRIO_WHO_PROCESS`, and the caller itself.
pub(super) const OWN_SECOND: &[Rule] = &[
    Rule::when(Needs::OwnProcesses, &[]),
    Rule::new(&[Cond::eq(0, libc::PRIO_PROCESS), Cond::eq(1, 0)]),
    Rule::new(&[Cond::eq(0, 1), Cond::eq(1, 0)]),
];

/// creat, mkdir
pub(super) const MODE_1: &[Rule] = &[Rule::new(&[no_set_id(1)])];
/// mkdirat
pub(super) const MODE_2: &[Rule] = &[Rule::new(&[no_set_id(2)])];

const fn node(arg: u8, kind: u32) -> Cond {
    Cond::masked(arg, libc::S_IFMT | SET_ID, kind)
}
pub(super) const MKNOD: &[Rule] = &[
    Rule::new(&[node(1, 0)]),
    Rule::new(&[node(1, libc::S_IFREG)]),
    Rule::new(&[node(1, libc::S_IFIFO)]),
    Rule::new(&[node(1, libc::S_IFSOCK)]),
];
pub(super) const MKNODAT: &[Rule] = &[
    Rule::new(&[node(2, 0)]),
    Rule::new(&[node(2, libc::S_IFREG)]),
    Rule::new(&[node(2, libc::S_IFIFO)]),
    Rule::new(&[node(2, libc::S_IFSOCK)]),
];

pub(super) const CLONE: &[Rule] = &[Rule::new(&[Cond::masked(0, NEW_NAMESPACE, 0)])];

const fn domain(family: i32) -> Cond {
    Cond::eq(0, family as u32)
}
const fn protocol(number: u32) -> Cond {
    Cond::eq(2, number)
}
const V4: Cond = domain(libc::AF_INET);
const V6: Cond = domain(libc::AF_INET6);
const fn inet(conds: &'static [Cond]) -> Rule {
    Rule::when(Needs::InetSockets, conds)
}
/// The protocols whose use the cgroup programs see. Not SMC, SCTP, L2TP, ICMP: they have doors of their own.
pub(super) const SOCKET: &[Rule] = &[
    inet(&[V4, protocol(0)]),
    inet(&[V4, protocol(libc::IPPROTO_TCP as u32)]),
    inet(&[V4, protocol(libc::IPPROTO_UDP as u32)]),
    inet(&[V4, protocol(IPPROTO_MPTCP)]),
    inet(&[V6, protocol(0)]),
    inet(&[V6, protocol(libc::IPPROTO_TCP as u32)]),
    inet(&[V6, protocol(libc::IPPROTO_UDP as u32)]),
    inet(&[V6, protocol(IPPROTO_MPTCP)]),
    Rule::when(Needs::UnixSockets, &[domain(libc::AF_UNIX)]),
];

const fn kind(value: i32) -> Cond {
    Cond::masked(1, SOCK_TYPE, value as u32)
}
/// A pair of datagram sockets can still send to a path; connected streams cannot.
pub(super) const SOCKETPAIR: &[Rule] = &[
    Rule::new(&[domain(libc::AF_UNIX), kind(libc::SOCK_STREAM)]),
    Rule::new(&[domain(libc::AF_UNIX), kind(libc::SOCK_SEQPACKET)]),
    Rule::when(
        Needs::UnixSockets,
        &[domain(libc::AF_UNIX), kind(libc::SOCK_DGRAM)],
    ),
];

pub(super) const MEMFD: &[Rule] = &[
    Rule::new(&[Cond::masked(1, MFD_NOEXEC_SEAL, MFD_NOEXEC_SEAL)]),
    Rule::when(Needs::MemfdNoexecSysctl, &[]),
];

pub(super) const PRIVATE_IPC: &[Rule] = &[Rule::when(Needs::PrivateIpc, &[])];

/// 0 is Linux as it is, all ones asks.
pub(super) const PERSONALITY: &[Rule] = &[Rule::new(&[Cond::eq(0, 0)]), Rule::new(&[Cond::eq(0, u32::MAX)])];

/// Further filters may be added, a second listener may not: its owner could answer "go on".
/// (The kernel refuses it too while ours lives.)
pub(super) const SECCOMP: &[Rule] = &[Rule::new(&[Cond::masked(
    1,
    libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32,
    0,
)])];

macro_rules! any_of {
    ($arg:literal: $($value:expr),* $(,)?) => { &[$(Rule::new(&[Cond::eq($arg, $value)])),*] };
}

pub(super) const PRCTL: &[Rule] = any_of![0:
    libc::PR_SET_PDEATHSIG as u32,
    libc::PR_GET_PDEATHSIG as u32,
    libc::PR_GET_DUMPABLE as u32,
    libc::PR_SET_DUMPABLE as u32,
    libc::PR_GET_KEEPCAPS as u32,
    libc::PR_GET_TIMING as u32,
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_GET_SECCOMP as u32,
    libc::PR_SET_SECCOMP as u32,
    libc::PR_CAPBSET_READ as u32,
    libc::PR_GET_SECUREBITS as u32,
    libc::PR_SET_TIMERSLACK as u32,
    libc::PR_GET_TIMERSLACK as u32,
    libc::PR_SET_CHILD_SUBREAPER as u32,
    libc::PR_GET_CHILD_SUBREAPER as u32,
    libc::PR_SET_NO_NEW_PRIVS as u32,
    libc::PR_GET_NO_NEW_PRIVS as u32,
    libc::PR_GET_TID_ADDRESS as u32,
    libc::PR_SET_THP_DISABLE as u32,
    libc::PR_GET_THP_DISABLE as u32,
    libc::PR_GET_SPECULATION_CTRL as u32,
    PR_SET_MDWE,
    PR_GET_MDWE,
    PR_GET_AUXV,
    PR_SET_VMA,
];
const PR_SET_MDWE: u32 = 65;
const PR_GET_MDWE: u32 = 66;

/// Thread pointers, shadow stacks, and the tile registers of numeric libraries.
pub(super) const ARCH_PRCTL: &[Rule] = any_of![0:
    0x1001, 0x1002, 0x1003, 0x1004, // ARCH_{SET,GET}_{GS,FS}
    0x1011,                         // ARCH_GET_CPUID
    0x1021, 0x1022, 0x1023,         // ARCH_{GET_XCOMP_SUPP,GET_XCOMP_PERM,REQ_XCOMP_PERM}
    0x3001,                         // ARCH_CET_STATUS
    0x5001, 0x5002, 0x5003, 0x5005, // ARCH_SHSTK_{ENABLE,DISABLE,LOCK,STATUS}
];

/// Requests by name, for the table and for records.
pub(super) const IOCTL_NAMES: &[(u32, &str)] = &[
    (0x5412, "TIOCSTI"),
    (0x541c, "TIOCLINUX"),
    (0x541d, "TIOCCONS"),
    (0x5423, "TIOCSETD"),
    (0x4008_6602, "FS_IOC_SETFLAGS"),
    (0x401c_5820, "FS_IOC_FSSETXATTR"),
    (0x4080_6685, "FS_IOC_ENABLE_VERITY"),
    (0xc018_9436, "FIDEDUPERANGE"),
    (0x8901, "FIOSETOWN"),
    (0x8902, "SIOCSPGRP"),
    (0xc020_aa3f, "UFFDIO_API"),
];

/// An allow-set, not a deny-set: the space of requests has no end, file systems answer to private ones
/// on any open directory (a btrfs subvolume, ext4 and xfs flags), and Landlock judges those of devices only.
/// What is here was needed by terminals, event loops, copies and language runtimes.
pub(super) const IOCTL: &[Rule] = any_of![1:
    0x541b,                                         // FIONREAD
    0x5421, 0x5450, 0x5451, 0x5452, 0x5460,         // FIONBIO FIONCLEX FIOCLEX FIOASYNC FIOQSIZE
    0x5401, 0x5402, 0x5403, 0x5404,                 // TCGETS TCSETS TCSETSW TCSETSF
    0x802c_542a, 0x402c_542b, 0x402c_542c, 0x402c_542d, // the same with termios2
    0x5409, 0x5425, 0x540a, 0x540b,                 // TCSBRK TCSBRKP TCXONC TCFLSH
    0x540c, 0x540d, 0x540e, 0x5422,                 // TIOCEXCL TIOCNXCL TIOCSCTTY TIOCNOTTY
    0x540f, 0x5410, 0x5429, 0x5411,                 // TIOCGPGRP TIOCSPGRP TIOCGSID TIOCOUTQ
    0x5413, 0x5414, 0x5420,                         // TIOCGWINSZ TIOCSWINSZ TIOCPKT
    0x8004_5430, 0x4004_5431, 0x8004_5439, 0x5441,  // TIOCGPTN TIOCSPTLCK TIOCGPTLCK TIOCGPTPEER
    0x2, 0xc020_660b,                               // FIGETBSZ FS_IOC_FIEMAP
    0x4004_9409, 0x4020_940d,                       // FICLONE FICLONERANGE
    0x8008_6601, 0x801c_581f,                       // FS_IOC_GETFLAGS FS_IOC_FSGETXATTR
    0x8905, 0x8906, 0x8907,                         // SIOCATMARK SIOCGSTAMP SIOCGSTAMPNS
    0x8910, 0x8912, 0x8913, 0x8915,                 // SIOCGIFNAME SIOCGIFCONF SIOCGIFFLAGS SIOCGIFADDR
    0x8919, 0x891b, 0x8921, 0x8927, 0x8933,         // SIOCGIF{BRDADDR,NETMASK,MTU,HWADDR,INDEX}
];

/// Signal 0.
pub(super) const SIGNAL_SECOND: &[Rule] = &[Rule::new(&[Cond::eq(1, 0)])];
pub(super) const SIGNAL_THIRD: &[Rule] = &[Rule::new(&[Cond::eq(2, 0)])];
/// Every request but those that name whom a descriptor signals.
pub(super) const NO_OWNER: &[Rule] = &[
    // F_DUPFD to F_SETLKW
    Rule::new(&[Cond::masked(1, !7, 0)]),
    Rule::new(&[Cond::eq(1, libc::F_GETOWN as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_OFD_GETLK as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_OFD_SETLK as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_OFD_SETLKW as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_DUPFD_CLOEXEC as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_SETPIPE_SZ as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_GETPIPE_SZ as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_ADD_SEALS as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_GET_SEALS as u32)]),
];
