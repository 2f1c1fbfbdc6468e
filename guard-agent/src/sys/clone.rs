//! `clone3`: a process born in its cgroup and its namespaces.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    ptr,
};

use super::check;

/// The namespaces every sandbox gets at birth. The cgroup namespace is entered by the
/// sandbox's init itself: made here it would be rooted at the warden's cgroup.
pub const SANDBOX_NAMESPACES: u64 =
    (libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS)
        as u64;

/// The same for a caller without privilege: owned by a user namespace of the sandbox's own.
pub const USER_NAMESPACES: u64 = SANDBOX_NAMESPACES | libc::CLONE_NEWUSER as u64;

/// What init needs of its user namespace until it gives everything up: mounts, the bounding set, the ceiling of
/// further user namespaces. `execve` takes all that is not ambient from who is not uid 0.
const KEPT: [u32; 3] = [8, 21, 24]; // CAP_SETPCAP, CAP_SYS_ADMIN, CAP_SYS_RESOURCE

/// libc's constant overflows its type.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// A process that was just born.
#[derive(Debug)]
pub struct Born {
    pub pid: i32,
    pub pidfd: OwnedFd,
}

/// What the new process executes at once.
pub struct Image<'a> {
    /// Executed by descriptor, so that nobody can swap the file behind a path.
    pub program: BorrowedFd<'a>,
    pub argv: &'a [CString],
    pub environment: &'a [CString],
    /// Becomes descriptor 3 of the new program; 0, 1 and 2 become `null`. All others are closed.
    pub channel: BorrowedFd<'a>,
    pub null: BorrowedFd<'a>,
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|text| text.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// Keeps the capabilities of a new user namespace over `execve`. Raw calls on the stack alone.
///
/// # Safety
/// Only in the process that `clone3` has just made: it changes the calling thread's capabilities.
unsafe fn keep_capabilities() {
    // _LINUX_CAPABILITY_VERSION_3, this thread.
    let header: [u32; 2] = [0x2008_0522, 0];
    // Low and high half of each of: effective, permitted, inheritable.
    let mut sets: [[u32; 3]; 2] = [[0; 3]; 2];
    // SAFETY: header and sets have the kernel's layout for this version and live on this stack. What fails shows
    // later, as a mount that is not allowed.
    unsafe {
        libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr());
        for half in &mut sets {
            half[2] = half[1];
        }
        libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr());
        for capability in KEPT {
            libc::syscall(
                libc::SYS_prctl,
                libc::PR_CAP_AMBIENT,
                libc::PR_CAP_AMBIENT_RAISE,
                capability,
                0,
                0,
            );
        }
    }
}

/// Starts `image` in new `namespaces`, a member of `cgroup` from its first instruction when one is given.
pub fn spawn(namespaces: u64, cgroup: Option<BorrowedFd<'_>>, image: &Image<'_>) -> io::Result<Born> {
    let mut pidfd: RawFd = -1;
    let argv = pointers(image.argv);
    let environment = pointers(image.environment);
    let empty: &CStr = c"";
    let (program, channel, null) = (
        image.program.as_raw_fd(),
        image.channel.as_raw_fd(),
        image.null.as_raw_fd(),
    );
    // SAFETY: an all-zero clone_args is a valid value of that plain C struct.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces | libc::CLONE_PIDFD as u64;
    args.pidfd = ptr::from_mut(&mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: `args` is a live local of the size passed; without CLONE_VM the child gets a copy of this
    // address space. It runs only raw system calls on memory prepared above (async-signal-safe, since other
    // threads of the parent may have held locks), and leaves through execveat or _exit.
    let pid = unsafe {
        let pid = libc::syscall(
            libc::SYS_clone3,
            ptr::from_ref(&args),
            size_of::<libc::clone_args>(),
        );
        if pid == 0 {
            let mut none: u64 = 0;
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK,
                ptr::from_mut(&mut none),
                ptr::null::<u64>(),
                8,
            );
            if namespaces & libc::CLONE_NEWUSER as u64 != 0 {
                keep_capabilities();
            }
            // The channel first: it may itself sit at 0, 1 or 2 only if the parent closed those, which it never does.
            if channel == 3 {
                libc::syscall(libc::SYS_fcntl, 3, libc::F_SETFD, 0);
            } else if libc::syscall(libc::SYS_dup3, channel, 3, 0) < 0 {
                libc::_exit(126);
            }
            // The program's descriptor must survive the next dup and close: it is moved out of the way.
            let image = libc::syscall(libc::SYS_fcntl, program, libc::F_DUPFD_CLOEXEC, 10);
            for target in 0..3 {
                if libc::syscall(libc::SYS_dup3, null, target, 0) < 0 {
                    libc::_exit(126);
                }
            }
            libc::syscall(libc::SYS_close_range, 4, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            libc::syscall(
                libc::SYS_execveat,
                image,
                empty.as_ptr(),
                argv.as_ptr(),
                environment.as_ptr(),
                libc::AT_EMPTY_PATH,
            );
            libc::_exit(127);
        }
        check(pid)?
    };
    // SAFETY: clone3 succeeded with CLONE_PIDFD, so the kernel stored a new descriptor here that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Born {
        pid: pid as i32,
        pidfd,
    })
}

/// What `fork` returned.
pub enum Forked {
    Child,
    Parent(i32),
}

/// Plain fork of a single-threaded process (the sandbox's init).
pub fn fork() -> io::Result<Forked> {
    // SAFETY: the caller is single-threaded (init never starts a thread), so the child is a full copy and may
    // run any code.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}
