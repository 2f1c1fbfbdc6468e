//! Starts the child, reaps whatever is re-parented to pid 1, forwards signals, reports the end.

use std::{
    ffi::CString,
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, AsRawFd as _},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{SigSet, SigmaskHow, Signal, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::{
    StepError,
    apply::Pipes,
    brood::Brood,
    message::{FromInit, Setup, ToInit},
};
use crate::{
    confine::seccomp,
    fault,
    link::channel::{Channel, ChannelError},
    octets::Octets,
    runtime::Culprit,
    sys::{
        clone::{Forked, fork},
        exec, process, signals,
    },
};

fn failed(cause: impl std::fmt::Display) -> StepError {
    StepError::new("init.child", "", cause)
}

/// Runs the child to its end. However it comes, nothing of the sandbox is left when this returns.
pub(super) fn run(channel: &Channel, setup: &Setup, pipes: Pipes, brood: Brood) -> Result<(), StepError> {
    let result = watch(channel, setup, pipes, brood);
    brood.end();
    result
}

fn watch(channel: &Channel, setup: &Setup, pipes: Pipes, brood: Brood) -> Result<(), StepError> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    if brood.is_ours() {
        signals.add(Signal::SIGTERM);
    }
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), None).map_err(failed)?;
    let deaths =
        SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(failed)?;
    let child = match start(setup, pipes, brood).map_err(|error| StepError::new("init.fork", "", error))? {
        Started::Running(child) => child,
        Started::Unprepared(error) => return Err(StepError::new("init.exec", "", error)),
        Started::NotExecuted(errno) => {
            channel
                .send(
                    &FromInit::NotExecuted(Culprit::find(setup.program.as_path(), errno)),
                    &[],
                )
                .map_err(|error| failed(crate::refusal::chain(&error)))?;
            return Ok(());
        }
    };
    channel
        .send(&FromInit::Started, &[])
        .map_err(|error| failed(crate::refusal::chain(&error)))?;
    loop {
        let mut ready = [
            PollFd::new(channel.as_fd(), PollFlags::POLLIN),
            PollFd::new(deaths.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::NONE) {
            Err(nix::Error::EINTR) => continue,
            other => other.map_err(failed)?,
        };
        let [link, death] = ready.map(|entry| entry.any().unwrap_or(true));
        if death {
            // Several deaths may have merged into one signal: read, then reap until none is left.
            while let Some(signal) = deaths.read_signal().map_err(failed)? {
                if signal.ssi_signo == Signal::SIGTERM as u32 {
                    return Ok(());
                }
            }
            if let Some((code, signal)) = reap(child).map_err(failed)? {
                // Everything else in the sandbox dies with this process.
                let _ = channel.send(&FromInit::Exited { code, signal }, &[]);
                return Ok(());
            }
        }
        if link {
            match channel.receive::<ToInit>() {
                Ok((ToInit::Terminate, _)) => {
                    // The child may be gone already; then its death is about to be read.
                    let _ = nix::sys::signal::kill(child, Signal::SIGTERM);
                }
                Ok((other, _)) => return Err(failed(format!("unexpected message {other:?}"))),
                // The warden is gone: so is the sandbox.
                Err(ChannelError::Closed) => return Ok(()),
                Err(error) => return Err(failed(crate::refusal::chain(&error))),
            }
        }
    }
}

/// Reaps all that is dead; the child's own end is returned.
fn reap(child: Pid) -> nix::Result<Option<(Option<i32>, Option<i32>)>> {
    let mut end = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => end = Some((Some(code), None)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                end = Some((None, Some(signal as i32)));
            }
            Ok(WaitStatus::StillAlive) | Err(nix::Error::ECHILD) => return Ok(end),
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// What became of the forked child.
enum Started {
    Running(Pid),
    /// One of our own steps before `execve` failed.
    Unprepared(io::Error),
    /// The kernel refused the program.
    NotExecuted(i32),
}

/// Our own step failed / `execve` failed: the first byte of a child's report, before the errno.
const PREPARE: u8 = 1;
const EXECUTE: u8 = 2;

/// Forks and executes the program.
fn start(setup: &Setup, pipes: Pipes, brood: Brood) -> io::Result<Started> {
    fault::point("init.fork")?;
    let text = |octets: &Octets| CString::new(octets.0.clone()).map_err(io::Error::from);
    let program = text(&setup.program)?;
    let argv: Vec<CString> = setup.argv.iter().map(text).collect::<io::Result<_>>()?;
    let environment: Vec<CString> = setup
        .environment
        .iter()
        .map(|(name, value)| {
            let mut pair = name.0.clone();
            pair.push(b'=');
            pair.extend_from_slice(&value.0);
            CString::new(pair).map_err(io::Error::from)
        })
        .collect::<io::Result<_>>()?;
    let no_signals = brood
        .needs_filter()
        .then(|| seccomp::no_signals().map_err(|error| io::Error::other(crate::refusal::chain(&error))))
        .transpose()?;
    let (verdict, report) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    match fork()? {
        Forked::Child => {
            let (stage, error) = become_child(
                (&program, &argv, &environment),
                &pipes,
                report.as_raw_fd(),
                brood,
                no_signals.as_deref(),
            );
            let errno = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
            let _ = File::from(report).write_all(&[stage, errno[0], errno[1], errno[2], errno[3]]);
            exec::leave(127);
        }
        Forked::Parent(pid) => {
            drop((report, pipes));
            let mut word = [0; 5];
            // Closed without a word: the program was executed.
            match File::from(verdict).read_exact(&mut word) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Ok(Started::Running(Pid::from_raw(pid)))
                }
                Ok(()) => {
                    let _ = waitpid(Pid::from_raw(pid), None);
                    let [stage, errno @ ..] = word;
                    let errno = i32::from_ne_bytes(errno);
                    Ok(match stage {
                        EXECUTE => Started::NotExecuted(errno),
                        _ => Started::Unprepared(io::Error::from_raw_os_error(errno)),
                    })
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// Returns only what failed.
fn become_child(
    (program, argv, environment): (&CString, &[CString], &[CString]),
    pipes: &Pipes,
    report: i32,
    brood: Brood,
    no_signals: Option<&[libc::sock_filter]>,
) -> (u8, io::Error) {
    let prepare = || -> io::Result<()> {
        nix::unistd::setsid()?;
        nix::unistd::dup2_stdin(&pipes[0])?;
        nix::unistd::dup2_stdout(&pipes[1])?;
        nix::unistd::dup2_stderr(&pipes[2])?;
        // Only the descriptor that reports a failed exec survives until then, and closes itself on success.
        process::close_on_exec_from(3)?;
        debug_assert!(report > 2);
        // The warden's own is large; programs that use select() must not get descriptors it cannot name.
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
        setrlimit(Resource::RLIMIT_NOFILE, most.min(1024), most)?;
        // Our runtime ignores SIGPIPE; what a client ignored comes down to here too. A server starts afresh.
        signals::reset_all()?;
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
        if brood.is_ours() {
            // It may take that back; then init's death is the warden's to follow up.
            process::parent_death_signal(libc::SIGKILL)?;
        }
        if let Some(filter) = no_signals {
            crate::sys::seccomp::install(filter)?;
        }
        fault::point("init.exec")
    };
    match prepare() {
        Ok(()) => (EXECUTE, exec::exec(program, argv, environment)),
        Err(error) => (PREPARE, error),
    }
}
