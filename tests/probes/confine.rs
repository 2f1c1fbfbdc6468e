#![expect(
    unsafe_code,
    reason = "raw system calls, and entries of other architectures, are what this probe is for"
)]
//! Confines itself as init or the gateway do, hands its listener out on standard input, and then tries things.
//!
//! `confine-probe none|strict|open|silent|gateway raw NR,ARG… …` prints `result errno` for each call
//! (an argument `@text` is a pointer to that text). Other modes are the arms of `main`.

#![expect(
    clippy::print_stdout,
    reason = "standard output is where the test reads the results"
)]

use std::{
    ffi::CString,
    fs,
    io::{self, IoSlice},
    os::{
        fd::{AsRawFd, RawFd},
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::{Context, bail};
use guard_agent::{
    config::rights::Rights,
    confine::{
        landlock::{Access, PathRule, Settings, restrict},
        seccomp::{ChildFilters, Options, install_child_silent, install_gateway},
    },
};
use nix::{
    sys::{
        socket::{ControlMessage, MsgFlags, sendmsg},
        stat::{Mode, SFlag},
    },
    unistd,
};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [confinement, mode, rest @ ..] = args.as_slice() else {
        bail!("confinement and mode")
    };
    if confinement == "landlock" {
        return landlock(mode, rest);
    }
    confine(confinement)?;
    match mode.as_str() {
        "raw" => rest.iter().try_for_each(|call| raw(call)),
        "exec" => Err(Command::new(&rest[0])
            .args(&rest[1..])
            .stdin(std::process::Stdio::null())
            .exec()
            .into()),
        "threads" => threads(),
        "init" => init(),
        "int80" => int80(),
        "x32" => x32(),
        "bench" => bench(),
        other => bail!("mode `{other}`"),
    }
}

fn confine(how: &str) -> anyhow::Result<()> {
    let filters = match how {
        "none" => return Ok(()),
        "gateway" => return Ok(install_gateway()?),
        "silent" => return Ok(install_child_silent(&Options::STRICT)?),
        "strict" => ChildFilters::reporting(&Options::STRICT)?,
        // Namespaces of its own, and none of what the kernel half adds.
        "closed" => ChildFilters::reporting(&Options {
            namespaces: true,
            truncation_judged: true,
            ..Options::STRICT
        })?,
        "open" => ChildFilters::reporting(&Options::OPEN)?,
        other => bail!("confinement `{other}`"),
    };
    let listener = filters.install()?;
    let rights: [RawFd; 1] = [listener.as_raw_fd()];
    sendmsg::<()>(
        io::stdin().as_raw_fd(),
        &[IoSlice::new(b"L")],
        &[ControlMessage::ScmRights(&rights)],
        MsgFlags::empty(),
        None,
    )
    .context("cannot hand out the listener")?;
    Ok(())
}

/// One call from `NR,ARG,…`.
fn raw(call: &str) -> anyhow::Result<()> {
    let mut texts = Vec::new();
    let mut words = [0_u64; 7];
    for (word, field) in words.iter_mut().zip(call.split(',')) {
        *word = if let Some(text) = field.strip_prefix('@') {
            let text = CString::new(text)?;
            let address = text.as_ptr() as u64;
            texts.push(text);
            address
        } else if let Some(hex) = field.strip_prefix("0x") {
            u64::from_str_radix(hex, 16)?
        } else if let Some(octal) = field.strip_prefix("0o") {
            u64::from_str_radix(octal, 8)?
        } else {
            field
                .parse::<i64>()
                .with_context(|| format!("`{field}` of `{call}`"))? as u64
        };
    }
    let [nr, a, b, c, d, e, f] = words;
    // SAFETY: the test's own choice of a call: pointers are null, invalid on purpose, or into `texts`, which lives on.
    let result = unsafe { libc::syscall(nr as i64, a, b, c, d, e, f) };
    let errno = if result < 0 {
        io::Error::last_os_error().raw_os_error().unwrap_or(0)
    } else {
        0
    };
    println!("{result} {errno}");
    Ok(())
}

fn threads() -> anyhow::Result<()> {
    let workers: Vec<_> = (0..8)
        .map(|n| {
            std::thread::Builder::new()
                .name(format!("worker-{n}"))
                .spawn(move || n * n)
        })
        .collect::<Result<_, _>>()?;
    let sum: u64 = workers.into_iter().map(|worker| worker.join().unwrap_or(0)).sum();
    println!("{sum} 0");
    Ok(())
}

/// What the sandbox's init does after it has confined itself.
fn init() -> anyhow::Result<()> {
    use nix::sys::{
        signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask},
        signalfd::SignalFd,
        wait::{WaitStatus, waitpid},
    };
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals.add(Signal::SIGTERM);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), None)?;
    let signalfd = SignalFd::new(&signals)?;
    // SAFETY: this process has one thread.
    match unsafe { unistd::fork() }? {
        unistd::ForkResult::Child => {
            unistd::setpgid(unistd::Pid::from_raw(0), unistd::Pid::from_raw(0))?;
            let copy = unistd::dup(io::stdout())?;
            // SAFETY: a descriptor number range; nothing in this process uses those that it closes.
            unsafe { libc::syscall(libc::SYS_close_range, copy.as_raw_fd() + 1, u32::MAX, 0) };
            Err(Command::new("/bin/true").exec().into())
        }
        unistd::ForkResult::Parent { child } => {
            let info = signalfd.read_signal()?.context("no signal")?;
            let status = waitpid(child, None)?;
            let gone = kill(child, Signal::SIGTERM) == Err(nix::Error::ESRCH);
            let chld = info.ssi_signo == Signal::SIGCHLD as u32;
            println!(
                "{} 0",
                i32::from(chld && gone && status == WaitStatus::Exited(child, 0))
            );
            Ok(())
        }
    }
}

/// `getpid` by the door of 32-bit programs.
fn int80() -> anyhow::Result<()> {
    let result: u64;
    // SAFETY: the kernel's 32-bit entry reads and writes only registers for this call; r8 to r11 are cleared by it.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_u64 => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    println!("{result} 0");
    Ok(())
}

/// `getpid` with the bit of x32 programs.
fn x32() -> anyhow::Result<()> {
    // SAFETY: `getpid` takes no argument.
    let result = unsafe { libc::syscall(0x4000_0000 + libc::SYS_getpid) };
    println!("{result} 0");
    Ok(())
}

fn bench() -> anyhow::Result<()> {
    let time = |name: &str, call: &dyn Fn()| {
        // The least of several rounds: the machine does other things.
        let best = (0..20)
            .map(|_| {
                let start = Instant::now();
                (0..20_000).for_each(|_| call());
                start.elapsed().as_nanos() / 20_000
            })
            .min();
        println!("{name} {}", best.unwrap_or_default());
    };
    // SAFETY: calls without pointers, or with a constant string.
    unsafe {
        time("getppid", &|| {
            libc::syscall(libc::SYS_getppid);
        });
        time("ioctl", &|| {
            libc::syscall(libc::SYS_ioctl, -1, 0x5401, 0);
        });
        time("prctl", &|| {
            libc::syscall(libc::SYS_prctl, libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
        });
        // Fails before it looks at any path: the filters' share, not the file system's.
        time("openat", &|| {
            libc::syscall(libc::SYS_openat, -1, c"".as_ptr(), 0, 0);
        });
        time("refused socket", &|| {
            libc::syscall(libc::SYS_socket, 99, 0, 0);
        });
    }
    Ok(())
}

/// `landlock RULES OPERATION…`: rules are `PATH=RIGHTS` joined by `;`, with `net` for the network rights.
fn landlock(rules: &str, operations: &[String]) -> anyhow::Result<()> {
    let mut paths = Vec::new();
    let mut network = false;
    for rule in rules.split(';').filter(|rule| !rule.is_empty()) {
        match rule.split_once('=') {
            Some((path, rights)) => {
                paths.push((
                    Path::new(path),
                    rights.parse::<Rights>().map_err(anyhow::Error::msg)?,
                ));
            }
            None => network = rule == "net",
        }
    }
    let rules: Vec<_> = paths
        .iter()
        .map(|(path, rights)| PathRule::path(path, Access::from(*rights)))
        .collect();
    let state = restrict(&rules, Settings { network })?;
    println!(
        "{} {} {:#x} {:#x}",
        state.abi, state.scopes, state.handled_fs, state.handled_net
    );
    for operation in operations {
        let words: Vec<&str> = operation.split(' ').collect();
        let errno = attempt(&words)
            .err()
            .map_or(0, |error| error.raw_os_error().unwrap_or(-1));
        println!("{operation}: {errno}");
    }
    Ok(())
}

fn attempt(words: &[&str]) -> io::Result<()> {
    match words {
        ["read", path] => fs::read(path).map(drop),
        ["list", path] => fs::read_dir(path).map(drop),
        ["write", path] => fs::OpenOptions::new().write(true).open(path).map(drop),
        ["truncate", path] => Ok(unistd::truncate(*path, 0)?),
        ["create", path] => fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map(drop),
        ["mkdir", path] => fs::create_dir(path),
        ["symlink", path] => std::os::unix::fs::symlink("target", path),
        ["mkfifo", path] => Ok(unistd::mkfifo(*path, Mode::S_IRUSR)?),
        ["socket", path] => std::os::unix::net::UnixListener::bind(path).map(drop),
        ["device", path] => Ok(nix::sys::stat::mknod(
            *path,
            SFlag::S_IFCHR,
            Mode::S_IRUSR,
            0x103,
        )?),
        ["unlink", path] => fs::remove_file(path),
        ["rmdir", path] => fs::remove_dir(path),
        ["rename", from, to] => fs::rename(from, to),
        ["link", from, to] => fs::hard_link(from, to),
        ["exec", path] => Command::new(path).status().map(drop),
        ["kill", pid] => {
            let pid = pid.parse().map_err(io::Error::other)?;
            Ok(nix::sys::signal::kill(unistd::Pid::from_raw(pid), None)?)
        }
        ["abstract", name] => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            std::os::unix::net::UnixStream::connect_addr(&address).map(drop)
        }
        ["tcp", port] => {
            std::net::TcpStream::connect(("127.0.0.1", port.parse().map_err(io::Error::other)?)).map(drop)
        }
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}
