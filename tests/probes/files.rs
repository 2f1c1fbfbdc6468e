//! Reading, making and changing files outside the roots, and beyond a root's rights.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use nix::errno::Errno;

use crate::{
    probe::{Answer, ENOSYS, FIXED, Failure, GONE, Probe, probe},
    raw::{self, BAD, call},
};

pub(crate) const PROBES: &[Probe] = &[
    probe("open-read", "open outside", |a| read(&a.outside("secret")?)),
    probe("open-write", "open outside", |a| overwrite(&a.outside("victim")?))
        .refused(FIXED)
        .mutates(),
    probe("open-append", "open outside", |a| {
        OpenOptions::new()
            .append(true)
            .open(a.outside("victim")?)?
            .write_all(b"x")?;
        Ok(String::new())
    })
    .refused(FIXED)
    .mutates(),
    probe("create", "O_CREAT outside", |a| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(a.outside("new")?)?;
        Ok(String::new())
    })
    .refused(FIXED)
    .mutates(),
    probe("tmpfile", "O_CREAT outside", |a| {
        OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .open(a.path("outside")?)?;
        Ok(String::new())
    })
    .refused(FIXED),
    probe("truncate", "truncate by path", |a| {
        done(call!(SYS_truncate, raw::path(a.outside("victim")?), 0))
    })
    .refused(FIXED)
    .mutates(),
    probe("open-truncate", "truncate by path", |a| {
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(a.outside("victim")?)?;
        Ok(String::new())
    })
    .refused(FIXED)
    .mutates(),
    probe("openat2", "openat2", |a| {
        let mut how = [libc::O_RDONLY as u64, 0, 0];
        done(call!(
            SYS_openat2,
            libc::AT_FDCWD,
            raw::path(a.outside("secret")?),
            raw::at(&mut how),
            24
        ))
    })
    .refused(ENOSYS),
    probe("readdir", "open outside", |a| {
        Ok(fs::read_dir(a.path("outside")?)?.count().to_string())
    }),
    probe("stat", "stat, O_PATH, access", |a| {
        Ok(fs::metadata(a.outside("secret")?)?.len().to_string())
    })
    .private_only(),
    probe("access", "stat, O_PATH, access", |a| {
        done(call!(SYS_access, raw::path(a.outside("secret")?), libc::R_OK))
    })
    .private_only(),
    probe("readlink", "stat, O_PATH, access", |a| {
        Ok(fs::read_link(a.outside("pointer")?)?.display().to_string())
    })
    .private_only(),
    probe("getxattr", "stat, O_PATH, access", |a| {
        done(call!(
            SYS_getxattr,
            raw::path(a.outside("secret")?),
            c"user.planted",
            0,
            0
        ))
    })
    .private_only(),
    probe("statfs", "stat, O_PATH, access", |a| {
        let mut room = [0_u8; 256];
        done(call!(
            SYS_statfs,
            raw::path(a.path("outside")?),
            raw::at(&mut room)
        ))
    })
    .private_only(),
    probe("chdir-read", "stat, O_PATH, access", |a| {
        std::env::set_current_dir(a.path("outside")?)?;
        read(Path::new("secret"))
    }),
    probe("dotdot", "symlink and .. races", |a| {
        read(
            &a.rw("../..")?
                .join(climb(a.text("rw")?, a.text("outside")?))
                .join("secret"),
        )
    }),
    probe("symlink-read", "KubeArmor#984", |a| read(&a.rw("link")?)),
    probe("symlink-directory", "KubeArmor#984", |a| {
        read(&a.rw("dirlink/secret")?)
    }),
    probe("symlink-write", "KubeArmor#984", |a| {
        overwrite(&a.rw("victimlink")?)
    })
    .refused(FIXED)
    .mutates(),
    probe("symlink-made-here", "servers#1845", |a| {
        let link = a.rw("fresh")?;
        std::os::unix::fs::symlink(a.outside("secret")?, &link)?;
        read(&link)
    }),
    probe("sibling-prefix", "servers#1845", |a| {
        read(&a.path("sibling")?.join("secret"))
    }),
    probe("deep-30", "KubeArmor#2609", |a| {
        read(&a.outside(&format!("{}secret", "d/".repeat(30)))?)
    }),
    probe("proc-self-root", "/proc/PID/root", |a| {
        read(&beneath("/proc/self/root", a.text("outside")?).join("secret"))
    }),
    probe("proc-self-cwd-climb", "/proc/PID/cwd", |a| {
        read(
            &Path::new("/proc/self/cwd")
                .join("../".repeat(12))
                .join(a.text("outside")?.trim_start_matches('/'))
                .join("secret"),
        )
    }),
    probe("opath-reopen", "/proc/self/fd", |a| {
        let handle = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(a.outside("secret")?)?;
        read(Path::new(&format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&handle)
        )))
    }),
    probe("root-opath-climb", "/proc/self/fd", |a| {
        // A handle on the top of the view, then relative names from it.
        let top = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open("/")?;
        let name = raw::path(a.outside("secret")?.strip_prefix("/").unwrap_or(Path::new("")));
        done(call!(
            SYS_openat,
            std::os::fd::OwnedFd::from(top),
            name,
            libc::O_RDONLY
        ))
    }),
    probe("mkdir", "mkdir, mknod outside", |a| {
        fs::DirBuilder::new().mode(0o700).create(a.outside("made")?)?;
        Ok(String::new())
    })
    .refused(FIXED)
    .mutates(),
    probe("mkfifo", "mkdir, mknod outside", |a| {
        done(call!(
            SYS_mknod,
            raw::path(a.outside("fifo")?),
            libc::S_IFIFO | 0o600,
            0
        ))
    })
    .refused(FIXED)
    .mutates(),
    probe("symlink-outside", "mkdir, mknod outside", |a| {
        std::os::unix::fs::symlink("/", a.outside("made")?)?;
        Ok(String::new())
    })
    .refused(FIXED)
    .mutates(),
    probe("unix-bind-outside", "mkdir, mknod outside", |a| {
        std::os::unix::net::UnixListener::bind(a.outside("s")?)?;
        Ok(String::new())
    })
    .refused(FIXED)
    .mutates(),
    probe("device-in-root", "mkdir, mknod outside", |a| {
        done(call!(
            SYS_mknod,
            raw::path(a.rw("null")?),
            libc::S_IFCHR | 0o600,
            libc::makedev(1, 3)
        ))
    })
    .root()
    .refused(&["EPERM", "EACCES"]),
    probe("unlink", "unlink outside", |a| {
        Ok(fs::remove_file(a.outside("victim")?).map(|()| String::new())?)
    })
    .refused(FIXED)
    .mutates(),
    probe("rmdir", "unlink outside", |a| {
        Ok(fs::remove_dir(a.outside("empty")?).map(|()| String::new())?)
    })
    .refused(FIXED)
    .mutates(),
    probe("chmod", "chmod, chown, utime, xattr", |a| {
        fs::set_permissions(a.outside("victim")?, Permissions::from_mode(0o777))?;
        Ok(String::new())
    })
    .refused(FIXED)
    .mutates(),
    probe("fchmodat2", "chmod, chown, utime, xattr", |a| {
        done(raw::syscall(
            452,
            &[
                raw::Word::word(&libc::AT_FDCWD),
                raw::Word::word(&raw::path(a.outside("victim")?)),
                0o777,
                0,
            ],
        ))
    })
    .refused(ENOSYS)
    .needs("fchmodat2")
    .mutates(),
    probe("chown", "chmod, chown, utime, xattr", |a| {
        Ok(std::os::unix::fs::chown(a.outside("victim")?, Some(1), Some(1)).map(|()| String::new())?)
    })
    .root()
    .refused(FIXED)
    .mutates(),
    probe("chgrp-own", "chmod, chown, utime, xattr", |a| {
        let group = nix::unistd::getegid().as_raw();
        Ok(std::os::unix::fs::lchown(a.outside("victim")?, None, Some(group)).map(|()| String::new())?)
    })
    .refused(FIXED),
    probe("utimes", "chmod, chown, utime, xattr", |a| {
        let mut times = [[1_i64, 0], [1, 0]];
        done(call!(
            SYS_utimensat,
            libc::AT_FDCWD,
            raw::path(a.outside("victim")?),
            raw::at(&mut times),
            0
        ))
    })
    .refused(FIXED)
    .mutates(),
    probe("setxattr", "chmod, chown, utime, xattr", |a| {
        done(call!(
            SYS_setxattr,
            raw::path(a.outside("victim")?),
            c"user.guard",
            c"1",
            1,
            0
        ))
    })
    .refused(FIXED)
    .mutates(),
    probe("removexattr", "chmod, chown, utime, xattr", |a| {
        done(call!(
            SYS_removexattr,
            raw::path(a.outside("secret")?),
            c"user.planted"
        ))
    })
    .refused(FIXED)
    .mutates(),
    probe("inotify", "fanotify, inotify outside", |a| {
        let watch = call!(SYS_inotify_init1, 0)?;
        done(call!(
            SYS_inotify_add_watch,
            watch,
            raw::path(a.path("outside")?),
            libc::IN_ALL_EVENTS
        ))
    })
    .private_only(),
    probe("fanotify", "fanotify, inotify outside", |_| {
        done(call!(SYS_fanotify_init, 0, 0))
    })
    .root()
    .seccomp("fanotify_init"),
    probe("name-to-handle", "open_by_handle_at", |a| {
        let mut handle = [0_u32; 34];
        handle[0] = 128;
        let mut mount = 0_i32;
        done(call!(
            SYS_name_to_handle_at,
            libc::AT_FDCWD,
            raw::path(a.outside("secret")?),
            raw::at(&mut handle),
            raw::at(&mut mount),
            0
        ))
    })
    .seccomp("name_to_handle_at"),
    probe("open-by-handle", "open_by_handle_at", |_| {
        done(call!(SYS_open_by_handle_at, -1, BAD, 0))
    })
    .root()
    .control(&["EFAULT", "EBADF"])
    .seccomp("open_by_handle_at"),
    probe("dev-shm-neighbour", "shared memory files", |a| {
        read(&a.path("dev_shm")?)
    }),
    probe("tmp-neighbour", "sandbox-runtime#294", |a| {
        read(&a.path("tmp_file")?)
    }),
    probe("dev-kmsg", "devices", |_| {
        Ok(File::open("/dev/kmsg").map(|_| String::new())?)
    })
    .root(),
    probe("dev-fuse", "devices", |_| {
        Ok(OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map(|_| String::new())?)
    })
    .root()
    .needs("fuse"),
    probe("sys-visible", "/sys", |_| {
        Ok(fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")?)
    })
    .private_only(),
    probe("other-accounts", "open outside", |a| {
        let account = a.text("account")?;
        let accounts = fs::read_to_string("/etc/passwd")?;
        if accounts
            .lines()
            .any(|line| line.split(':').next() == Some(account))
        {
            return Ok(String::from("the host's accounts are listed"));
        }
        Err(Failure::Word(
            "absent",
            format!("{} accounts", accounts.lines().count()),
        ))
    })
    .refused(&["absent", "ENOENT", "EACCES"])
    .private_only(),
    probe("etc-login-defs", "open outside", |_| {
        read(Path::new("/etc/login.defs"))
    })
    .private_only(),
    probe("etc-shadow", "open outside", |_| read(Path::new("/etc/shadow")))
        .root()
        .refused(GONE),
];

pub(crate) fn done(result: Result<usize, Errno>) -> Answer {
    Ok(result?.to_string())
}

/// A prefix of what is there: enough to prove a read, too little to spill much.
pub(crate) fn read(path: &Path) -> Answer {
    let mut start = [0_u8; 16];
    let count = File::open(path)?.read(&mut start)?;
    Ok(String::from_utf8_lossy(&start[..count]).into_owned())
}

pub(crate) fn overwrite(path: &Path) -> Answer {
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(b"OVERWRITTEN")?;
    Ok(String::new())
}

pub(crate) fn beneath(top: &str, absolute: &str) -> std::path::PathBuf {
    Path::new(top).join(absolute.trim_start_matches('/'))
}

/// The way from two levels above the root to the outside directory: `rw` and `outside` share that ancestor.
fn climb<'a>(rw: &str, outside: &'a str) -> &'a Path {
    let ancestor = Path::new(rw).ancestors().nth(2).unwrap_or(Path::new("/"));
    Path::new(outside)
        .strip_prefix(ancestor)
        .unwrap_or(Path::new(outside))
}
