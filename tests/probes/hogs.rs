//! Ill-behaved programs, each bounded in amount and time: without any sandbox they end by themselves.
#![expect(unsafe_code, reason = "fork and signal dispositions")]

use std::{
    io::{self, BufRead as _, Write as _},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{SigHandler, Signal, signal},
    unistd::{ForkResult, fork},
};
use serde_json::json;

use crate::probe::{Args, Failure};

/// `(name, what it does)`, for the usage text.
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("memory-hog", "mib=64 secs=5: touches that much memory, holds it"),
    (
        "fork-bomb",
        "count=64 secs=5: that many sleeping children, counts refusals",
    ),
    ("cpu-spin", "threads=2 secs=5: spins"),
    (
        "ignores-term",
        "secs=20: ignores SIGTERM, SIGHUP, SIGINT and end of input",
    ),
    ("crash", "signal=SIGSEGV: dies of the signal"),
    (
        "huge-output",
        "mib=8: that much on stdout, in one line when line=1",
    ),
    ("echo", "answers each line of input with itself"),
    ("environment-dump", "prints its environment as a JSON list"),
    ("wait", "secs=600: waits for end of input"),
];

pub(crate) fn run(name: &str, args: &Args) -> Result<bool, Failure> {
    match name {
        "memory-hog" => memory(bounded(args, "mib", 64, 4096), seconds(args, 5)),
        "fork-bomb" => forks(bounded(args, "count", 64, 4096), seconds(args, 5))?,
        "cpu-spin" => spin(bounded(args, "threads", 2, 64), seconds(args, 5))?,
        "ignores-term" => ignore(seconds(args, 20))?,
        "crash" => {
            let which = args
                .text("signal")
                .ok()
                .and_then(|name| name.parse().ok())
                .unwrap_or(Signal::SIGSEGV);
            nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0)?;
            // Rust's own handler of stack overflows would return.
            // SAFETY: the default disposition runs no code of ours.
            unsafe { signal(which, SigHandler::SigDfl)? };
            nix::sys::signal::raise(which)?;
        }
        "huge-output" => output(bounded(args, "mib", 8, 1024), args.text("line").is_ok())?,
        "echo" => echo()?,
        "environment-dump" => {
            let entries =
                std::env::vars_os().map(|(name, value)| format!("{}={}", name.display(), value.display()));
            say(&json!(entries.collect::<Vec<_>>()))?;
        }
        "wait" => {
            nix::unistd::alarm::set(u32::try_from(seconds(args, 600).as_secs()).unwrap_or(600));
            io::copy(&mut io::stdin(), &mut io::sink())?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn bounded(args: &Args, key: &str, default: usize, most: usize) -> usize {
    args.number(key).unwrap_or(default).min(most)
}

fn seconds(args: &Args, default: u64) -> Duration {
    Duration::from_secs(args.number("secs").unwrap_or(default).min(900))
}

fn say(value: &serde_json::Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()
}

fn memory(mib: usize, hold: Duration) {
    let mut kept = Vec::new();
    for number in 0..mib {
        // Not zeroes: those could be shared or never allocated.
        kept.push(vec![u8::try_from(number % 251 + 1).unwrap_or(1); 1 << 20]);
    }
    drop(say(&json!({"hog": "memory", "mib": kept.len()})));
    std::thread::sleep(hold);
}

fn forks(count: usize, hold: Duration) -> Result<(), Failure> {
    let (mut made, mut refused) = (0, 0);
    for _ in 0..count {
        // SAFETY: one thread; the child sleeps and leaves.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                std::thread::sleep(hold);
                // SAFETY: ends the child without running the parent's destructors.
                unsafe { libc::_exit(0) }
            }
            Ok(ForkResult::Parent { .. }) => made += 1,
            Err(_) => refused += 1,
        }
    }
    say(&json!({"hog": "fork", "made": made, "refused": refused}))?;
    while nix::sys::wait::wait().is_ok() {}
    Ok(())
}

fn spin(threads: usize, hold: Duration) -> Result<(), Failure> {
    let until = Instant::now() + hold;
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            std::thread::spawn(move || {
                let mut turns = 0_u64;
                while Instant::now() < until {
                    turns = turns.wrapping_add(1);
                }
                turns
            })
        })
        .collect();
    let turns: u64 = workers.into_iter().filter_map(|worker| worker.join().ok()).sum();
    say(&json!({"hog": "cpu", "turns": turns}))?;
    Ok(())
}

fn ignore(hold: Duration) -> Result<(), Failure> {
    for which in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        // SAFETY: ignoring installs no handler code.
        unsafe { signal(which, SigHandler::SigIgn)? };
    }
    say(&json!({"ignoring": ["SIGTERM", "SIGHUP", "SIGINT"]}))?;
    std::thread::sleep(hold);
    Ok(())
}

fn output(mib: usize, one_line: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut block = vec![b'x'; 1 << 20];
    if !one_line {
        block.chunks_mut(1024).for_each(|line| line[1023] = b'\n');
    }
    for _ in 0..mib {
        out.write_all(&block)?;
    }
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

fn echo() -> Result<(), Failure> {
    for line in io::stdin().lock().lines() {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", line?)?;
        out.flush()?;
    }
    Ok(())
}
