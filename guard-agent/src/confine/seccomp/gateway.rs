//! The table of the gateway: it moves bytes between descriptors it already has, on threads, and nothing else.
//!
//! A call outside the table gets EPERM, so that a library's optional question does not end a session. What only
//! an intruder asks for (another program, a socket, another process) kills: the gateway parses untrusted bytes,
//! one such call means that it is no longer ours, and the warden sees SIGSYS as the reason of its end.
//! Opening is EPERM, not death: libc looks for locales, time zones and the number of processors.

use std::borrow::Cow;

use super::rule::{Cond, Refusal, Row, Rule, Verdict};

const PROT_EXEC: u32 = libc::PROT_EXEC as u32;
/// What makes a clone a thread and not a process.
const THREAD: u32 = (libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD) as u32;
const FIONBIO: u32 = 0x5421;
const PR_SET_VMA: u32 = 0x5356_4d41;

const NOT_EXEC: &[Rule] = &[Rule::new(&[Cond::masked(2, PROT_EXEC, 0)])];
const THREADS: &[Rule] = &[Rule::new(&[Cond::masked(0, THREAD, THREAD)])];
const FCNTL: &[Rule] = &[
    Rule::new(&[Cond::eq(1, libc::F_GETFD as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_SETFD as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_GETFL as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_SETFL as u32)]),
    Rule::new(&[Cond::eq(1, libc::F_DUPFD_CLOEXEC as u32)]),
];
const NONBLOCK: &[Rule] = &[Rule::new(&[Cond::eq(1, FIONBIO)])];
const ASKING: &[Rule] = &[Rule::new(&[Cond::null(2)])];
const NAMES: &[Rule] = &[
    Rule::new(&[Cond::eq(0, libc::PR_SET_NAME as u32)]),
    Rule::new(&[Cond::eq(0, PR_SET_VMA)]),
];
const FILTER: &[Rule] = &[Rule::new(&[
    Cond::eq(0, libc::SECCOMP_SET_MODE_FILTER),
    Cond::eq(1, libc::SECCOMP_FILTER_FLAG_TSYNC as u32),
])];

const fn allow(group: &'static str, reason: &'static str, calls: &'static [&'static str]) -> Row {
    Row {
        group,
        reason,
        verdict: Verdict::Allow,
        calls,
    }
}
const fn only_if(
    group: &'static str,
    reason: &'static str,
    rules: &'static [Rule],
    otherwise: Refusal,
    calls: &'static [&'static str],
) -> Row {
    Row {
        group,
        reason,
        verdict: Verdict::AllowIf(Cow::Borrowed(rules), otherwise),
        calls,
    }
}
const fn kill(group: &'static str, reason: &'static str, calls: &'static [&'static str]) -> Row {
    Row {
        group,
        reason,
        verdict: Verdict::Refuse(Refusal::Kill),
        calls,
    }
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    allow("bytes", "the relay and its one socket", &[
        "read", "write", "readv", "writev", "sendmsg", "recvmsg", "sendto", "recvfrom", "shutdown", "poll",
        "ppoll", "close", "fstat",
    ]),
    allow("memory", "not executable", &["munmap", "madvise", "mremap", "brk"]),
    only_if("mappings", "not executable", NOT_EXEC, Refusal::Kill, &["mmap", "mprotect"]),
    only_if("clone", "threads", THREADS, Refusal::Kill, &["clone"]),
    allow("threads", "locks and registrations", &[
        "futex", "set_robust_list", "rseq", "gettid", "getpid", "sched_yield", "sched_getaffinity",
        "restart_syscall", "exit", "exit_group",
    ]),
    allow("signals", "handlers; sending is in a row of its own", &[
        "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "rt_sigpending", "sigaltstack",
    ]),
    allow("time and chance", "timeouts, hash seeds", &[
        "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "getrandom",
    ]),
    only_if("descriptor flags", "asking, non-blocking, close on exec, duplicates", FCNTL, Refusal::Quiet, &["fcntl"]),
    only_if("non-blocking", "the one request", NONBLOCK, Refusal::Quiet, &["ioctl"]),
    only_if("limits", "asking only", ASKING, Refusal::Quiet, &["prlimit64"]),
    only_if("thread and mapping names", "asked for by libc", NAMES, Refusal::Quiet, &["prctl"]),
    only_if("last filter", "installed behind this one; it can only take more away", FILTER, Refusal::Kill, &["seccomp"]),
    Row {
        group: "new forms",
        reason: "arguments in memory; libc falls back to `clone`",
        verdict: Verdict::NoSys,
        calls: &["clone3"],
    },
    kill("another program", "the gateway never starts one", &[
        "execve", "execveat", "fork", "vfork", "memfd_create",
    ]),
    kill("another process", "it has no business with any", &[
        "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "pidfd_send_signal",
        "kill", "tkill", "kcmp",
    ]),
    kill("another connection", "it has the one it was given", &[
        "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4",
    ]),
    kill("more power", "the kernel's own doors", &[
        "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "unshare", "setns", "mount", "umount2",
        "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
        "mount_setattr", "open_by_handle_at", "name_to_handle_at", "init_module", "finit_module",
        "kexec_load", "kexec_file_load", "reboot", "keyctl", "add_key", "request_key", "setuid", "setresuid",
        "setreuid", "personality", "modify_ldt", "iopl", "ioperm",
    ]),
];

/// The rows, with `tgkill` bound to the process that calls this: `abort` needs it, nothing else does.
pub(super) fn rows() -> Vec<Row> {
    let own = Rule {
        needs: super::rule::Needs::Nothing,
        conds: vec![Cond::eq(0, std::process::id())].into(),
    };
    let mut rows = ROWS.to_vec();
    rows.push(Row {
        group: "abort",
        reason: "a signal to itself",
        verdict: Verdict::AllowIf(vec![own].into(), Refusal::Kill),
        calls: &["tgkill"],
    });
    rows
}
