//! Other processes: of nobody's sandbox, and own children.

use guard_common::hooks::{PTRACE_ACCESS_CHECK, PTRACE_TRACEME, TASK_ALLOC, TASK_KILL};
use libc::{
    SIGCONT, SIGKILL, SYS_getpid, SYS_kcmp, SYS_kill, SYS_open, SYS_pidfd_getfd, SYS_pidfd_open,
    SYS_pidfd_send_signal, SYS_ptrace, SYS_readlink, SYS_tgkill, SYS_wait4,
};

use super::{A, Actor, EACCES, EPERM, End, Row, no, yes};

const SEIZE: i64 = 0x4206;

fn stranger(a: &Actor<'_>) -> i64 {
    i64::from(a.place.bystander.pid())
}

fn child(a: &mut Actor<'_>) -> i64 {
    let child = a.order("child");
    assert!(child > 0, "{child}");
    child
}

fn ended(a: &mut Actor<'_>, child: i64) {
    assert_eq!(a.call(SYS_kill, &[A::N(child), A::N(i64::from(SIGKILL))]), 0);
    assert_eq!(
        a.call(SYS_wait4, &[A::N(child), A::N(0), A::N(0), A::N(0)]),
        child
    );
}

/// Something done to an own child.
fn own(a: &mut Actor<'_>, act: impl FnOnce(&mut Actor<'_>, i64) -> i64) -> i64 {
    let child = child(a);
    let result = act(a, child);
    ended(a, child);
    result
}

fn read_link(a: &mut Actor<'_>, pid: i64, what: &str) -> i64 {
    let link = format!("/proc/{pid}/{what}");
    a.call(SYS_readlink, &[A::T(&link), A::B(&[0; 256]), A::N(256)])
}

fn take_file(a: &mut Actor<'_>, pid: i64) -> i64 {
    let process = a.call(SYS_pidfd_open, &[A::N(pid), A::N(0)]);
    assert!(process > 2, "{process}");
    a.call(SYS_pidfd_getfd, &[A::N(process), A::N(0), A::N(0)])
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = looks();
    rows.extend(signals());
    rows
}

/// The kernel makes EPERM of what the hook says in some of its calls.
fn looks() -> Vec<Row> {
    vec![
        no("tracing", &PTRACE_ACCESS_CHECK, EACCES, |a| {
            let pid = stranger(a);
            a.run(SYS_ptrace, &[A::N(SEIZE), A::N(pid), A::N(0), A::N(0)])
        }),
        no("where it is", &PTRACE_ACCESS_CHECK, EACCES, |a| {
            let pid = stranger(a);
            read_link(a, pid, "cwd")
        }),
        no("a file by way of its root", &PTRACE_ACCESS_CHECK, EACCES, |a| {
            let name = format!("/proc/{}/root/etc", stranger(a));
            a.call(SYS_open, &[A::T(&name), A::N(0)])
        }),
        no("its memory", &PTRACE_ACCESS_CHECK, EPERM, |a| {
            let order = format!("peek {}", stranger(a));
            a.order(&order)
        })
        // Its addresses are others.
        .outside(End::Not(-1)),
        no("its open files", &PTRACE_ACCESS_CHECK, EPERM, |a| {
            let pid = stranger(a);
            take_file(a, pid)
        }),
        no("what it shares", &PTRACE_ACCESS_CHECK, EPERM, |a| {
            let pid = stranger(a);
            let own = a.call(SYS_getpid, &[]);
            a.call(SYS_kcmp, &[A::N(own), A::N(pid), A::N(1), A::N(0), A::N(0)])
        }),
        no("being traced from outside", &PTRACE_TRACEME, EACCES, |a| {
            // A child of the outer subject's is traced in its place: tracing ends with it.
            if a.name == "outside" {
                return a.run(SYS_ptrace, &[A::N(0)]);
            }
            a.call(SYS_ptrace, &[A::N(0)])
        }),
        yes("tracing an own child", &PTRACE_ACCESS_CHECK, |a| {
            own(a, |a, child| {
                a.call(SYS_ptrace, &[A::N(SEIZE), A::N(child), A::N(0), A::N(0)])
            })
        }),
        yes("an own child's memory", &PTRACE_ACCESS_CHECK, |a| {
            own(a, |a, child| a.order(&format!("peek {child}")))
        }),
        yes("an own child's open files", &PTRACE_ACCESS_CHECK, |a| {
            own(a, take_file)
        }),
        yes("where an own child is", &PTRACE_ACCESS_CHECK, |a| {
            own(a, |a, child| read_link(a, child, "cwd"))
        }),
        yes("being traced by its parent", &PTRACE_TRACEME, |a| {
            a.run(SYS_ptrace, &[A::N(0)])
        }),
    ]
}

fn signals() -> Vec<Row> {
    vec![
        no("whether it is there", &TASK_KILL, EACCES, |a| {
            let pid = stranger(a);
            a.call(SYS_kill, &[A::N(pid), A::N(0)])
        }),
        no("a signal to go on", &TASK_KILL, EACCES, |a| {
            let pid = stranger(a);
            a.call(SYS_kill, &[A::N(pid), A::N(i64::from(SIGCONT))])
        }),
        no("a signal to a thread", &TASK_KILL, EACCES, |a| {
            let pid = stranger(a);
            a.call(SYS_tgkill, &[A::N(pid), A::N(pid), A::N(i64::from(SIGCONT))])
        }),
        no("a signal through a descriptor", &TASK_KILL, EACCES, |a| {
            let pid = stranger(a);
            let process = a.call(SYS_pidfd_open, &[A::N(pid), A::N(0)]);
            a.call(SYS_pidfd_send_signal, &[A::N(process), A::N(0), A::N(0), A::N(0)])
        }),
        no("a signal to the test", &TASK_KILL, EACCES, |a| {
            let pid = i64::from(std::process::id());
            a.call(SYS_kill, &[A::N(pid), A::N(0)])
        }),
        yes("an own child ended", &TASK_KILL, |a| {
            own(a, |a, child| a.call(SYS_kill, &[A::N(child), A::N(0)]))
        }),
        yes("a signal to itself", &TASK_KILL, |a| {
            let pid = a.call(SYS_getpid, &[]);
            a.run(SYS_kill, &[A::N(pid), A::N(i64::from(SIGCONT))])
        }),
        yes("a child", &TASK_ALLOC, |a| a.run(SYS_getpid, &[])),
    ]
}
