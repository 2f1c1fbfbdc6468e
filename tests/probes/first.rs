//! `guard-first PATH [fork|fork2]`: its first instructions open PATH, before any run-time has started.
//!
//! Prints one JSON line with what the kernel answered. With `fork2` the open is tried once more by a
//! grandchild whose parent is gone, as its first act.
#![no_main]
#![expect(
    unsafe_code,
    reason = "an entry point without a run-time is written in assembly"
)]

use core::arch::{asm, global_asm};

// The stack holds argc, argv[0], argv[1]: the open of argv[1] is the third instruction that does
// anything, and only then does Rust code run.
global_asm!(
    ".globl _start",
    "_start:",
    "mov rbx, rsp",
    "mov rdi, [rsp + 16]",
    "xor esi, esi",
    "mov eax, 2",
    "syscall",
    "mov rdi, rbx",
    "mov rsi, rax",
    "and rsp, -16",
    "call {report}",
    "ud2",
    report = sym report,
);

const OPEN: usize = 2;
const WRITE: usize = 1;
const FORK: usize = 57;
const WAIT4: usize = 61;
const EXIT_GROUP: usize = 231;
const GETPPID: usize = 110;
const PIPE: usize = 22;
const READ: usize = 0;
const CLOSE: usize = 3;

fn syscall(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the callers pass descriptors, lengths and addresses of live locals or of the initial
    // stack; the clobbered registers are declared.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             lateout("rcx") _, lateout("r11") _);
    }
    result
}

fn exit(code: usize) -> ! {
    syscall(EXIT_GROUP, code, 0, 0, 0);
    loop {
        core::hint::spin_loop();
    }
}

/// Piece by piece: without the start files even `memcpy` of the C library is not usable yet.
fn say(who: &'static str, result: isize) {
    let value = if result < 0 { result.unsigned_abs() } else { 0 };
    print("{\"first\":\"");
    print(who);
    print("\",\"errno\":");
    let mut power = if value > 99 {
        100
    } else if value > 9 {
        10
    } else {
        1
    };
    while power > 0 {
        let digit = b'0' + (value / power % 10) as u8;
        syscall(WRITE, 1, (&raw const digit) as usize, 1, 0);
        power /= 10;
    }
    print(if result >= 0 {
        ",\"opened\":true}\n"
    } else {
        ",\"opened\":false}\n"
    });
}

fn print(text: &'static str) {
    syscall(WRITE, 1, text.as_ptr() as usize, text.len(), 0);
}

/// # Safety
/// `stack` is the initial stack pointer of the process: argc, then that many argument pointers.
unsafe extern "C" fn report(stack: *const usize, first: isize) -> ! {
    // SAFETY: by contract the words up to argv[argc] exist and live as long as the process.
    let (argc, path, mode) = unsafe {
        let argc = *stack;
        (
            argc,
            if argc > 1 { *stack.add(2) } else { 0 },
            if argc > 2 {
                *(*stack.add(3) as *const u8)
            } else {
                0
            },
        )
    };
    say("first", first);
    if argc > 2 && mode == b'f' {
        double_fork(path);
    }
    exit(0);
}

/// The middle process leaves before the grandchild acts, so that nothing but the sandbox holds it.
fn double_fork(path: usize) {
    // Both descriptors in one word: an array would be cleared by the C library.
    let mut gate = 0_u64;
    syscall(PIPE, (&raw mut gate) as usize, 0, 0, 0);
    let middle = syscall(FORK, 0, 0, 0, 0);
    if middle == 0 {
        let me = syscall(FORK, 0, 0, 0, 0);
        if me == 0 {
            // Blocks until the middle process and its copy of the write end are gone.
            let opened = syscall(OPEN, path, 0, 0, 0);
            let mut waited = 0;
            while syscall(GETPPID, 0, 0, 0, 0) > 1 && waited < 100_000 {
                waited += 1;
            }
            let again = syscall(OPEN, path, 0, 0, 0);
            say("grandchild", opened);
            say("orphan", again);
            exit(0);
        }
        exit(usize::from(me < 0));
    }
    if middle < 0 {
        say("fork", middle);
        exit(3);
    }
    syscall(CLOSE, (gate >> 32) as usize, 0, 0, 0);
    syscall(WAIT4, middle as usize, 0, 0, 0);
    let mut byte = 0_u8;
    // Ends when the grandchild, the last holder of the write end, is gone.
    syscall(
        READ,
        (gate & 0xffff_ffff) as usize,
        (&raw mut byte) as usize,
        1,
        0,
    );
}
