//! What is changed of a file without opening it, and watching it.

use guard_common::hooks::{
    FILE_FCNTL, FILE_IOCTL, FILE_IOCTL_COMPAT, FILE_TRUNCATE, INODE_FILE_SETATTR, INODE_REMOVE_ACL,
    INODE_REMOVEXATTR, INODE_SET_ACL, INODE_SETATTR, INODE_SETXATTR, PATH_CHMOD, PATH_CHOWN, PATH_NOTIFY,
    PATH_TRUNCATE,
};
use libc::{
    AT_FDCWD, SYS_chmod, SYS_chown, SYS_fanotify_init, SYS_fanotify_mark, SYS_fchmod, SYS_fchown, SYS_fcntl,
    SYS_fsetxattr, SYS_ftruncate, SYS_inotify_add_watch, SYS_inotify_init1, SYS_ioctl, SYS_lchown,
    SYS_removexattr, SYS_setxattr, SYS_truncate, SYS_utimensat,
};

use super::{A, Actor, EACCES, End, HANDED, HELD_OUTSIDE, HELD_R, HELD_RW, OUTSIDE_DIRECTORY, Row, no, yes};

const SETFLAGS: i64 = 0x4008_6602;
const TIOCSTI: i64 = 0x5412;
const SYS_FILE_SETATTR: i64 = 469;
const LIST: &str = "system.posix_acl_access";
const OPENED: i64 = 0x20;
const WHOLE_FILESYSTEM: i64 = 0x101;
const WHOLE_MOUNT: i64 = 0x11;

/// An access list as the kernel takes it, with somebody in particular in it: otherwise it is kept as a mode.
fn access_list() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, who) in [
        (1_u16, 6_u16, NOBODY),
        (2, 4, 1),
        (4, 4, NOBODY),
        (0x10, 4, NOBODY),
        (0x20, 4, NOBODY),
    ] {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&rights.to_le_bytes());
        list.extend_from_slice(&who.to_le_bytes());
    }
    list
}

fn attribute(a: &mut Actor<'_>, file: &str, name: &str, value: &[u8]) -> i64 {
    let length = A::N(value.len() as i64);
    a.call(
        SYS_setxattr,
        &[A::P(file), A::T(name), A::B(value), length, A::N(0)],
    )
}

fn without(a: &mut Actor<'_>, file: &str, name: &str) -> i64 {
    a.call(SYS_removexattr, &[A::P(file), A::T(name)])
}

fn times(a: &mut Actor<'_>, file: &str) -> i64 {
    a.call(
        SYS_utimensat,
        &[A::N(i64::from(AT_FDCWD)), A::P(file), A::N(0), A::N(0)],
    )
}

fn watch(a: &mut Actor<'_>, name: &str) -> i64 {
    let watcher = a.call(SYS_inotify_init1, &[A::N(0)]);
    a.call(SYS_inotify_add_watch, &[A::N(watcher), A::P(name), A::N(OPENED)])
}

fn mark(a: &mut Actor<'_>, name: &str, what: i64) -> i64 {
    let watcher = a.call(SYS_fanotify_init, &[A::N(0), A::N(0)]);
    let here = A::N(i64::from(AT_FDCWD));
    a.call(
        SYS_fanotify_mark,
        &[A::N(watcher), A::N(what), A::N(OPENED), here, A::P(name)],
    )
}

fn flags(a: &mut Actor<'_>, file: i64) -> i64 {
    // `FS_NODUMP_FL`
    a.call(
        SYS_ioctl,
        &[A::N(file), A::N(SETFLAGS), A::B(&0x40_u64.to_le_bytes())],
    )
}

fn file_attributes(a: &mut Actor<'_>, file: &str) -> i64 {
    let nothing = [0; 24];
    let here = A::N(i64::from(AT_FDCWD));
    a.call(
        SYS_FILE_SETATTR,
        &[here, A::P(file), A::B(&nothing), A::N(24), A::N(0)],
    )
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = sizes_and_modes();
    rows.extend(attributes());
    rows.extend(flags_and_watches());
    rows
}

fn sizes_and_modes() -> Vec<Row> {
    vec![
        no("cut outside", &PATH_TRUNCATE, EACCES, |a| {
            a.call(SYS_truncate, &[A::P("outside/file"), A::N(1)])
        }),
        no("cut where reading is allowed", &PATH_TRUNCATE, EACCES, |a| {
            a.call(SYS_truncate, &[A::P("r/file"), A::N(1)])
        })
        .because("right-missing"),
        yes("cut", &PATH_TRUNCATE, |a| {
            a.call(SYS_truncate, &[A::P("rw/file"), A::N(1)])
        }),
        no("cut through a descriptor", &FILE_TRUNCATE, EACCES, |a| {
            a.call(SYS_ftruncate, &[A::N(HELD_OUTSIDE), A::N(1)])
        }),
        no(
            "cut through a descriptor, before 6.2",
            &PATH_TRUNCATE,
            EACCES,
            |a| a.call(SYS_ftruncate, &[A::N(HELD_OUTSIDE), A::N(1)]),
        ),
        yes("cut an own file", &FILE_TRUNCATE, |a| {
            a.call(SYS_ftruncate, &[A::N(HELD_RW), A::N(1)])
        }),
        no("mode outside", &PATH_CHMOD, EACCES, |a| {
            a.call(SYS_chmod, &[A::P("outside/file"), A::N(0o777)])
        }),
        no("mode where reading is allowed", &PATH_CHMOD, EACCES, |a| {
            a.call(SYS_chmod, &[A::P("r/file"), A::N(0o777)])
        })
        .because("right-missing"),
        no("mode through a descriptor", &PATH_CHMOD, EACCES, |a| {
            a.call(SYS_fchmod, &[A::N(HELD_OUTSIDE), A::N(0o777)])
        }),
        no("mode by a descriptor's name", &PATH_CHMOD, EACCES, |a| {
            a.call(SYS_chmod, &[A::T("/proc/self/fd/200"), A::N(0o777)])
        }),
        no("run as its owner", &PATH_CHMOD, EACCES, |a| {
            a.call(SYS_chmod, &[A::P("rwx/program"), A::N(0o4755)])
        })
        .because("set-id"),
        no("run as its group", &PATH_CHMOD, EACCES, |a| {
            a.call(SYS_fchmod, &[A::N(HELD_RW), A::N(0o2755)])
        })
        .because("set-id"),
        yes("mode", &PATH_CHMOD, |a| {
            a.call(SYS_chmod, &[A::P("rw/file"), A::N(0o600)])
        }),
        no("owner outside", &PATH_CHOWN, EACCES, |a| {
            a.call(SYS_chown, &[A::P("outside/file"), A::N(1), A::N(1)])
        }),
        no("owner where reading is allowed", &PATH_CHOWN, EACCES, |a| {
            a.call(SYS_chown, &[A::P("r/file"), A::N(1), A::N(1)])
        })
        .because("right-missing"),
        no("owner of a link", &PATH_CHOWN, EACCES, |a| {
            a.call(SYS_lchown, &[A::P("outside/link-in"), A::N(1), A::N(1)])
        }),
        no("owner through a descriptor", &PATH_CHOWN, EACCES, |a| {
            a.call(SYS_fchown, &[A::N(HELD_OUTSIDE), A::N(0), A::N(0)])
        }),
        yes("owner", &PATH_CHOWN, |a| {
            a.call(SYS_chown, &[A::P("rw/file"), A::N(1), A::N(1)])
        }),
        no("times outside", &INODE_SETATTR, EACCES, |a| {
            times(a, "outside/file")
        }),
        no("times where reading is allowed", &INODE_SETATTR, EACCES, |a| {
            times(a, "r/file")
        })
        .because("right-missing"),
        no("times through a descriptor", &INODE_SETATTR, EACCES, |a| {
            a.call(SYS_utimensat, &[A::N(HELD_OUTSIDE), A::N(0), A::N(0), A::N(0)])
        }),
        yes("times", &INODE_SETATTR, |a| times(a, "rw/file")),
    ]
}

fn attributes() -> Vec<Row> {
    vec![
        no("attribute outside", &INODE_SETXATTR, EACCES, |a| {
            attribute(a, "outside/file", "user.one", b"1")
        }),
        no(
            "attribute where reading is allowed",
            &INODE_SETXATTR,
            EACCES,
            |a| attribute(a, "r/file", "user.one", b"1"),
        )
        .because("right-missing"),
        no("attribute through a descriptor", &INODE_SETXATTR, EACCES, |a| {
            let args = [A::N(HELD_OUTSIDE), A::T("user.two"), A::B(b"2"), A::N(1), A::N(0)];
            a.call(SYS_fsetxattr, &args)
        }),
        yes("attribute", &INODE_SETXATTR, |a| {
            attribute(a, "rw/file", "user.one", b"1")
        }),
        no("attribute taken outside", &INODE_REMOVEXATTR, EACCES, |a| {
            without(a, "outside/file", "user.none")
        })
        .outside(End::Is(-61)),
        no(
            "attribute taken where reading is allowed",
            &INODE_REMOVEXATTR,
            EACCES,
            |a| without(a, "r/file", "user.none"),
        )
        .because("right-missing")
        .outside(End::Is(-61)),
        yes("attribute taken", &INODE_REMOVEXATTR, |a| {
            attribute(a, "rw/file", "user.one", b"1");
            without(a, "rw/file", "user.one")
        }),
        no("access list outside", &INODE_SET_ACL, EACCES, |a| {
            attribute(a, "outside/file", LIST, &access_list())
        }),
        no(
            "access list where reading is allowed",
            &INODE_SET_ACL,
            EACCES,
            |a| attribute(a, "r/file", LIST, &access_list()),
        )
        .because("right-missing"),
        no("access list outside, before 6.2", &INODE_SETXATTR, EACCES, |a| {
            attribute(a, "outside/file", LIST, &access_list())
        }),
        yes("access list", &INODE_SET_ACL, |a| {
            attribute(a, "rw/file", LIST, &access_list())
        }),
        no("access list taken outside", &INODE_REMOVE_ACL, EACCES, |a| {
            without(a, "outside/file", LIST)
        }),
        no(
            "access list taken where reading is allowed",
            &INODE_REMOVE_ACL,
            EACCES,
            |a| without(a, "r/file", LIST),
        )
        .because("right-missing"),
        yes("access list taken", &INODE_REMOVE_ACL, |a| {
            without(a, "rw/file", LIST)
        }),
    ]
}

fn flags_and_watches() -> Vec<Row> {
    vec![
        no("flags through a descriptor", &FILE_IOCTL, EACCES, |a| {
            flags(a, HELD_OUTSIDE)
        })
        .because("outside-roots"),
        no("flags where reading is allowed", &FILE_IOCTL, EACCES, |a| {
            flags(a, HELD_R)
        })
        .because("right-missing"),
        yes("flags", &FILE_IOCTL, |a| flags(a, HELD_RW)),
        no("flags outside by name", &INODE_FILE_SETATTR, EACCES, |a| {
            file_attributes(a, "outside/file")
        }),
        no(
            "flags by name where reading is allowed",
            &INODE_FILE_SETATTR,
            EACCES,
            |a| file_attributes(a, "r/file"),
        )
        .because("right-missing"),
        yes("flags by name", &INODE_FILE_SETATTR, |a| {
            file_attributes(a, "rw/file")
        }),
        no("typing into a terminal", &FILE_IOCTL, EACCES, |a| {
            a.call(SYS_ioctl, &[A::N(0), A::N(TIOCSTI), A::B(b"x")])
        })
        .outside(End::Is(-25)),
        no(
            "the same with more bits than the kernel looks at",
            &FILE_IOCTL,
            EACCES,
            |a| a.call(SYS_ioctl, &[A::N(0), A::N(TIOCSTI | 1 << 40), A::B(b"x")]),
        )
        .outside(End::Is(-25)),
        no("typing by a call of 32 bits", &FILE_IOCTL_COMPAT, EACCES, |a| {
            a.order("narrow 54 0 21522 0")
        })
        .outside(End::Is(-25)),
        no(
            "typing by a call of 32 bits, before 6.8",
            &FILE_IOCTL,
            EACCES,
            |a| a.order("narrow 54 0 21522 0"),
        )
        .outside(End::Is(-25)),
        yes(
            "a terminal's size by a call of 32 bits",
            &FILE_IOCTL_COMPAT,
            |a| {
                // There is none.
                assert_eq!(a.order("narrow 54 0 21523 0"), -25);
                0
            },
        ),
        no("a signal for a stranger by an ioctl", &FILE_IOCTL, EACCES, |a| {
            let whom = a.place.bystander.pid().to_ne_bytes();
            a.call(SYS_ioctl, &[A::N(HANDED), A::N(0x8902), A::B(&whom)])
        }),
        no("a signal for a stranger", &FILE_FCNTL, EACCES, |a| {
            let whom = i64::from(a.place.bystander.pid());
            a.call(SYS_fcntl, &[A::N(HANDED), A::N(8), A::N(whom)])
        }),
        no("the same for a thread of its", &FILE_FCNTL, EACCES, |a| {
            let mut whom = [0; 8];
            whom[4..].copy_from_slice(&a.place.bystander.pid().to_ne_bytes());
            a.call(SYS_fcntl, &[A::N(HANDED), A::N(15), A::B(&whom)])
        }),
        yes("a descriptor's flags", &FILE_FCNTL, |a| {
            a.call(SYS_fcntl, &[A::N(0), A::N(3), A::N(0)])
        }),
        yes("how much there is to read", &FILE_IOCTL, |a| {
            a.call(SYS_ioctl, &[A::N(HELD_R), A::N(0x541b), A::B(&[0; 4])])
        }),
        no("watch outside", &PATH_NOTIFY, EACCES, |a| watch(a, "outside")),
        no("watch a file outside", &PATH_NOTIFY, EACCES, |a| {
            watch(a, "outside/file")
        }),
        no("a signal for what happens outside", &PATH_NOTIFY, EACCES, |a| {
            let (file, watch) = (A::N(OUTSIDE_DIRECTORY), A::N(1026));
            // `DN_RENAME`, and an end of it.
            let watched = a.call(SYS_fcntl, &[file, watch, A::N(0x10)]);
            a.call(SYS_fcntl, &[file, watch, A::N(0)]);
            watched
        }),
        no("mark outside", &PATH_NOTIFY, EACCES, |a| {
            mark(a, "outside/file", 1)
        }),
        no("mark a whole filesystem from within", &PATH_NOTIFY, EACCES, |a| {
            mark(a, "r/file", WHOLE_FILESYSTEM)
        })
        .because("kind"),
        no("mark a whole mount from within", &PATH_NOTIFY, EACCES, |a| {
            mark(a, "r/file", WHOLE_MOUNT)
        })
        .because("kind"),
        yes("watch", &PATH_NOTIFY, |a| watch(a, "r")),
        yes("mark", &PATH_NOTIFY, |a| mark(a, "r/file", 1)),
    ]
}
