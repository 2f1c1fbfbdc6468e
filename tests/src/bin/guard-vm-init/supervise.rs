//! Runs the case: output to the console, a deadline, orphans reaped.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::spec::{Spec, Verdict};

pub(crate) fn run(spec: &Spec) -> Result<Verdict> {
    let (program, args) = spec.argv.split_first().context("the case has no command")?;
    let (reader, writer) = io::pipe().context("create the output pipe")?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .env("GUARD_TEST_GUEST", "1")
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(writer.try_clone().context("share the output pipe")?)
        .stdout(writer)
        .process_group(0);
    let child = command.spawn().with_context(|| format!("start `{program}`"))?;
    drop(command); // holds the pipe's other end
    let pump = thread::spawn(move || pump(reader));
    let late = Arc::new(AtomicBool::new(false));
    deadline(spec.timeout_s, Arc::clone(&late));

    let status = reap_until(Pid::from_raw(i32::try_from(child.id()).context("pid")?))?;
    // What the case left running holds the pipe open and the file systems busy.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    let _ = pump.join();
    Ok(match status {
        _ if late.load(Ordering::SeqCst) => Verdict::Timeout(spec.timeout_s),
        WaitStatus::Signaled(_, signal, _) => Verdict::Signal(signal as i32),
        WaitStatus::Exited(_, code) => Verdict::Exit(code),
        other => Verdict::Setup(format!("unexpected wait status {other:?}")),
    })
}

/// As pid 1 this process is the parent of every orphan.
fn reap_until(case: Pid) -> Result<WaitStatus> {
    loop {
        let status = match waitpid(None, None) {
            Err(nix::Error::EINTR) => continue,
            other => other.context("wait for the case")?,
        };
        if status.pid() == Some(case) {
            return Ok(status);
        }
    }
}

fn deadline(seconds: u64, late: Arc<AtomicBool>) {
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(seconds));
        late.store(true, Ordering::SeqCst);
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    });
}

fn pump(mut from: impl Read) {
    let mut buffer = [0; 4096];
    let mut out = io::stdout();
    let mut ended = true;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let _ = out.write_all(&buffer[..length]);
        let _ = out.flush();
        ended = buffer[length - 1] == b'\n';
    }
    if !ended {
        // The init's own lines must start at the margin.
        let _ = out.write_all(b"\n");
    }
}
