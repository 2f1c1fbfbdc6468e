//! Making, removing, moving and linking.

use guard_common::hooks::{
    PATH_LINK, PATH_MKDIR, PATH_MKNOD, PATH_RENAME, PATH_RMDIR, PATH_SYMLINK, PATH_UNLINK,
};
use libc::{
    AT_FDCWD, S_IFBLK, S_IFCHR, S_IFIFO, S_IFREG, SYS_bind, SYS_link, SYS_linkat, SYS_mkdir, SYS_mknod,
    SYS_open, SYS_rename, SYS_renameat2, SYS_rmdir, SYS_socket, SYS_symlink, SYS_unlink, SYS_unlinkat,
};

use super::{A, Actor, EACCES, Row, no, sockets::address, yes};

const EXCHANGE: i64 = 2;

fn two(a: &mut Actor<'_>, nr: i64, from: &str, to: &str) -> i64 {
    a.call(nr, &[A::P(from), A::P(to)])
}

fn exchange(a: &mut Actor<'_>, from: &str, to: &str) -> i64 {
    let here = A::N(i64::from(AT_FDCWD));
    a.call(SYS_renameat2, &[here, A::P(from), here, A::P(to), A::N(EXCHANGE)])
}

fn node(a: &mut Actor<'_>, name: &str, mode: u32, device: i64) -> i64 {
    a.call(SYS_mknod, &[A::P(name), A::N(i64::from(mode)), A::N(device)])
}

/// Of a file that was made without one where it may be written.
fn first_name(a: &mut Actor<'_>, name: &str) -> i64 {
    let made = a.open("rw", libc::O_TMPFILE | libc::O_RDWR);
    assert!(made > 2, "{made}");
    let here = A::N(i64::from(AT_FDCWD));
    let follow = A::N(i64::from(libc::AT_SYMLINK_FOLLOW));
    a.call(
        SYS_linkat,
        &[
            here,
            A::T(&format!("/proc/self/fd/{made}")),
            here,
            A::P(name),
            follow,
        ],
    )
}

fn bind(a: &mut Actor<'_>, name: &str) -> i64 {
    let socket = a.call(SYS_socket, &[A::N(1), A::N(1), A::N(0)]);
    assert!(socket > 2, "{socket}");
    let address = address(&a.place.path(name));
    a.call(
        SYS_bind,
        &[A::N(socket), A::B(&address), A::N(address.len() as i64)],
    )
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = made();
    rows.extend(moved());
    rows
}

fn made() -> Vec<Row> {
    vec![
        no("a directory outside", &PATH_MKDIR, EACCES, |a| {
            a.call(SYS_mkdir, &[A::P("outside/new"), A::N(0o755)])
        }),
        no("a directory where reading is allowed", &PATH_MKDIR, EACCES, |a| {
            a.call(SYS_mkdir, &[A::P("r/new"), A::N(0o755)])
        })
        .because("right-missing"),
        no(
            "a directory that gives its group away",
            &PATH_MKDIR,
            EACCES,
            |a| a.call(SYS_mkdir, &[A::P("rw/new"), A::N(0o2755)]),
        )
        .because("set-id"),
        yes("a directory", &PATH_MKDIR, |a| {
            a.call(SYS_mkdir, &[A::P("rw/new"), A::N(0o755)])
        }),
        no("removing a directory outside", &PATH_RMDIR, EACCES, |a| {
            // Refused before it is seen that there is something in it.
            a.call(
                SYS_unlinkat,
                &[A::N(i64::from(AT_FDCWD)), A::P("outside/empty"), A::N(0x200)],
            )
        }),
        no(
            "removing a directory where reading is allowed",
            &PATH_RMDIR,
            EACCES,
            |a| a.call(SYS_rmdir, &[A::P("r/empty")]),
        )
        .because("right-missing"),
        yes("removing a directory", &PATH_RMDIR, |a| {
            a.call(SYS_rmdir, &[A::P("rw/empty")])
        }),
        no("removing a file outside", &PATH_UNLINK, EACCES, |a| {
            a.call(SYS_unlink, &[A::P("outside/file")])
        }),
        no(
            "removing a file where reading is allowed",
            &PATH_UNLINK,
            EACCES,
            |a| a.call(SYS_unlink, &[A::P("r/file")]),
        )
        .because("right-missing"),
        yes("removing a file", &PATH_UNLINK, |a| {
            a.call(SYS_unlink, &[A::P("rw/file")])
        }),
        no("a symbolic link outside", &PATH_SYMLINK, EACCES, |a| {
            a.call(SYS_symlink, &[A::T("file"), A::P("outside/new")])
        }),
        no(
            "a symbolic link where reading is allowed",
            &PATH_SYMLINK,
            EACCES,
            |a| a.call(SYS_symlink, &[A::T("file"), A::P("r/new")]),
        )
        .because("right-missing"),
        yes("a symbolic link to outside", &PATH_SYMLINK, |a| {
            a.call(SYS_symlink, &[A::T("/etc/shadow"), A::P("rw/new")])
        }),
        no("a pipe outside", &PATH_MKNOD, EACCES, |a| {
            node(a, "outside/new", S_IFIFO | 0o644, 0)
        }),
        no("a socket outside", &PATH_MKNOD, EACCES, |a| {
            bind(a, "outside/new")
        }),
        no("a socket where reading is allowed", &PATH_MKNOD, EACCES, |a| {
            bind(a, "r/new")
        })
        .because("right-missing"),
        no("a device", &PATH_MKNOD, EACCES, |a| {
            node(a, "rw/new", S_IFCHR | 0o644, 0x103)
        })
        .because("device"),
        no("a disk", &PATH_MKNOD, EACCES, |a| {
            node(a, "rwx/new", S_IFBLK | 0o644, 0x800)
        })
        .because("device"),
        no("a file that is run as its owner", &PATH_MKNOD, EACCES, |a| {
            node(a, "rw/new", S_IFREG | 0o4755, 0)
        })
        .because("set-id"),
        no("the same by opening", &PATH_MKNOD, EACCES, |a| {
            let flags = libc::O_CREAT | libc::O_RDWR;
            a.call(SYS_open, &[A::P("rwx/new"), A::N(i64::from(flags)), A::N(0o6755)])
        })
        .because("set-id"),
        yes("a pipe", &PATH_MKNOD, |a| node(a, "rw/new", S_IFIFO | 0o644, 0)),
        yes("a socket", &PATH_MKNOD, |a| bind(a, "rw/new")),
    ]
}

fn moved() -> Vec<Row> {
    vec![
        no(
            "a second name inside for a file outside",
            &PATH_LINK,
            EACCES,
            |a| two(a, SYS_link, "outside/file", "rw/new"),
        ),
        no("the same by a descriptor", &PATH_LINK, EACCES, |a| {
            let here = A::N(i64::from(AT_FDCWD));
            a.call(
                SYS_linkat,
                &[here, A::T("/proc/self/fd/200"), here, A::P("rw/new"), A::N(0x400)],
            )
        }),
        no("a second name outside", &PATH_LINK, EACCES, |a| {
            two(a, SYS_link, "rw/file", "outside/new")
        }),
        no("a name that may be written", &PATH_LINK, EACCES, |a| {
            two(a, SYS_link, "r/file", "rw/new")
        })
        .because("right-missing"),
        no("a name that may be run", &PATH_LINK, EACCES, |a| {
            two(a, SYS_link, "rw/file", "rwx/new")
        })
        .because("would-gain-rights"),
        no("a name where reading is allowed", &PATH_LINK, EACCES, |a| {
            two(a, SYS_link, "r/file", "r/new")
        })
        .because("right-missing"),
        no(
            "a file without a name given one where it may be run",
            &PATH_LINK,
            EACCES,
            |a| first_name(a, "rwx/new"),
        )
        .because("would-gain-rights"),
        yes("a file without a name given one", &PATH_LINK, |a| {
            first_name(a, "rw/new")
        }),
        yes("a second name", &PATH_LINK, |a| {
            two(a, SYS_link, "rw/file", "rw/directory/new")
        }),
        yes("a name with fewer rights", &PATH_LINK, |a| {
            two(a, SYS_link, "rwx/file", "rw/new")
        }),
        no("moved in", &PATH_RENAME, EACCES, |a| {
            two(a, SYS_rename, "outside/file", "rw/new")
        }),
        no("moved out", &PATH_RENAME, EACCES, |a| {
            two(a, SYS_rename, "rw/file", "outside/new")
        }),
        no("over a file outside", &PATH_RENAME, EACCES, |a| {
            two(a, SYS_rename, "rw/file", "outside/file")
        }),
        no("renamed outside", &PATH_RENAME, EACCES, |a| {
            two(a, SYS_rename, "outside/file", "outside/new")
        }),
        no("moved from where reading is allowed", &PATH_RENAME, EACCES, |a| {
            two(a, SYS_rename, "r/file", "rw/new")
        })
        .because("right-missing"),
        no("moved to where reading is allowed", &PATH_RENAME, EACCES, |a| {
            two(a, SYS_rename, "rw/file", "r/new")
        })
        .because("right-missing"),
        no("moved to where it may be run", &PATH_RENAME, EACCES, |a| {
            two(a, SYS_rename, "rw/program", "rwx/new")
        })
        .because("would-gain-rights"),
        no(
            "a directory moved to where it may be run",
            &PATH_RENAME,
            EACCES,
            |a| two(a, SYS_rename, "rw/directory", "rwx/new"),
        )
        .because("would-gain-rights"),
        // Outside it fails otherwise: the directory there is not empty.
        no("a root itself", &PATH_RENAME, EACCES, |a| {
            two(a, SYS_rename, "rw", "services")
        })
        .outside(super::End::Is(-39)),
        no("exchanged with a file outside", &PATH_RENAME, EACCES, |a| {
            exchange(a, "rw/file", "outside/file")
        }),
        no("the same, named the other way", &PATH_RENAME, EACCES, |a| {
            exchange(a, "outside/file", "rw/file")
        }),
        no("exchanged with what may be run", &PATH_RENAME, EACCES, |a| {
            exchange(a, "rwx/file", "rw/file")
        })
        .because("would-gain-rights"),
        no("the same, named the other way round", &PATH_RENAME, EACCES, |a| {
            exchange(a, "rw/file", "rwx/file")
        })
        .because("would-gain-rights"),
        yes("moved", &PATH_RENAME, |a| {
            two(a, SYS_rename, "rw/file", "rw/directory/new")
        }),
        yes("moved over another", &PATH_RENAME, |a| {
            two(a, SYS_rename, "rw/file", "rw/other")
        }),
        yes("moved to where less is allowed", &PATH_RENAME, |a| {
            two(a, SYS_rename, "rwx/file", "rw/new")
        }),
        yes("exchanged", &PATH_RENAME, |a| exchange(a, "rw/file", "rw/other")),
    ]
}
