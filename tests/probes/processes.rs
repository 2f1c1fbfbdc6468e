//! Reaching other processes: signals, tracing, memory, descriptors, environments.

use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use crate::{
    files::{beneath, done, read},
    probe::{Answer, Args, EPERM, Failure, Probe, probe},
    raw::{self, BAD, NULL, call},
};

/// Another process is either not there or not ours to touch.
const UNREACHED: &[&str] = &["ESRCH", "EPERM", "EACCES", "ENOENT", "ENOSYS", "EINVAL"];
const HIDDEN: &[&str] = &["ENOENT", "EACCES", "EPERM", "ESRCH"];

/// Not allowed, or in a user namespace that has no such id not even there.
const NO_SUCH_ID: &[&str] = &["EPERM", "EINVAL"];

pub(crate) const PROBES: &[Probe] = &[
    probe("kill-neighbour", "signals to outside tasks", |a| {
        done(call!(SYS_kill, a.number::<i32>("neighbour")?, 0))
    })
    .refused(&["ESRCH", "EPERM"]),
    probe("tgkill-neighbour", "signals to outside tasks", |a| {
        let pid: i32 = a.number("neighbour")?;
        done(call!(SYS_tgkill, pid, pid, 0))
    })
    .refused(&["ESRCH", "EPERM"]),
    probe("sigqueue-neighbour", "signals to outside tasks", |a| {
        let mut info = [0_u32; 32];
        // SIGURG, which is ignored unless asked for, from SI_QUEUE.
        info[0] = 23;
        info[2] = u32::MAX;
        done(call!(
            SYS_rt_sigqueueinfo,
            a.number::<i32>("neighbour")?,
            23,
            raw::at(&mut info)
        ))
    })
    .refused(&["ESRCH", "EPERM"]),
    probe("pidfd-open-neighbour", "pidfd", |a| {
        done(call!(SYS_pidfd_open, a.number::<i32>("neighbour")?, 0))
    })
    .refused(&["ESRCH", "EPERM", "ENOSYS"]),
    probe("pidfd-getfd", "pidfd_getfd", |_| {
        done(call!(SYS_pidfd_getfd, -1, 0, 0))
    })
    .control(&["EBADF"])
    .seccomp("pidfd_getfd"),
    probe("process-madvise", "pidfd", |_| {
        done(call!(SYS_process_madvise, -1, NULL, 0, 4, 0))
    })
    .control(&["EBADF"])
    .refused(&["EPERM", "ENOSYS"]),
    probe("ptrace-seize", "ptrace", |a| {
        done(call!(
            SYS_ptrace,
            libc::PTRACE_SEIZE,
            a.number::<i32>("neighbour")?,
            NULL,
            NULL
        ))
    })
    .seccomp("ptrace"),
    probe("ptrace-attach", "ptrace", |_| {
        // A pid that cannot be: the kernel gets as far as looking for it.
        done(call!(SYS_ptrace, libc::PTRACE_ATTACH, i32::MAX, NULL, NULL))
    })
    .control(&["ESRCH"])
    .seccomp("ptrace"),
    probe("ptrace-traceme", "ptrace", |_| {
        done(call!(SYS_ptrace, libc::PTRACE_TRACEME, 0, NULL, NULL))
    })
    .seccomp("ptrace"),
    probe("vm-readv", "process_vm_readv", |a| {
        let mut here = [0_u8; 8];
        let mut local = [raw::at(&mut here), 8];
        let mut remote = [BAD, 8];
        let pid: i32 = a.number("neighbour")?;
        done(call!(
            SYS_process_vm_readv,
            pid,
            raw::at(&mut local),
            1,
            raw::at(&mut remote),
            1,
            0
        ))
    })
    .control(&["EFAULT"])
    .seccomp("process_vm_readv"),
    probe("vm-writev", "process_vm_writev", |a| {
        let mut here = [0_u8; 8];
        let mut local = [raw::at(&mut here), 8];
        let mut remote = [BAD, 8];
        let pid: i32 = a.number("neighbour")?;
        done(call!(
            SYS_process_vm_writev,
            pid,
            raw::at(&mut local),
            1,
            raw::at(&mut remote),
            1,
            0
        ))
    })
    .control(&["EFAULT"])
    .seccomp("process_vm_writev"),
    probe("kcmp", "ptrace", |a| {
        let pid: i32 = a.number("neighbour")?;
        done(call!(SYS_kcmp, pid, pid, 1, 0, 0))
    })
    .refused(&["EPERM", "ESRCH", "ENOSYS"])
    .needs("kcmp"),
    probe("prlimit-neighbour", "limits of others", |a| {
        let mut old = [0_u64; 2];
        done(call!(
            SYS_prlimit64,
            a.number::<i32>("neighbour")?,
            libc::RLIMIT_NOFILE,
            NULL,
            raw::at(&mut old)
        ))
    })
    .refused(&["ESRCH", "EPERM"]),
    probe("setpriority-neighbour", "limits of others", |a| {
        done(call!(
            SYS_setpriority,
            libc::PRIO_PROCESS,
            a.number::<i32>("neighbour")?,
            19
        ))
    })
    .refused(&["ESRCH", "EPERM", "EACCES"]),
    probe("affinity-neighbour", "limits of others", |a| {
        let mut mask = [u64::MAX; 16];
        done(call!(
            SYS_sched_setaffinity,
            a.number::<i32>("neighbour")?,
            128,
            raw::at(&mut mask)
        ))
    })
    .refused(&["ESRCH", "EPERM"]),
    probe("migrate-pages", "limits of others", |a| {
        // The first node, to itself. The kernel takes one bit less than it is told.
        let mut nodes = [1_u64];
        done(call!(
            SYS_migrate_pages,
            a.number::<i32>("neighbour")?,
            64,
            raw::at(&mut nodes),
            raw::at(&mut nodes)
        ))
    })
    .refused(UNREACHED)
    .needs("numa"),
    probe("getpgid-neighbour", "other processes seen", |a| {
        done(call!(SYS_getpgid, a.number::<i32>("neighbour")?))
    })
    .refused(&["ESRCH", "EPERM"]),
    probe("proc-neighbour", "/proc/PID", |a| {
        Ok(fs::read_to_string(proc_of(a, "cmdline")?)?)
    })
    .refused(HIDDEN),
    probe("proc-neighbour-environ", "/proc/PID/environ", |a| {
        read(&proc_of(a, "environ")?)
    })
    .refused(HIDDEN),
    probe("proc-neighbour-mem", "/proc/PID/mem", |a| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(proc_of(a, "mem")?)?;
        Ok(String::new())
    })
    .refused(HIDDEN),
    probe("proc-neighbour-fd", "/proc/PID/fd", |a| {
        Ok(fs::read_dir(proc_of(a, "fd")?)?.count().to_string())
    })
    .refused(HIDDEN),
    probe("proc-neighbour-root", "/proc/PID/root", |a| {
        read(
            &beneath(
                &format!("/proc/{}/root", a.text("neighbour")?),
                a.text("outside")?,
            )
            .join("secret"),
        )
    })
    .refused(HIDDEN),
    // Pid 1 inside is our own init. Outside, a process of root stands in for it (`first`).
    probe("proc-1-root", "/proc/PID/root", |a| {
        read(&beneath(&format!("/proc/{}/root", a.text("first")?), a.text("outside")?).join("secret"))
    })
    .root()
    .refused(HIDDEN),
    probe("proc-1-cwd", "/proc/PID/cwd", |a| {
        Ok(fs::read_link(first(a, "cwd")?)?.display().to_string())
    })
    .root()
    .refused(HIDDEN),
    probe("proc-1-exe", "/proc/PID/exe", |a| opened(&first(a, "exe")?))
        .root()
        .refused(HIDDEN),
    // An empty environment reads as nothing: opening it is the attempt.
    probe("proc-1-environ", "parent's environ", |a| {
        opened(&first(a, "environ")?)
    })
    .root()
    .refused(HIDDEN),
    probe("proc-1-mem", "/proc/PID/mem", |a| {
        OpenOptions::new().read(true).write(true).open(first(a, "mem")?)?;
        Ok(String::new())
    })
    .root()
    .refused(HIDDEN),
    probe("proc-1-maps", "/proc/PID/maps", |a| {
        Ok(fs::read_to_string(first(a, "maps")?)?.len().to_string())
    })
    .root()
    .refused(HIDDEN),
    probe("proc-1-fd", "/proc/PID/fd", |a| {
        Ok(fs::read_dir(first(a, "fd")?)?.count().to_string())
    })
    .root()
    .refused(HIDDEN),
    probe("proc-sys-write", "/proc/sys", |_| {
        write_only("/proc/sys/kernel/core_pattern")
    })
    .root()
    .refused(&["EACCES", "EROFS", "EPERM", "ENOENT"]),
    probe("proc-sysrq", "/proc/sys", |_| write_only("/proc/sysrq-trigger"))
        .root()
        .refused(&["EACCES", "EROFS", "EPERM", "ENOENT"])
        .needs("sysrq"),
    probe("proc-kcore", "/proc/kcore", |_| read(Path::new("/proc/kcore")))
        .root()
        .refused(HIDDEN)
        .needs("kcore"),
    probe("setuid-0", "P: uid", |_| done(call!(SYS_setuid, 0)))
        .root()
        .refused(NO_SUCH_ID),
    probe("setresuid-0", "P: uid", |_| done(call!(SYS_setresuid, 0, 0, 0)))
        .root()
        .refused(NO_SUCH_ID),
    probe("setgid-0", "P: uid", |_| done(call!(SYS_setgid, 0)))
        .root()
        .refused(NO_SUCH_ID),
    probe("setgroups", "P: uid", |_| {
        let mut groups = [0_u32];
        done(call!(SYS_setgroups, 1, raw::at(&mut groups)))
    })
    .root()
    .refused(EPERM),
    probe("setfsuid-0", "P: uid", |_| {
        call!(SYS_setfsuid, 0)?;
        // The call answers the uid it had before; asking with an invalid one tells what it is now.
        match call!(SYS_setfsuid, -1)? {
            0 => Ok(String::from("file-system uid 0")),
            other => Err(Failure::Word("not-raised", other.to_string())),
        }
    })
    .root()
    .refused(&["not-raised", "EPERM"]),
    probe("capset", "P: capabilities", |_| {
        // Version 3, this process: CAP_SYS_ADMIN effective and permitted.
        let mut header = [0x2008_0522_u32, 0];
        let mut sets = [1_u32 << 21, 1 << 21, 0, 0, 0, 0];
        done(call!(SYS_capset, raw::at(&mut header), raw::at(&mut sets)))
    })
    .root()
    .refused(EPERM),
    probe("securebits", "P: capabilities", |_| {
        done(call!(SYS_prctl, libc::PR_SET_SECUREBITS, 0, 0, 0, 0))
    })
    .root()
    .refused(EPERM),
    probe("oom-score", "limits of others", |_| {
        fs::write("/proc/self/oom_score_adj", "-1000")?;
        Ok(String::new())
    })
    .root()
    .refused(&["EACCES", "EPERM", "EROFS"])
    .needs("cap-sys-resource"),
];

fn proc_of(args: &Args, name: &str) -> Result<std::path::PathBuf, Failure> {
    Ok(Path::new("/proc").join(args.text("neighbour")?).join(name))
}

fn first(args: &Args, name: &str) -> Result<std::path::PathBuf, Failure> {
    Ok(Path::new("/proc").join(args.text("first")?).join(name))
}

fn opened(path: &Path) -> Answer {
    fs::File::open(path)?;
    Ok(String::new())
}

/// Opened and closed again; nothing is ever written.
fn write_only(path: &str) -> Answer {
    OpenOptions::new().write(true).open(path)?;
    Ok(String::new())
}
