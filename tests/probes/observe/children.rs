//! Calls made by children: what they change ends with them.

use std::{io, mem, ptr};

use crate::Call;

/// `CLONE_INTO_CGROUP`
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// `struct clone_args` of the kernel's interface.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Makes a call in a child, in another cgroup if one is given: what it returned or, when it executed a program, that
/// program's exit status.
pub(crate) fn run(call: &Call, cgroup: Option<u64>) -> String {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors. This program has one thread while it obeys an order, so that its
    // children may do anything; `args` is a whole structure of the size given and says nothing of memory.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return answer(last_error());
        }
        let args = CloneArgs {
            flags: cgroup.map_or(0, |_| INTO_CGROUP),
            exit_signal: libc::SIGCHLD as u64,
            cgroup: cgroup.unwrap_or(0),
            ..CloneArgs::default()
        };
        let child = libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>());
        if child == 0 {
            let result = call.make().to_ne_bytes();
            libc::write(ends[1], result.as_ptr().cast(), result.len());
            libc::_exit(0);
        }
        let failed = last_error();
        libc::close(ends[1]);
        let mut result = [0_u8; 8];
        let read = libc::read(ends[0], result.as_mut_ptr().cast(), result.len());
        libc::close(ends[0]);
        if child < 0 {
            return answer(failed);
        }
        let mut status = 0;
        libc::waitpid(child as i32, &raw mut status, 0);
        if read == 8 {
            return answer(i64::from_ne_bytes(result));
        }
        if libc::WIFEXITED(status) {
            return answer(i64::from(libc::WEXITSTATUS(status)));
        }
        answer(-1000 - i64::from(libc::WTERMSIG(status)))
    }
}

/// A child that waits until its parent ends.
pub(crate) fn child() -> String {
    // SAFETY: as above.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        }
        answer(i64::from(child))
    }
}

/// Reads a word of another process, from where this one has its own.
pub(crate) fn peek(pid: i32) -> String {
    let (mut word, source) = (0_u64, 42_u64);
    let vector = |at: *const u64| libc::iovec {
        iov_base: at.cast_mut().cast(),
        iov_len: size_of::<u64>(),
    };
    let (to, from) = (vector(&raw mut word), vector(&raw const source));
    // SAFETY: the local vector is a word of this function's; the other one's address is for the kernel to check.
    let read = unsafe { libc::process_vm_readv(pid, &raw const to, 1, &raw const from, 1, 0) };
    answer(if read < 0 { last_error() } else { read as i64 })
}

/// A call as programs of 32 bits make it.
pub(crate) fn narrow(nr: u64, [a, b, c]: [u64; 3]) -> String {
    let result: u64;
    // SAFETY: the kernel's gate for such programs takes its numbers from these registers and changes no others but
    // those named; the calls of these tests point to no memory.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {first}",
            "int 0x80",
            "xchg rbx, {first}",
            first = inout(reg) a => _,
            inlateout("rax") nr => result,
            in("rcx") b,
            in("rdx") c,
            out("r8") _,
            out("r9") _,
            out("r10") _,
            out("r11") _,
        );
    }
    answer(i64::from(result as i32))
}

/// Opens a file by what its filesystem knows it by; `mount` is anything open there.
pub(crate) fn by_handle(mount: i32, path: &std::ffi::CStr) -> String {
    // `struct file_handle`: room, kind, and the room.
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let mut id = 0;
    // SAFETY: the structure is as long as it says, the path ends with a zero, and `id` is one integer.
    let opened = unsafe {
        let at = handle.as_mut_ptr();
        match libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            at,
            &raw mut id,
            0,
        ) {
            0 => libc::syscall(libc::SYS_open_by_handle_at, mount, at, libc::O_RDONLY),
            _ => -1,
        }
    };
    answer(if opened < 0 { last_error() } else { opened })
}

/// Hands an open file over.
pub(crate) fn send(socket: i32, file: i32) -> String {
    with_message(|message, byte| {
        // SAFETY: the message has room for the header of one descriptor and the descriptor.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(file);
            *byte = b'x';
            libc::sendmsg(socket, message, 0) as i64
        }
    })
}

/// Takes one: its descriptor, or -13 when the kernel kept it back, which `recvmsg` says with a flag alone.
pub(crate) fn take(socket: i32) -> String {
    with_message(|message, _| {
        // SAFETY: as above; a header is there or the pointer is null.
        unsafe {
            if libc::recvmsg(socket, message, 0) < 0 {
                return -1;
            }
            let header = libc::CMSG_FIRSTHDR(message);
            if header.is_null() {
                return if (*message).msg_flags & libc::MSG_CTRUNC != 0 {
                    -13
                } else {
                    -1000
                };
            }
            i64::from(libc::CMSG_DATA(header).cast::<i32>().read_unaligned())
        }
    })
}

fn with_message(act: impl FnOnce(*mut libc::msghdr, &mut u8) -> i64) -> String {
    let mut byte = 0_u8;
    let mut control = [0_u64; 4];
    let at = &raw mut byte;
    let mut part = libc::iovec {
        iov_base: at.cast(),
        iov_len: 1,
    };
    // SAFETY: all zeroes is a message without anything.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = ptr::from_mut(&mut part);
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: computes a size.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<i32>() as u32) } as usize;
    let result = act(&raw mut message, &mut byte);
    answer(if result == -1 { last_error() } else { result })
}

fn last_error() -> i64 {
    -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// As the orders of calls are answered.
pub(crate) fn answer(result: i64) -> String {
    format!("{result} {0} {0}", std::process::id())
}
