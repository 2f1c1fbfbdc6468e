//! Opening, by every way that leads to a file.

use guard_common::hooks::{FILE_OPEN, FILE_TRUNCATE, PATH_MKNOD, PATH_TRUNCATE};
use libc::{
    O_CREAT, O_DIRECTORY, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY, SYS_creat, SYS_getdents64,
    SYS_memfd_create, SYS_open, SYS_openat, SYS_openat2, SYS_pipe2,
};

use super::{A, Actor, EACCES, Row, no, yes};

/// `struct open_how` for reading.
const HOW: [u8; 24] = [0; 24];

fn flags(flags: i32) -> A<'static> {
    A::N(i64::from(flags))
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        no("open outside to read", &FILE_OPEN, EACCES, |a| {
            a.open("outside/file", O_RDONLY)
        }),
        no("open outside to write", &FILE_OPEN, EACCES, |a| {
            a.open("outside/file", O_WRONLY)
        }),
        no("open outside to control", &FILE_OPEN, EACCES, |a| {
            a.open("outside/file", O_WRONLY | O_RDWR)
        }),
        no(
            "open to write where reading is allowed",
            &FILE_OPEN,
            EACCES,
            |a| a.open("r/file", O_WRONLY),
        )
        .because("right-missing"),
        no(
            "open for both where reading is allowed",
            &FILE_OPEN,
            EACCES,
            |a| a.open("r/file", O_RDWR),
        )
        .because("right-missing"),
        no(
            "open to control where reading is allowed",
            &FILE_OPEN,
            EACCES,
            |a| a.open("r/file", O_WRONLY | O_RDWR),
        )
        .because("right-missing"),
        no("open outside by a directory held", &FILE_OPEN, EACCES, |a| {
            a.call(
                SYS_openat,
                &[A::N(super::OUTSIDE_DIRECTORY), A::T("file"), A::N(0)],
            )
        }),
        no("openat2 outside", &FILE_OPEN, EACCES, |a| {
            a.call(
                SYS_openat2,
                &[A::N(-100), A::P("outside/file"), A::B(&HOW), A::N(24)],
            )
        }),
        no("creat over a file outside", &FILE_OPEN, EACCES, |a| {
            a.call(SYS_creat, &[A::P("outside/file"), A::N(0o644)])
        }),
        no("create outside", &PATH_MKNOD, EACCES, |a| {
            a.call(SYS_creat, &[A::P("outside/new"), A::N(0o644)])
        }),
        no("create where reading is allowed", &PATH_MKNOD, EACCES, |a| {
            a.open("r/new", O_CREAT | O_RDONLY)
        })
        .because("right-missing"),
        no("a file without a name outside", &FILE_OPEN, EACCES, |a| {
            a.open("outside", O_TMPFILE | O_RDWR)
        }),
        no(
            "a file without a name where reading is allowed",
            &FILE_OPEN,
            EACCES,
            |a| a.open("r", O_TMPFILE | O_RDWR),
        )
        .because("right-missing"),
        no("a link out", &FILE_OPEN, EACCES, |a| {
            a.open("rw/link-out", O_RDONLY)
        }),
        no("dots out", &FILE_OPEN, EACCES, |a| {
            a.open("rw/directory/../../outside/file", O_RDONLY)
        }),
        no(
            "a descriptor without rights opened again",
            &FILE_OPEN,
            EACCES,
            |a| {
                let held = a.open("outside/file", O_PATH);
                assert!(held > 2, "{held}");
                a.call(SYS_open, &[A::T(&format!("/proc/self/fd/{held}")), A::N(0)])
            },
        ),
        no("a held file opened again", &FILE_OPEN, EACCES, |a| {
            a.call(SYS_open, &[A::T("/proc/self/fd/200"), A::N(0)])
        }),
        no("listing outside", &FILE_OPEN, EACCES, |a| {
            a.open("outside", O_DIRECTORY)
        }),
        no("the directory above", &FILE_OPEN, EACCES, |a| {
            a.open("", O_DIRECTORY)
        }),
        no("an open device", &FILE_OPEN, EACCES, |a| {
            a.call(SYS_open, &[A::T("/dev/null"), A::N(0)])
        }),
        no("the kernel's files", &FILE_OPEN, EACCES, |a| {
            a.call(SYS_open, &[A::T("/proc/self/status"), A::N(0)])
        }),
        no("another process's memory", &FILE_OPEN, EACCES, |a| {
            let pid = a.place.bystander.pid();
            a.call(SYS_open, &[A::T(&format!("/proc/{pid}/mem")), A::N(0)])
        }),
        no("another process's environment", &FILE_OPEN, EACCES, |a| {
            let pid = a.place.bystander.pid();
            a.call(SYS_open, &[A::T(&format!("/proc/{pid}/environ")), A::N(0)])
        }),
        no("cutting by an open to read", &FILE_TRUNCATE, EACCES, |a| {
            a.open("r/file", O_RDONLY | O_TRUNC)
        })
        .because("right-missing"),
        no(
            "cutting by an open to read, before 6.2",
            &PATH_TRUNCATE,
            EACCES,
            |a| a.open("r/file", O_RDONLY | O_TRUNC),
        )
        .because("right-missing"),
        no(
            "open outside by what its filesystem knows it by",
            &FILE_OPEN,
            EACCES,
            |a| by_handle(a, "outside/file"),
        ),
        yes("the same within", &FILE_OPEN, |a| {
            by_handle(a, "r/directory/file")
        }),
        yes("read", &FILE_OPEN, |a| a.open("r/file", O_RDONLY)),
        yes("read and write", &FILE_OPEN, |a| a.open("rw/file", O_RDWR)),
        yes("control", &FILE_OPEN, |a| a.open("rw/file", O_WRONLY | O_RDWR)),
        yes("create", &PATH_MKNOD, |a| a.open("rw/new", O_CREAT | O_RDWR)),
        yes("a file without a name", &FILE_OPEN, |a| {
            a.open("rw", O_TMPFILE | O_RDWR)
        }),
        yes("cut by opening", &FILE_TRUNCATE, |a| {
            a.open("rw/file", O_RDWR | O_TRUNC)
        }),
        yes("cut by opening, before 6.2", &PATH_TRUNCATE, |a| {
            a.open("rw/file", O_RDWR | O_TRUNC)
        }),
        yes("a link in", &FILE_OPEN, |a| a.open("rw/link-in", O_RDONLY)),
        yes("dots that stay", &FILE_OPEN, |a| {
            a.open("outside/../r/directory/../file", O_RDONLY)
        }),
        yes("list", &FILE_OPEN, |a| {
            let held = a.open("r/directory", O_DIRECTORY);
            a.call(SYS_getdents64, &[A::N(held), A::B(&[0; 512]), A::N(512)])
        }),
        yes("a pipe opened again", &FILE_OPEN, |a| {
            // Its descriptors are the lowest that are free.
            assert_eq!(a.call(SYS_pipe2, &[A::B(&[0; 8]), A::N(0)]), 0);
            a.call(
                SYS_open,
                &[A::T("/proc/self/fd/3"), flags(O_RDONLY | libc::O_NONBLOCK)],
            )
        }),
        yes("a file in memory opened again", &FILE_OPEN, memory_again),
    ]
}

fn by_handle(a: &mut Actor<'_>, name: &str) -> i64 {
    let order = format!("handle {} {}", super::OUTSIDE_DIRECTORY, a.hex(name));
    a.order(&order)
}

fn memory_again(a: &mut Actor<'_>) -> i64 {
    let held = a.call(SYS_memfd_create, &[A::T("own"), A::N(0)]);
    assert!(held > 2, "{held}");
    a.call(SYS_open, &[A::T(&format!("/proc/self/fd/{held}")), flags(O_RDWR)])
}
