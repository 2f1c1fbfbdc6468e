//! The table of the sandbox: what a child may call, what is refused, and why.
//!
//! One source for both filters, for the records and for `docs/seccomp.md`.

use std::borrow::Cow;

use libc::{ENOSYS, EPERM};

use super::{
    arguments as on,
    rule::{Refusal, Row, Rule, Verdict},
};

const fn allow(group: &'static str, reason: &'static str, calls: &'static [&'static str]) -> Row {
    Row {
        group,
        reason,
        verdict: Verdict::Allow,
        calls,
    }
}
const fn refuse(group: &'static str, reason: &'static str, calls: &'static [&'static str]) -> Row {
    Row {
        group,
        reason,
        verdict: Verdict::Refuse(Refusal::Quiet),
        calls,
    }
}
const fn report(group: &'static str, reason: &'static str, calls: &'static [&'static str]) -> Row {
    Row {
        group,
        reason,
        verdict: Verdict::Refuse(Refusal::Notify(EPERM)),
        calls,
    }
}
const fn no_sys(group: &'static str, reason: &'static str, calls: &'static [&'static str]) -> Row {
    Row {
        group,
        reason,
        verdict: Verdict::NoSys,
        calls,
    }
}
/// Allowed under a rule, otherwise refused with a record.
const fn checked(
    group: &'static str,
    reason: &'static str,
    rules: &'static [Rule],
    calls: &'static [&'static str],
) -> Row {
    let verdict = Verdict::AllowIf(Cow::Borrowed(rules), Refusal::Notify(EPERM));
    Row {
        group,
        reason,
        verdict,
        calls,
    }
}
/// Allowed under a rule, otherwise EPERM without a record: programs ask for these to see what there is.
const fn quietly_checked(
    group: &'static str,
    reason: &'static str,
    rules: &'static [Rule],
    calls: &'static [&'static str],
) -> Row {
    let verdict = Verdict::AllowIf(Cow::Borrowed(rules), Refusal::Quiet);
    Row {
        group,
        reason,
        verdict,
        calls,
    }
}

/// Every call this build knows, each in one row.
#[rustfmt::skip]
pub(super) static CHILD: &[Row] = &[
    allow("bytes", "reading and writing what is already open", &[
        "read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2",
        "lseek", "sendfile", "copy_file_range", "splice", "tee", "readahead", "fadvise64",
    ]),
    allow("descriptors", "their own table", &[
        "close", "close_range", "dup", "dup2", "dup3", "fcntl", "pipe", "pipe2", "eventfd", "eventfd2",
    ]),
    allow("metadata", "Landlock cannot judge it; the view decides what exists", &[
        "stat", "fstat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink",
        "readlinkat", "statfs", "fstatfs", "getdents", "getdents64", "getcwd", "chdir", "fchdir", "umask",
        "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
    ]),
    allow("names", "Landlock judges them, and a read-only view", &[
        "rename", "renameat", "renameat2", "rmdir", "link", "linkat", "unlink", "unlinkat", "symlink",
        "symlinkat", "ftruncate", "fallocate",
    ]),
    checked("owners, times, attributes", "a read-only view bounds them, Landlock cannot", on::ATTRIBUTES, &[
        "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat", "setxattr",
        "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
    ]),
    checked("emptying", "mounts judge it, or Landlock from ABI 3", on::TRUNCATE, &["truncate"]),
    allow("durability", "databases", &[
        "fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "flock", "msync",
    ]),
    checked("open", "creates no set-id file; Landlock judges the path", on::OPEN, &["open"]),
    checked("open at", "creates no set-id file; Landlock judges the path", on::OPENAT, &["openat"]),
    checked("modes of new ones", "sets no set-id bit", on::MODE_1, &["creat", "mkdir"]),
    checked("modes of new ones at", "sets no set-id bit", on::MODE_2, &["mkdirat"]),
    checked("modes", "sets no set-id bit; a read-only view bounds it, Landlock cannot", on::CHMOD, &[
        "chmod", "fchmod",
    ]),
    checked("modes at", "sets no set-id bit; a read-only view bounds it, Landlock cannot", on::CHMODAT, &[
        "fchmodat",
    ]),
    checked("nodes", "regular files, pipes and sockets, no devices, no set-id bit", on::MKNOD, &["mknod"]),
    checked("nodes at", "regular files, pipes and sockets, no devices, no set-id bit", on::MKNODAT, &[
        "mknodat",
    ]),
    allow("watches", "file watchers of development servers", &[
        "inotify_init", "inotify_init1", "inotify_rm_watch",
    ]),
    checked("watches of a path", "where a private view says what exists; in host view a stated residual", on::ATTRIBUTES, &[
        "inotify_add_watch",
    ]),
    allow("waiting", "event loops", &[
        "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait",
        "epoll_pwait", "epoll_pwait2", "pause",
    ]),
    allow("memory", "anonymous executable memory is what a JIT needs; files are judged when opened", &[
        "mmap", "munmap", "mprotect", "mremap", "brk", "madvise", "mincore", "mlock", "mlock2", "munlock",
        "mlockall", "munlockall", "pkey_mprotect", "pkey_alloc", "pkey_free", "map_shadow_stack", "mseal",
    ]),
    checked("memory files", "cannot be executed", on::MEMFD, &["memfd_create"]),
    allow("threads", "locks and registrations with the kernel", &[
        "futex", "futex_waitv", "futex_wake", "futex_wait", "futex_requeue", "set_robust_list",
        "get_robust_list", "set_tid_address", "gettid", "rseq", "membarrier", "getcpu", "sched_yield",
        "restart_syscall",
    ]),
    allow("scheduling", "asking, within their limits", &[
        "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
        "sched_get_priority_min", "sched_rr_get_interval", "sched_getattr", "getpriority", "ioprio_get",
    ]),
    checked("scheduling of a thread", "their own; the same user's others are in no pid namespace", on::OWN_FIRST, &[
        "sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr",
    ]),
    checked("priorities", "their own; the same user's others are in no pid namespace", on::OWN_SECOND, &[
        "setpriority", "ioprio_set",
    ]),
    checked("clone", "threads and processes, no namespace", on::CLONE, &["clone"]),
    allow("processes", "the pid namespace bounds them", &[
        "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "getpid", "getppid",
        "getpgid", "getpgrp", "setpgid", "getsid", "setsid", "pidfd_open", "pidfd_send_signal",
    ]),
    allow("signals", "the pid namespace and Landlock's scope bound them", &[
        "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
        "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigsuspend", "sigaltstack", "signalfd", "signalfd4",
        "kill", "tkill", "tgkill",
    ]),
    allow("time", "reading and waiting", &[
        "time", "gettimeofday", "clock_gettime", "clock_getres", "nanosleep", "clock_nanosleep", "alarm",
        "getitimer", "setitimer", "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun",
        "timer_delete", "timerfd_create", "timerfd_settime", "timerfd_gettime", "times",
    ]),
    allow("identity", "without a capability one can only trade among one's own ids, or give some up", &[
        "getuid", "getgid", "geteuid", "getegid", "getresuid", "getresgid", "getgroups", "setuid", "setgid",
        "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "capget", "capset",
    ]),
    allow("limits", "hard limits only go down", &[
        "getrlimit", "setrlimit", "getrusage", "sysinfo", "uname", "getrandom",
    ]),
    checked("limits of a process", "their own; the same user's others are in no pid namespace", on::OWN_FIRST, &[
        "prlimit64",
    ]),
    allow("connected sockets", "what may be made is decided at `socket`, where it may go by cgroup programs", &[
        "connect", "bind", "listen", "accept", "accept4", "sendto", "recvfrom", "sendmsg", "recvmsg",
        "sendmmsg", "recvmmsg", "shutdown", "getsockname", "getpeername", "setsockopt", "getsockopt",
    ]),
    checked("sockets", "families and protocols whose use is seen and refused by address", on::SOCKET, &[
        "socket",
    ]),
    checked("socket pairs", "connected ones reach nobody else", on::SOCKETPAIR, &["socketpair"]),
    checked("ipc", "System V and POSIX queues, where the namespace is the sandbox's own", on::PRIVATE_IPC, &[
        "shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd",
        "msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify",
        "mq_getsetattr",
    ]),
    checked("device control", "requests of terminals, event loops, copies and runtimes", on::IOCTL, &["ioctl"]),
    allow("own restrictions", "a child may confine itself further", &[
        "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
    ]),
    checked("own filters", "further filters, no second listener", on::SECCOMP, &["seccomp"]),
    quietly_checked("process attributes", "names, death signals, self-restriction", on::PRCTL, &["prctl"]),
    quietly_checked("processor state", "thread pointers, shadow stacks, tile registers", on::ARCH_PRCTL, &[
        "arch_prctl",
    ]),
    quietly_checked("personality", "asking, and Linux as it is: randomisation stays", on::PERSONALITY, &[
        "personality",
    ]),
    // ---- answered as an older kernel would ----
    no_sys("hidden arguments", "flags and modes in memory, which no filter sees; libraries fall back", &[
        "openat2", "clone3", "fchmodat2", "io_uring_enter", "io_uring_register", "io_setup", "io_destroy",
        "io_getevents", "io_submit", "io_cancel", "io_pgetevents", "process_madvise", "memfd_secret",
        "statmount", "listmount", "lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "cachestat",
        "setxattrat", "getxattrat", "listxattrat", "removexattrat", "file_getattr", "file_setattr", "listns",
        "rseq_slice_yield",
    ]),
    Row {
        group: "io_uring",
        reason: "a second way to every call; libraries fall back",
        verdict: Verdict::Refuse(Refusal::Notify(ENOSYS)),
        calls: &["io_uring_setup"],
    },
    // ---- refused and recorded ----
    report("other processes", "reading, writing or steering them", &[
        "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "process_mrelease",
    ]),
    report("namespaces", "a new one brings powers of its own", &["unshare", "setns"]),
    report("mounts", "the view is made before the child starts and stays", &[
        "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen",
        "fsmount", "fsconfig", "fspick", "mount_setattr",
    ]),
    report("kernel programs", "eBPF, tracing, page faults handled in user space", &[
        "bpf", "perf_event_open", "userfaultfd",
    ]),
    report("handles", "open files without a path", &["open_by_handle_at", "name_to_handle_at"]),
    report("keys", "keyrings are not in any namespace", &["add_key", "request_key", "keyctl"]),
    report("kernel code", "modules and other kernels", &[
        "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    ]),
    report("the machine", "its disks, clock, name, log and ports", &[
        "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "iopl", "ioperm", "settimeofday",
        "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname",
    ]),
    report("whole-mount watches", "fanotify sees more than its own", &["fanotify_init", "fanotify_mark"]),
    // ---- refused without a record ----
    refuse("memory placement", "other processes' pages, or no use in a sandbox", &[
        "migrate_pages", "move_pages", "mbind", "set_mempolicy", "get_mempolicy", "set_mempolicy_home_node",
        "remap_file_pages", "vmsplice",
    ]),
    refuse("groups", "needs a capability no child has", &["setgroups", "vhangup"]),
    refuse("old or of other machines", "never needed, or gone from the kernel", &[
        "modify_ldt", "set_thread_area", "get_thread_area", "uselib", "ustat", "sysfs", "_sysctl",
        "create_module", "get_kernel_syms", "query_module", "nfsservctl", "getpmsg", "putpmsg", "afs_syscall",
        "tuxcall", "security", "lookup_dcookie", "epoll_ctl_old", "epoll_wait_old", "vserver",
    ]),
    refuse("probes of the kernel's own", "only its trampolines call them, past every filter", &[
        "uretprobe", "uprobe",
    ]),
];

/// On top of it, for a child whose signals nothing else bounds.
#[rustfmt::skip]
pub(super) static SIGNALS: &[Row] = &[
    checked("signals to a process", "asks whether it lives", on::SIGNAL_SECOND, &[
        "kill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal",
    ]),
    checked("signals to a thread", "asks whether it lives", on::SIGNAL_THIRD, &["tgkill", "rt_tgsigqueueinfo"]),
    checked("descriptors that signal", "says who gets SIGIO, and what instead", on::NO_OWNER, &["fcntl"]),
];
