//! Making code of a file.

use guard_common::hooks::{FILE_MPROTECT, FILE_OPEN, MMAP_FILE};
use libc::{
    MAP_PRIVATE, O_RDONLY, O_RDWR, PROT_EXEC, PROT_READ, SYS_execve, SYS_execveat, SYS_ftruncate,
    SYS_memfd_create, SYS_mmap, SYS_mprotect, SYS_personality, SYS_write,
};

use super::{A, Actor, EACCES, Row, no, yes};
use crate::elf;

const READ_IMPLIES_EXEC: i64 = 0x40_0000;
/// Executes what the descriptor is.
const EMPTY_PATH: i64 = 0x1000;

fn execute(a: &mut Actor<'_>, name: &str) -> i64 {
    a.run(SYS_execve, &[A::P(name), A::N(0), A::N(0)])
}

fn memory(a: &mut Actor<'_>) -> i64 {
    let held = a.call(SYS_memfd_create, &[A::T("own"), A::N(0)]);
    assert!(held > 2, "{held}");
    let program = elf::ends();
    assert_eq!(
        a.call(
            SYS_write,
            &[A::N(held), A::B(&program), A::N(program.len() as i64)]
        ),
        program.len() as i64
    );
    held
}

fn map(a: &mut Actor<'_>, file: i64, protection: i32) -> i64 {
    let how = [
        A::N(0),
        A::N(4096),
        A::N(i64::from(protection)),
        A::N(i64::from(MAP_PRIVATE)),
    ];
    a.call(SYS_mmap, &[how[0], how[1], how[2], how[3], A::N(file), A::N(0)])
}

fn map_named(a: &mut Actor<'_>, name: &str, protection: i32) -> i64 {
    let file = a.open(name, O_RDONLY);
    assert!(file > 2, "{file}");
    map(a, file, protection)
}

fn made_code(a: &mut Actor<'_>, name: &str) -> i64 {
    let at = map_named(a, name, PROT_READ);
    assert!(at > 0, "{at}");
    a.call(
        SYS_mprotect,
        &[A::N(at), A::N(4096), A::N(i64::from(PROT_READ | PROT_EXEC))],
    )
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        no("a program outside", &FILE_OPEN, EACCES, |a| {
            execute(a, "outside/program")
        }),
        no("a program that may be read", &FILE_OPEN, EACCES, |a| {
            execute(a, "r/program")
        })
        .because("right-missing"),
        no("a program that may be written", &FILE_OPEN, EACCES, |a| {
            execute(a, "rw/program")
        })
        .because("right-missing"),
        no("a script whose interpreter is outside", &FILE_OPEN, EACCES, |a| {
            execute(a, "rwx/script")
        }),
        no("a program in memory", &FILE_OPEN, EACCES, |a| {
            let held = memory(a);
            a.run(
                SYS_execveat,
                &[A::N(held), A::T(""), A::N(0), A::N(0), A::N(EMPTY_PATH)],
            )
        })
        .because("no-file"),
        no("the same by its name", &FILE_OPEN, EACCES, |a| {
            let held = memory(a);
            let name = format!("/proc/self/fd/{held}");
            a.run(SYS_execve, &[A::T(&name), A::N(0), A::N(0)])
        })
        .because("no-file"),
        yes("a program", &FILE_OPEN, |a| execute(a, "rwx/program")),
        no(
            "a file that may be read mapped as code",
            &MMAP_FILE,
            EACCES,
            |a| map_named(a, "r/program", PROT_READ | PROT_EXEC),
        )
        .because("right-missing"),
        no(
            "a file that may be written mapped as code",
            &MMAP_FILE,
            EACCES,
            |a| map_named(a, "rw/program", PROT_EXEC),
        )
        .because("right-missing"),
        no("a held file mapped as code", &MMAP_FILE, EACCES, |a| {
            map(a, super::HELD_OUTSIDE, PROT_READ | PROT_EXEC)
        }),
        no(
            "memory with a descriptor mapped as code",
            &MMAP_FILE,
            EACCES,
            |a| {
                let held = memory(a);
                map(a, held, PROT_READ | PROT_EXEC)
            },
        )
        .because("no-file"),
        no(
            "a file read by a process that reads code",
            &MMAP_FILE,
            EACCES,
            |a| {
                let before = a.call(SYS_personality, &[A::N(0xffff_ffff)]);
                a.call(SYS_personality, &[A::N(before | READ_IMPLIES_EXEC)]);
                let file = a.open("r/program", O_RDONLY);
                let mapped = map(a, file, PROT_READ);
                a.call(SYS_personality, &[A::N(before)]);
                mapped
            },
        )
        .because("right-missing"),
        yes("mapped as code", &MMAP_FILE, |a| {
            map_named(a, "rwx/program", PROT_READ | PROT_EXEC)
        }),
        yes("mapped as data", &MMAP_FILE, |a| {
            map_named(a, "r/program", PROT_READ)
        }),
        no("a mapped file made code", &FILE_MPROTECT, EACCES, |a| {
            made_code(a, "r/program")
        })
        .because("right-missing"),
        no(
            "memory with a descriptor made code",
            &FILE_MPROTECT,
            EACCES,
            |a| {
                let held = a.call(SYS_memfd_create, &[A::T("own"), A::N(0)]);
                a.call(SYS_ftruncate, &[A::N(held), A::N(4096)]);
                let at = map(a, held, PROT_READ);
                assert!(at > 0, "{at}");
                a.call(SYS_mprotect, &[A::N(at), A::N(4096), A::N(i64::from(PROT_EXEC))])
            },
        )
        .because("no-file"),
        yes("a mapped program made code", &FILE_MPROTECT, |a| {
            made_code(a, "rwx/program")
        }),
        yes("memory without a file made code", &FILE_MPROTECT, |a| {
            let flags = i64::from(MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let at = a.call(
                SYS_mmap,
                &[
                    A::N(0),
                    A::N(4096),
                    A::N(i64::from(PROT_READ)),
                    A::N(flags),
                    A::N(-1),
                    A::N(0),
                ],
            );
            a.call(SYS_mprotect, &[A::N(at), A::N(4096), A::N(i64::from(PROT_EXEC))])
        }),
        yes("a file to be written", &FILE_OPEN, |a| a.open("rwx/file", O_RDWR)),
    ]
}
