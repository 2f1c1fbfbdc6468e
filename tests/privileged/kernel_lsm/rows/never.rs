//! What no sandbox does.

use guard_common::hooks::{
    BPF, INODE_INIT_SECURITY_ANON, KERNEL_LOAD_DATA, KERNEL_MODULE_REQUEST, KERNEL_READ_FILE, KEY_ALLOC,
    KEY_PERMISSION, MOVE_MOUNT, PATH_CHROOT, PERF_EVENT_OPEN, QUOTACTL, SB_MOUNT, SB_PIVOTROOT, SB_REMOUNT,
    SB_UMOUNT, SETTIME, SYSLOG, URING_ALLOWED, URING_CMD, URING_OVERRIDE_CREDS, URING_SQPOLL, USERNS_CREATE,
};
use libc::{
    AT_FDCWD, CLONE_NEWUSER, MS_BIND, MS_REMOUNT, SYS_add_key, SYS_bpf, SYS_chroot, SYS_finit_module,
    SYS_fsconfig, SYS_fspick, SYS_init_module, SYS_io_uring_register, SYS_io_uring_setup,
    SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl, SYS_mount, SYS_move_mount, SYS_open_tree,
    SYS_perf_event_open, SYS_pivot_root, SYS_quotactl, SYS_settimeofday, SYS_socket, SYS_syslog, SYS_umount2,
    SYS_unshare, SYS_userfaultfd,
};

use super::{A, Actor, EACCES, EPERM, End, NULL, RING, Row, no, yes};

const HERE: A<'static> = A::N(AT_FDCWD as i64);
/// `IORING_REGISTER_PERSONALITY`
const PERSONALITY: i64 = 9;
/// `Q_SYNC` for users.
const SYNC: i64 = 0x8000_0100;

fn mount(a: &mut Actor<'_>, what: &str, to: &str, kind: A<'_>, flags: u64) -> i64 {
    a.call(
        SYS_mount,
        &[A::P(what), A::P(to), kind, A::N(flags as i64), A::N(0)],
    )
}

/// Opens a file through the ring from before.
fn ring_open(a: &mut Actor<'_>, name: &str, flags: u32, personality: i64) -> i64 {
    let hex = a.hex(name);
    // `IORING_OP_OPENAT`, to read.
    a.order(&format!("ring 18 {flags} {AT_FDCWD} p={hex} 0 0 {personality}"))
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = mounts();
    rows.extend(kernel());
    rows.extend(rings());
    rows
}

fn mounts() -> Vec<Row> {
    vec![
        no("a filesystem", &SB_MOUNT, EPERM, |a| {
            mount(a, "rw", "mount2", A::T("tmpfs"), 0)
        }),
        no("another place", &SB_MOUNT, EPERM, |a| {
            mount(a, "outside", "mount2", A::N(0), MS_BIND)
        }),
        no("other rights", &SB_MOUNT, EPERM, |a| {
            mount(a, "rw", "mount", A::N(0), MS_REMOUNT)
        }),
        no("the same by the newer calls", &SB_REMOUNT, EPERM, |a| {
            let picked = a.call(SYS_fspick, &[HERE, A::P("mount"), A::N(0)]);
            a.call(SYS_fsconfig, &[A::N(picked), A::N(7), A::N(0), A::N(0), A::N(0)])
        }),
        no("uncovering", &SB_UMOUNT, EPERM, |a| {
            a.call(SYS_umount2, &[A::P("mount"), A::N(0)])
        }),
        no("a copy by the newer calls", &MOVE_MOUNT, EPERM, |a| {
            let tree = a.call(SYS_open_tree, &[HERE, A::P("mount"), A::N(1)]);
            a.call(
                SYS_move_mount,
                &[A::N(tree), A::T(""), HERE, A::P("mount2"), A::N(4)],
            )
        }),
        no("another root", &SB_PIVOTROOT, EPERM, |a| {
            a.call(SYS_pivot_root, &[A::P("r"), A::P("r/directory")])
        })
        .outside(End::Is(-22)),
        no("another root directory", &PATH_CHROOT, EPERM, |a| {
            a.run(SYS_chroot, &[A::P("rw")])
        }),
        no("users of its own", &USERNS_CREATE, EPERM, |a| {
            a.run(SYS_unshare, &[A::N(i64::from(CLONE_NEWUSER))])
        }),
    ]
}

fn kernel() -> Vec<Row> {
    vec![
        no("a map", &BPF, EPERM, |a| {
            let mut attr = [0; 128];
            for (at, value) in [(0, 2), (4, 4), (8, 4), (12, 1)] {
                attr[at] = value;
            }
            a.call(SYS_bpf, &[A::N(0), A::B(&attr), A::N(72)])
        }),
        no("counting events", &PERF_EVENT_OPEN, EPERM, |a| {
            let mut attr = [0; 128];
            (attr[0], attr[4]) = (1, 128);
            a.call(
                SYS_perf_event_open,
                &[A::B(&attr), A::N(0), A::N(-1), A::N(-1), A::N(0)],
            )
        }),
        no(
            "having a module loaded",
            &KERNEL_MODULE_REQUEST,
            End::Is(-93),
            |a| a.call(SYS_socket, &[A::N(2), A::N(1), A::N(250)]),
        )
        .outside(End::Is(-93)),
        no("a module", &KERNEL_LOAD_DATA, EPERM, |a| {
            a.call(SYS_init_module, &[A::B(&[0; 128]), A::N(128), A::T("")])
        })
        .outside(End::Is(-8)),
        no("a module from a file", &KERNEL_READ_FILE, EPERM, |a| {
            let file = a.open("rwx/program", 0);
            a.call(SYS_finit_module, &[A::N(file), A::T(""), A::N(0)])
        })
        .outside(End::Is(-8)),
        no("another kernel", &KERNEL_LOAD_DATA, EPERM, |a| {
            a.call(SYS_kexec_load, &[A::N(0), A::N(0), A::N(0), A::N(0)])
        }),
        no("another kernel from a file", &KERNEL_READ_FILE, EPERM, |a| {
            let file = a.open("rwx/program", 0);
            a.call(
                SYS_kexec_file_load,
                &[A::N(file), A::N(-1), A::N(1), A::T(""), A::N(4)],
            )
        })
        // It is none.
        .outside(End::Not(-1)),
        no("the kernel's log", &SYSLOG, EPERM, |a| {
            a.call(SYS_syslog, &[A::N(3), A::B(&[0; 64]), A::N(64)])
        }),
        no("the clock", &SETTIME, EPERM, |a| {
            a.call(SYS_settimeofday, &[A::N(0), A::B(&[0; 8])])
        }),
        no("quotas", &QUOTACTL, EPERM, |a| {
            a.call(SYS_quotactl, &[A::N(SYNC), A::N(0), A::N(0), A::N(0)])
        }),
        no("a key", &KEY_ALLOC, EPERM, |a| {
            a.call(
                SYS_add_key,
                &[A::T("user"), A::T("more"), A::B(b"word"), A::N(4), A::N(-1)],
            )
        }),
        no("looking at a key", &KEY_PERMISSION, EPERM, |a| {
            a.call(SYS_keyctl, &[A::N(6), A::N(-2), A::N(0), A::N(0)])
        }),
    ]
}

fn ring(a: &mut Actor<'_>, flags: u8) -> i64 {
    let mut how = [0; 120];
    how[8] = flags;
    a.call(SYS_io_uring_setup, &[A::N(4), A::B(&how)])
}

/// Through a ring from before: a sandbox makes none.
fn rings() -> Vec<Row> {
    vec![
        no("a ring", &URING_ALLOWED, EPERM, |a| ring(a, 0)),
        no("a ring, before 6.15", &INODE_INIT_SECURITY_ANON, EPERM, |a| {
            ring(a, 0)
        }),
        no("its own page faults", &INODE_INIT_SECURITY_ANON, EPERM, |a| {
            a.call(SYS_userfaultfd, &[A::N(0)])
        }),
        no(
            "a ring with a thread of the kernel's, before 6.15",
            &URING_SQPOLL,
            EPERM,
            |a| ring(a, 2),
        ),
        no(
            "other credentials through a ring",
            &URING_OVERRIDE_CREDS,
            EPERM,
            |a| {
                let id = a.call(
                    SYS_io_uring_register,
                    &[A::N(RING), A::N(PERSONALITY), A::N(0), A::N(0)],
                );
                ring_open(a, "r/file", 0, id)
            },
        ),
        no("a device's command through a ring", &URING_CMD, EPERM, |a| {
            a.order(&format!("ring 46 0 {NULL} 0 0 0 0"))
        }),
        no(
            "a file outside through a ring",
            &guard_common::hooks::FILE_OPEN,
            EACCES,
            |a| ring_open(a, "outside/file", 0, 0),
        ),
        yes("a file through a ring", &guard_common::hooks::FILE_OPEN, |a| {
            ring_open(a, "r/file", 0, 0)
        }),
    ]
}
