//! New namespaces, other namespaces, and changes to the mount tree.
#![expect(unsafe_code, reason = "a raw clone is a fork")]

use std::{fs::File, os::fd::OwnedFd};

use crate::{
    files::done,
    probe::{Answer, ENOSYS, Probe, probe},
    raw::{self, BAD, NULL, call},
};

/// A call that only root reaches, made with arguments that cannot work: `reached` names the errno of reaching it.
const fn denied(
    name: &'static str,
    op: &'static str,
    reached: &'static [&'static str],
    run: crate::probe::Run,
) -> Probe {
    probe(name, "mount, bind, move_mount, pivot_root, umount", run)
        .root()
        .control(reached)
        .seccomp(op)
}

pub(crate) const PROBES: &[Probe] = &[
    probe("unshare-user", "userns, unshare", |_| {
        done(call!(SYS_unshare, libc::CLONE_NEWUSER))
    })
    .seccomp("unshare"),
    probe("unshare-user-mount", "userns bind mount", |_| {
        done(call!(SYS_unshare, libc::CLONE_NEWUSER | libc::CLONE_NEWNS))
    })
    .seccomp("unshare"),
    probe("unshare-net", "userns, unshare", |_| {
        done(call!(SYS_unshare, libc::CLONE_NEWNET))
    })
    .root()
    .seccomp("unshare"),
    probe("unshare-mount", "userns, unshare", |_| {
        done(call!(SYS_unshare, libc::CLONE_NEWNS))
    })
    .root()
    .seccomp("unshare"),
    probe("unshare-pid", "userns, unshare", |_| {
        done(call!(SYS_unshare, libc::CLONE_NEWPID))
    })
    .root()
    .seccomp("unshare"),
    probe("unshare-cgroup", "userns, unshare", |_| {
        done(call!(SYS_unshare, libc::CLONE_NEWCGROUP))
    })
    .root()
    .seccomp("unshare"),
    probe("setns-net", "setns", |a| {
        let space = OwnedFd::from(File::open(format!("/proc/{}/ns/net", a.text("first")?))?);
        done(call!(SYS_setns, space, 0))
    })
    .root()
    .refused(&["EACCES", "EPERM", "ENOENT"]),
    probe("setns-bad", "setns", |_| done(call!(SYS_setns, -1, 0)))
        .root()
        .control(&["EBADF"])
        .seccomp("setns"),
    probe("clone-newuser", "clone ns flags", |_| clone(libc::CLONE_NEWUSER)).seccomp("clone"),
    probe("clone-newnet", "clone ns flags", |_| clone(libc::CLONE_NEWNET))
        .root()
        .seccomp("clone"),
    probe("clone3", "clone ns flags", |_| done(call!(SYS_clone3, NULL, 0)))
        .control(&["EINVAL"])
        .refused(ENOSYS),
    probe("clone-into-cgroup", "CLONE_INTO_CGROUP", |_| {
        // struct clone_args with CLONE_INTO_CGROUP and a descriptor that is not open.
        let mut clone = [0x2_0000_0000_u64, 0, 0, 0, 17, 0, 0, 0, 0, 0, u64::MAX];
        done(call!(SYS_clone3, raw::at(&mut clone), 88))
    })
    .root()
    .control(&["EBADF", "EINVAL"])
    .refused(ENOSYS),
    denied("mount-unknown", "mount", &["ENODEV"], |a| {
        done(call!(
            SYS_mount,
            c"none",
            raw::path(a.path("rw")?),
            c"no-such-file-system",
            0,
            NULL
        ))
    }),
    denied("mount-bind", "mount", &["ENOENT"], |a| {
        done(call!(
            SYS_mount,
            c"/no/such/source",
            raw::path(a.path("rw")?),
            NULL,
            libc::MS_BIND,
            NULL
        ))
    }),
    denied("mount-remount", "mount", &["EINVAL"], |a| {
        done(call!(
            SYS_mount,
            NULL,
            raw::path(a.path("rw")?),
            NULL,
            libc::MS_REMOUNT | libc::MS_BIND,
            NULL
        ))
    }),
    denied("mount-propagation", "mount", &["EINVAL"], |a| {
        done(call!(
            SYS_mount,
            NULL,
            raw::path(a.path("rw")?),
            NULL,
            libc::MS_SHARED | libc::MS_PRIVATE,
            NULL
        ))
    }),
    denied("umount", "umount2", &["EINVAL"], |a| {
        done(call!(SYS_umount2, raw::path(a.path("rw")?), 0))
    }),
    denied("pivot-root", "pivot_root", &["ENOENT"], |_| {
        done(call!(SYS_pivot_root, c"/no/such", c"/no/such/old"))
    }),
    probe("chroot", "chroot", |_| done(call!(SYS_chroot, c"/")))
        .root()
        .seccomp("chroot"),
    denied("open-tree", "open_tree", &["ok"], |a| {
        done(call!(SYS_open_tree, libc::AT_FDCWD, raw::path(a.path("rw")?), 1))
    }),
    probe(
        "open-tree-plain",
        "mount, bind, move_mount, pivot_root, umount",
        |a| done(call!(SYS_open_tree, libc::AT_FDCWD, raw::path(a.path("rw")?), 0)),
    )
    .seccomp("open_tree"),
    denied("fsopen", "fsopen", &["ok"], |_| {
        done(call!(SYS_fsopen, c"tmpfs", 0))
    }),
    denied("fspick", "fspick", &["ENOENT"], |_| {
        done(call!(SYS_fspick, libc::AT_FDCWD, c"/no/such", 0))
    }),
    denied("fsconfig", "fsconfig", &["EINVAL", "EBADF"], |_| {
        done(call!(SYS_fsconfig, -1, 6, NULL, NULL, 0))
    }),
    denied("fsmount", "fsmount", &["EBADF", "EINVAL"], |_| {
        done(call!(SYS_fsmount, -1, 0, 0))
    }),
    denied("move-mount", "move_mount", &["EBADF", "ENOENT"], |_| {
        done(call!(SYS_move_mount, -1, c"no", -1, c"such", 0))
    }),
    denied(
        "mount-setattr",
        "mount_setattr",
        &["EINVAL", "EBADF", "EFAULT"],
        |_| done(call!(SYS_mount_setattr, -1, c"no", 0, BAD, 32)),
    ),
    probe("statmount", "mount tree made visible", |_| {
        done(raw::syscall(457, &[BAD, BAD, 64, 0]))
    })
    .control(&["EFAULT", "EINVAL"])
    .refused(&["EPERM", "ENOSYS"])
    .needs("statmount"),
];

fn clone(flag: i32) -> Answer {
    // SAFETY: without a stack and without CLONE_VM this is fork; the child leaves at once.
    let child = call!(SYS_clone, flag | libc::SIGCHLD, NULL, NULL, NULL, NULL)?;
    if child == 0 {
        // SAFETY: ends the new process without running anything of the parent's.
        unsafe { libc::_exit(0) }
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child).unwrap_or(-1));
    nix::sys::wait::waitpid(pid, None)?;
    Ok(String::new())
}
