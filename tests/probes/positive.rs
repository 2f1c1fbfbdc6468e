//! What an ordinary server does and must still be able to do inside.
#![expect(unsafe_code, reason = "fork, threads by hand and mapped memory")]

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Seek as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    path::Path,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::{
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, fork},
};

use crate::{
    files::done,
    probe::{Answer, Args, Failure, Probe, probe},
    raw::{self, call},
};

pub(crate) const CHECKS: &[Probe] = &[
    probe("ok-write-rename-fsync", "", files),
    probe("ok-mmap", "", mapped),
    probe("ok-tmp", "", |_| tmp()),
    probe("ok-threads", "", |_| threads()),
    probe("ok-fork-signal", "", |_| fork_signal()),
    probe("ok-pipes", "", |_| pipes()),
    probe("ok-flock", "", locks),
    probe("ok-names", "", names),
    probe("ok-deep-tree", "", deep),
    probe("ok-10000-files", "", many),
    probe("ok-own-proc", "", |_| own_proc()),
    probe("ok-read-r-root", "", |a| {
        crate::files::read(&a.path("r")?.join("own"))
    }),
    probe("ok-exec-rx-root", "", |a| {
        let status = std::process::Command::new(a.path("rx")?.join("prog")).status()?;
        (status.code() == Some(guard_tests::tiny_elf::RAN))
            .then(String::new)
            .ok_or(Failure::Word("exit", status.to_string()))
    }),
    probe("ok-dev", "", |_| {
        let mut bytes = [0_u8; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        File::open("/dev/zero")?.read_exact(&mut bytes)?;
        OpenOptions::new()
            .write(true)
            .open("/dev/null")?
            .write_all(&bytes)?;
        Ok(String::new())
    }),
    probe("ok-event-calls", "", |_| event_calls()),
    probe("ok-inotify-in-root", "", |a| {
        let watch = call!(SYS_inotify_init1, 0)?;
        done(call!(
            SYS_inotify_add_watch,
            watch,
            raw::path(a.path("rw")?),
            libc::IN_ALL_EVENTS
        ))
    }),
    probe("ok-memfd-data", "", |_| {
        // Data, not a program: sealed against execution where the kernel knows the flag.
        let fd = call!(SYS_memfd_create, c"data", 0x8).or_else(|_| call!(SYS_memfd_create, c"data", 0))?;
        done(call!(SYS_ftruncate, fd, 4096))
    }),
    probe("ok-jit", "", |_| {
        // Node compiles into anonymous memory.
        let page = call!(
            SYS_mmap,
            0,
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0
        )?;
        done(call!(SYS_mprotect, page, 4096, libc::PROT_READ | libc::PROT_EXEC))
    }),
];

/// Made by one side for another to look for; neither an attempt nor a check.
pub(crate) const TOOLS: &[Probe] = &[probe("ipc-make", "", |a| {
    done(call!(
        SYS_shmget,
        a.number::<i32>("shm_key")?,
        4096,
        libc::IPC_CREAT | 0o600
    ))
})];

fn require(holds: bool, what: &'static str) -> Result<(), Failure> {
    if holds {
        Ok(())
    } else {
        Err(Failure::Word("wrong", what.to_owned()))
    }
}

fn files(args: &Args) -> Answer {
    let dir = args.rw("made")?;
    fs::create_dir(&dir)?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(dir.join("a"))?;
    file.write_all(b"hello")?;
    file.sync_all()?;
    fs::rename(dir.join("a"), dir.join("b"))?;
    std::os::unix::fs::symlink("b", dir.join("c"))?;
    fs::hard_link(dir.join("b"), dir.join("d"))?;
    fs::set_permissions(dir.join("b"), std::os::unix::fs::PermissionsExt::from_mode(0o640))?;
    require(
        fs::read(dir.join("c"))? == b"hello",
        "content through a link in the root",
    )?;
    file.set_len(2)?;
    file.rewind()?;
    fs::remove_dir_all(&dir)?;
    Ok(String::new())
}

fn mapped(args: &Args) -> Answer {
    let path = args.rw("mapped")?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    file.set_len(4096)?;
    let address = call!(
        SYS_mmap,
        0,
        4096,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED,
        file.as_raw_fd(),
        0
    )?;
    // SAFETY: the page was mapped writable a line above and nothing else refers to it.
    unsafe { *(address as *mut u8) = b'm' };
    call!(SYS_msync, address, 4096, libc::MS_SYNC)?;
    require(fs::read(&path)?[0] == b'm', "a shared mapping reaches the file")?;
    Ok(String::new())
}

/// `/tmp` is writable, empty of others' files, and has an end.
fn tmp() -> Answer {
    let path = Path::new("/tmp/guard-check");
    fs::write(path, b"x")?;
    fs::remove_file(path)?;
    let stat = nix::sys::statvfs::statvfs("/tmp")?;
    Ok((stat.blocks() * stat.fragment_size()).to_string())
}

fn threads() -> Answer {
    let workers: Vec<_> = (0..8_u64)
        .map(|number| std::thread::spawn(move || number * number))
        .collect();
    let sum: u64 = workers.into_iter().filter_map(|worker| worker.join().ok()).sum();
    require(sum == 140, "eight threads")?;
    Ok(String::new())
}

fn fork_signal() -> Answer {
    // SAFETY: one thread again by now; the child only sleeps until it is killed.
    match unsafe { fork()? } {
        ForkResult::Child => loop {
            nix::unistd::sleep(1);
        },
        ForkResult::Parent { child } => {
            kill(child, Signal::SIGTERM)?;
            match waitpid(child, None)? {
                WaitStatus::Signaled(_, Signal::SIGTERM, _) => Ok(String::new()),
                other => Err(Failure::Word("wrong", format!("{other:?}"))),
            }
        }
    }
}

fn pipes() -> Answer {
    let (mut left, mut right) = UnixStream::pair()?;
    left.write_all(b"ping")?;
    let mut bytes = [0_u8; 4];
    right.read_exact(&mut bytes)?;
    let (from, to) = nix::unistd::pipe()?;
    nix::unistd::write(&to, &bytes)?;
    let mut again = [0_u8; 4];
    nix::unistd::read(&from, &mut again)?;
    require(&again == b"ping", "a pipe and a socket pair")?;
    // As /dev/stdin does it.
    File::open(format!("/proc/self/fd/{}", from.as_raw_fd()))?;
    Ok(String::new())
}

fn locks(args: &Args) -> Answer {
    let file = File::create(args.rw("lock")?)?;
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)?;
    drop(lock);
    Ok(String::new())
}

fn names(args: &Args) -> Answer {
    for name in [
        "grüße 世界 \u{1f600}".to_owned(),
        "n".repeat(255),
        "new\nline".to_owned(),
        " ".to_owned(),
    ] {
        let path = args.rw(&name)?;
        fs::write(&path, &name)?;
        require(fs::read(&path)? == name.as_bytes(), "content by an unusual name")?;
    }
    Ok(String::new())
}

fn deep(args: &Args) -> Answer {
    let mut path = args.rw("deep")?;
    for level in 0..200 {
        path.push(format!("{level}"));
    }
    fs::create_dir_all(&path)?;
    fs::write(path.join("leaf"), b"leaf")?;
    require(fs::read(path.join("leaf"))? == b"leaf", "a leaf 200 levels down")?;
    Ok(String::new())
}

fn many(args: &Args) -> Answer {
    let dir = args.rw("many")?;
    fs::create_dir(&dir)?;
    for number in 0..10_000 {
        File::create(dir.join(number.to_string()))?;
    }
    Ok(fs::read_dir(&dir)?.count().to_string())
}

fn own_proc() -> Answer {
    let status = fs::read_to_string("/proc/self/status")?;
    let wanted: Vec<&str> = status
        .lines()
        .filter(|line| {
            [
                "NoNewPrivs",
                "Seccomp:",
                "CapEff",
                "CapPrm",
                "CapBnd",
                "CapInh",
                "CapAmb",
                "Uid",
                "Groups",
            ]
            .iter()
            .any(|key| line.starts_with(key))
        })
        .collect();
    let core = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_CORE)?;
    Ok(format!(
        "{}\nCoreLimit:\t{} {}",
        wanted.join("\n"),
        core.0,
        core.1
    ))
}

fn event_calls() -> Answer {
    let poll = call!(SYS_epoll_create1, 0)?;
    let event = call!(SYS_eventfd2, 0, 0)?;
    let timer = call!(SYS_timerfd_create, 1, 0)?;
    let mut set = 0_u64;
    let signals = call!(SYS_signalfd4, -1, raw::at(&mut set), 8, 0)?;
    let mut random = [0_u8; 8];
    call!(SYS_getrandom, raw::at(&mut random), 8, 0)?;
    Ok(format!("{poll} {event} {timer} {signals}"))
}
