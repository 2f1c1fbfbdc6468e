//! Interfaces that steer the kernel itself. Every call carries arguments that cannot take effect.

use crate::{
    files::done,
    probe::{ENOSYS, EPERM, Probe, probe},
    raw::{self, BAD, NULL, call},
};

/// Root reaches it with the errno named; inside it is refused by number, with a record.
const fn steer(
    name: &'static str,
    op: &'static str,
    reached: &'static [&'static str],
    run: crate::probe::Run,
) -> Probe {
    probe(name, "bpf, perf, uring, keys, modules, clocks, reboot", run)
        .root()
        .control(reached)
        .seccomp(op)
}

const OK: &[&str] = &["ok"];
const KEYRING_USER: i32 = -4;

pub(crate) const PROBES: &[Probe] = &[
    steer("bpf-map", "bpf", OK, |_| {
        // BPF_MAP_CREATE of a one-slot array.
        let mut attributes = [2_u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        done(call!(SYS_bpf, 0, raw::at(&mut attributes), 64))
    }),
    steer("bpf-get-next-id", "bpf", &["ok", "ENOENT"], |_| {
        let mut attributes = [0_u32; 16];
        done(call!(SYS_bpf, 11, raw::at(&mut attributes), 64))
    }),
    steer("perf-event", "perf_event_open", &["EFAULT"], |_| {
        done(call!(SYS_perf_event_open, BAD, 0, -1, -1, 0))
    }),
    steer("userfaultfd", "userfaultfd", OK, |_| {
        done(call!(SYS_userfaultfd, 0))
    }),
    probe("uring-setup", "io_uring", |_| {
        let mut parameters = [0_u32; 32];
        done(call!(SYS_io_uring_setup, 1, raw::at(&mut parameters)))
    })
    .refused(ENOSYS),
    probe("uring-enter", "io_uring", |_| {
        done(call!(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0))
    })
    .control(&["EBADF"])
    .refused(ENOSYS),
    probe("uring-register", "io_uring", |_| {
        done(call!(SYS_io_uring_register, -1, 0, NULL, 0))
    })
    .control(&["EBADF", "EINVAL"])
    .refused(ENOSYS),
    probe("keyctl", "keys", |_| {
        done(call!(SYS_keyctl, 0, KEYRING_USER, 0, 0, 0))
    })
    .control(&["ok", "ENOKEY"])
    .seccomp("keyctl"),
    probe("add-key", "keys", |_| {
        done(call!(SYS_add_key, c"user", BAD, BAD, 8, KEYRING_USER))
    })
    .control(&["EFAULT"])
    .seccomp("add_key"),
    probe("request-key", "keys", |_| {
        done(call!(SYS_request_key, BAD, BAD, NULL, 0))
    })
    .control(&["EFAULT"])
    .seccomp("request_key"),
    steer("syslog", "syslog", OK, |_| done(call!(SYS_syslog, 10, NULL, 0))),
    steer("init-module", "init_module", &["EFAULT", "ENOEXEC"], |_| {
        done(call!(SYS_init_module, BAD, 64, c""))
    })
    .needs("modules"),
    steer("finit-module", "finit_module", &["EBADF"], |_| {
        done(call!(SYS_finit_module, -1, c"", 0))
    })
    .needs("modules"),
    steer("delete-module", "delete_module", &["ENOENT", "EFAULT"], |_| {
        done(call!(SYS_delete_module, c"no_such_module", 0))
    })
    .needs("modules"),
    steer("kexec-load", "kexec_load", &["EINVAL"], |_| {
        done(call!(SYS_kexec_load, 0, 999, NULL, 0))
    })
    .needs("kexec"),
    steer("kexec-file-load", "kexec_file_load", &["EINVAL", "EBADF"], |_| {
        done(call!(SYS_kexec_file_load, -1, -1, 0, NULL, 0xffff))
    })
    .needs("kexec-file"),
    steer("reboot", "reboot", &["EINVAL"], |_| {
        done(call!(SYS_reboot, 0, 0, 0, NULL))
    }),
    steer("swapon", "swapon", &["ENOENT"], |_| {
        done(call!(SYS_swapon, c"/no/such", 0))
    })
    .needs("swap"),
    steer("swapoff", "swapoff", &["ENOENT"], |_| {
        done(call!(SYS_swapoff, c"/no/such"))
    })
    .needs("swap"),
    steer("sethostname", "sethostname", &["EFAULT"], |_| {
        done(call!(SYS_sethostname, BAD, 5))
    }),
    steer("setdomainname", "setdomainname", &["EFAULT"], |_| {
        done(call!(SYS_setdomainname, BAD, 5))
    }),
    steer("settimeofday", "settimeofday", &["EINVAL"], |_| {
        let mut time = [0_i64, 2_000_000];
        done(call!(SYS_settimeofday, raw::at(&mut time), NULL))
    }),
    steer("clock-settime", "clock_settime", &["EINVAL"], |_| {
        let mut time = [0_i64, -1];
        done(call!(SYS_clock_settime, 0, raw::at(&mut time)))
    }),
    steer("clock-adjtime", "clock_adjtime", &["EFAULT"], |_| {
        done(call!(SYS_clock_adjtime, 0, BAD))
    }),
    steer("iopl", "iopl", OK, |_| done(call!(SYS_iopl, 3))).needs("iopl"),
    steer("ioperm", "ioperm", OK, |_| done(call!(SYS_ioperm, 0x80, 1, 1))).needs("ioperm"),
    steer("quotactl", "quotactl", &["ENOENT", "ENODEV", "ENOTBLK"], |_| {
        // Q_GETINFO for user quotas of a device that is not there.
        done(call!(SYS_quotactl, 0x8000_0500_u32, c"/no/such", 0, BAD))
    })
    .needs("quota"),
    steer("acct", "acct", &["ENOENT"], |_| {
        done(call!(SYS_acct, c"/no/such"))
    })
    .needs("acct"),
    probe("modify-ldt", "personality", |_| {
        done(call!(SYS_modify_ldt, 0, NULL, 0))
    })
    .refused(&["EPERM", "ENOSYS"])
    .needs("ldt"),
    probe("personality", "personality", |_| {
        done(call!(SYS_personality, 0x0040_0000))
    })
    .refused(EPERM),
    probe("mbind-move-all", "limits of others", |_| {
        done(call!(SYS_move_pages, 0, 1, BAD, NULL, BAD, 2))
    })
    .control(&["EFAULT"])
    .refused(&["EPERM", "ENOSYS"])
    .needs("numa"),
    probe("tiocsti", "TIOCSTI, TIOCLINUX", |_| ioctl(0x5412))
        .control(&["ENOTTY"])
        .seccomp("ioctl"),
    probe("tiocsti-high-bits", "TIOCSTI, TIOCLINUX", |_| {
        ioctl(0x1_0000_5412)
    })
    .control(&["ENOTTY"])
    .seccomp("ioctl"),
    probe("tioclinux", "TIOCSTI, TIOCLINUX", |_| ioctl(0x541c))
        .control(&["ENOTTY"])
        .seccomp("ioctl"),
    probe("vhangup", "TIOCSTI, TIOCLINUX", |_| done(call!(SYS_vhangup)))
        .root()
        .refused(EPERM),
    probe("set-file-flags", "fsflags", |a| {
        let file = std::os::fd::OwnedFd::from(std::fs::File::open(a.rw("own")?)?);
        // FS_IOC_SETFLAGS
        done(call!(SYS_ioctl, file, 0x4008_6602, BAD))
    })
    .control(&["EFAULT"])
    .seccomp("ioctl"),
    probe("seccomp-listener", "filters", |_| {
        call!(SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)?;
        done(call!(SYS_seccomp, 1, 8, BAD))
    })
    .control(&["EFAULT"])
    .seccomp("seccomp"),
    probe("x32", "foreign system calls", |_| {
        done(raw::syscall(0x4000_0000 + libc::SYS_getpid, &[]))
    })
    .control(&["ok", "ENOSYS"])
    .refused(&["SIGSYS"]),
    probe("int80", "foreign system calls", |_| int80())
        .refused(&["SIGSYS"])
        .needs("ia32"),
];

/// On a pipe, which is no terminal: `ENOTTY` comes from the pipe, so the call had passed.
fn ioctl(command: u64) -> crate::probe::Answer {
    let (from, _to) = nix::unistd::pipe()?;
    done(call!(SYS_ioctl, from, command, BAD))
}

#[expect(unsafe_code, reason = "the 32-bit gate is an instruction")]
fn int80() -> crate::probe::Answer {
    let result: i32;
    // SAFETY: 32-bit getpid takes no argument and touches no memory; the gate clobbers r8 to r11.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") 20 => result, lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _);
    }
    if result < 0 {
        return Err(nix::errno::Errno::from_raw(-result).into());
    }
    Ok(result.to_string())
}
