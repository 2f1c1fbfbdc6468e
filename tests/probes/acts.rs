//! A server that does what each line of its input says, and stays alive: what it did can still be looked up.
#![expect(unsafe_code, reason = "fork, threads and execve")]

use std::{
    ffi::CString,
    io::{self, BufRead as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};
use serde::Deserialize;
use serde_json::json;

use crate::raw::{NULL, at, call, path};

#[derive(Debug, Clone, Deserialize)]
struct Act {
    /// What to do.
    act: String,
    #[serde(default)]
    path: String,
    /// The other path, or the directory a descriptor is opened of.
    #[serde(default)]
    to: String,
    #[serde(default)]
    number: i64,
    #[serde(default = "once")]
    times: u64,
    #[serde(default)]
    who: Who,
    /// The process ends with it.
    #[serde(default)]
    leave: bool,
}

fn once() -> u64 {
    1
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Who {
    #[default]
    Server,
    Thread,
    Grandchild,
}

type Done = Result<usize, Errno>;

pub(crate) fn run() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let answer = match serde_json::from_str::<Act>(&line?) {
            Ok(act) => answer(&act),
            Err(error) => json!({"outcome": "unreadable", "detail": error.to_string()}),
        };
        say(&answer)?;
    }
    Ok(())
}

fn say(value: &serde_json::Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()
}

fn answer(act: &Act) -> serde_json::Value {
    match act.act.as_str() {
        "heartbeat" => {
            heartbeat();
            return json!({"outcome": "ok"});
        }
        "flood" => return flood(act),
        "processes" => return json!({"outcome": processes().to_string()}),
        "daemon" => return json!({"outcome": daemon(act)}),
        _ => {}
    }
    let outcome = match act.who {
        Who::Server if act.leave => {
            repeated(act);
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) }
        }
        Who::Server => repeated(act),
        Who::Thread => {
            let act = act.clone();
            std::thread::spawn(move || repeated(&act))
                .join()
                .unwrap_or_else(|_| "panicked".into())
        }
        Who::Grandchild => grandchild(act),
    };
    json!({"outcome": outcome})
}

/// The outcome of the last time; they are all the same.
fn repeated(act: &Act) -> String {
    let mut outcome = String::new();
    for _ in 0..act.times {
        outcome = match once_done(act) {
            Ok(_) => "ok".into(),
            Err(errno) => format!("{errno:?}"),
        };
    }
    outcome
}

/// Of a child that is gone, so that nobody of this process knows it any more.
fn grandchild(act: &Act) -> String {
    let Ok((from, to)) = nix::unistd::pipe() else {
        return "no pipe".into();
    };
    // SAFETY: this process has one thread while it acts.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(from);
            // SAFETY: as above.
            if let Ok(ForkResult::Child) = unsafe { fork() } {
                let outcome = repeated(act);
                nix::unistd::write(&to, outcome.as_bytes()).ok();
                // Still there when it is looked at.
                std::thread::sleep(Duration::from_millis(300));
            }
            // SAFETY: ends a process that shares the parent's buffers.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => {
            drop(to);
            waitpid(child, None).ok();
            io::read_to_string(std::fs::File::from(from)).unwrap_or_default()
        }
        Err(errno) => format!("{errno:?}"),
    }
}

/// Those that this one sees.
fn processes() -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_process))
        .count()
}

/// Leaves a process behind, in a session of its own, that makes a file grow for ever.
fn daemon(act: &Act) -> &'static str {
    let file = std::fs::File::options().create(true).append(true).open(&act.path);
    let Ok(mut file) = file else { return "no file" };
    // SAFETY: this process has one thread while it acts.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            nix::unistd::setsid().ok();
            // SAFETY: as above; the second child is nobody's.
            if let Ok(ForkResult::Parent { .. }) = unsafe { fork() } {
                // SAFETY: ends a process that shares the parent's buffers.
                unsafe { libc::_exit(0) }
            }
            loop {
                file.write_all(b"x").ok();
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(ForkResult::Parent { child }) => {
            waitpid(child, None).ok();
            "ok"
        }
        Err(_) => "no fork",
    }
}

fn once_done(act: &Act) -> Done {
    let (one, other) = (path(&act.path), path(&act.to));
    match act.act.as_str() {
        "open" => close(call!(SYS_openat, libc::AT_FDCWD, one, libc::O_RDONLY)),
        "open-write" => close(call!(SYS_openat, libc::AT_FDCWD, one, libc::O_RDWR)),
        "create" => close(call!(SYS_open, one, libc::O_CREAT | libc::O_WRONLY, 0o600)),
        "open-at" => {
            // It stays open: the record says where the path starts.
            let directory = call!(SYS_open, other, libc::O_PATH)?;
            close(call!(SYS_openat, directory, one, libc::O_RDONLY))
        }
        "chdir" => call!(SYS_chdir, one),
        "stat" => {
            let mut room = [0u64; 18];
            call!(SYS_stat, one, at(&mut room))
        }
        "unlink" => call!(SYS_unlink, one),
        "rename" => call!(SYS_rename, one, other),
        "link" => call!(SYS_link, one, other),
        "symlink" => call!(SYS_symlink, one, other),
        "mkdir" => call!(SYS_mkdir, one, 0o700),
        "truncate" => call!(SYS_truncate, one, 0),
        "chmod" => call!(SYS_chmod, one, 0o600),
        "setxattr" => call!(SYS_setxattr, one, c"user.x", c"1", 1, 0),
        "exec" => exec(&one),
        "map" => map(&one),
        "ptrace" => call!(SYS_ptrace, libc::PTRACE_ATTACH, act.number, NULL, NULL),
        "mount" => call!(SYS_mount, c"none", one, c"tmpfs", 0, NULL),
        "kill" => call!(SYS_kill, act.number, 0),
        "connect" => connect(act.number),
        other => {
            eprintln!("guard-probe: no act `{other}`");
            Err(Errno::EINVAL)
        }
    }
}

fn close(opened: Done) -> Done {
    let fd = opened?;
    call!(SYS_close, fd).ok();
    Ok(fd)
}

/// Above every exit status of the programs that are started.
const NOT_STARTED: i32 = 100;

/// In a child; only that it could not be started is told.
fn exec(program: &CString) -> Done {
    // SAFETY: the child calls nothing but execve and _exit.
    match unsafe { fork()? } {
        ForkResult::Child => {
            let argv = [program.as_ptr(), std::ptr::null()];
            // SAFETY: a program name and a vector, both ended, that live until the call is over.
            unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), argv[1..].as_ptr().cast()) };
            let errno = Errno::last_raw();
            // SAFETY: ends a process that shares the parent's buffers.
            unsafe { libc::_exit(NOT_STARTED + errno) }
        }
        ForkResult::Parent { child } => match waitpid(child, None)? {
            WaitStatus::Exited(_, status) if status > NOT_STARTED => {
                Err(Errno::from_raw(status - NOT_STARTED))
            }
            WaitStatus::Exited(..) => Ok(0),
            _ => Err(Errno::EINTR),
        },
    }
}

fn map(file: &CString) -> Done {
    let fd = call!(SYS_open, file, libc::O_RDONLY)?;
    // The descriptor stays open: the record names its file.
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    call!(SYS_mmap, NULL, 4096, protection, libc::MAP_PRIVATE, fd, 0)
}

fn connect(port: i64) -> Done {
    let socket: OwnedFd = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Stream,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let to = nix::sys::socket::SockaddrIn::new(192, 0, 2, 1, u16::try_from(port).unwrap_or(1));
    nix::sys::socket::connect(std::os::fd::AsRawFd::as_raw_fd(&socket.as_fd()), &to).map(|()| 0)
}

/// A line every 20 ms, for as long as this process runs.
fn heartbeat() {
    std::thread::spawn(|| {
        for beat in 0u64.. {
            if say(&json!({"beat": beat})).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

/// Refused opens as fast as they go, every `number`th of them (if not 0) of another file, and a connect after it.
/// What was not refused is not counted.
fn flood(act: &Act) -> serde_json::Value {
    let same = path(&act.path);
    let (mut opens, mut connects) = (0u64, 0u64);
    let every = u64::try_from(act.number).unwrap_or(0);
    for attempt in 0..act.times {
        let file = if every > 0 && attempt % every == 0 {
            connects += u64::from(connect(i64::try_from(attempt % 60_000).unwrap_or(0) + 1).is_err());
            &path(format!("{}-{attempt}", act.path))
        } else {
            &same
        };
        opens += u64::from(call!(SYS_open, file, libc::O_RDONLY).is_err());
    }
    json!({"outcome": "ok", "opens": opens, "connects": connects})
}
