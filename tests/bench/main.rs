//! What `cargo xtask bench` measures with, outside and inside a sandbox: a server that answers `initialize`, and times
//! loops of system calls on request, a line each.
//!
//! `guard-bench [landlock ROOT]`: with `landlock` under the agent's own rules for a root with rights `rw`, and nothing
//! else of a sandbox.

use std::{
    io::{BufRead as _, Write as _},
    net::{SocketAddr, TcpStream, UdpSocket},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_agent::{
    config::rights::Rights,
    confine::landlock::{PathRule, Settings, restrict},
};
use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
    time::{ClockId, clock_gettime},
};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {}
        ["landlock", root] => {
            let rights: Rights = "rw".parse().map_err(anyhow::Error::msg)?;
            let rule = PathRule::path(Path::new(root), rights.into());
            restrict(&[rule], Settings { network: false }).context("apply Landlock")?;
        }
        other => bail!("unknown words {other:?}"),
    }
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = answer(&line?)?;
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Result<String> {
    if line.starts_with('{') {
        return Ok(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"guard-bench","version":"0"}}}"#.to_owned());
    }
    match line.split(' ').collect::<Vec<_>>().as_slice() {
        ["open", path, count] => each(count.parse()?, || {
            drop(open(*path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?);
            Ok(())
        }),
        // What this thread took of the processor: whatever else the machine does is left out.
        ["open-own", path, count] => {
            let before = own()?;
            let count: u32 = count.parse()?;
            each(count, || {
                drop(open(*path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?);
                Ok(())
            })?;
            let took = own()?.saturating_sub(before);
            Ok(format!("{}", took.as_nanos() as f64 / f64::from(count)))
        }
        ["enter", path] => {
            std::env::set_current_dir(path)?;
            Ok("0".to_owned())
        }
        ["getppid", count] => each(count.parse()?, || {
            std::hint::black_box(nix::unistd::getppid());
            Ok(())
        }),
        // Attempts that a sandbox refuses, as fast as they go.
        ["deny-open", path, ms] => flood(ms.parse()?, || {
            open(*path, OFlag::O_RDONLY, Mode::empty()).is_err()
        }),
        ["deny-connect", address, ms] => {
            let address: SocketAddr = address.parse()?;
            flood(ms.parse()?, || TcpStream::connect(address).is_err())
        }
        ["deny-send", address, ms] => {
            let address: SocketAddr = address.parse()?;
            let socket = UdpSocket::bind("0.0.0.0:0").or_else(|_| unbound())?;
            flood(ms.parse()?, || socket.send_to(b"x", address).is_err())
        }
        other => bail!("unknown request {other:?}"),
    }
}

/// A datagram socket that was never bound: binding is refused too.
fn unbound() -> std::io::Result<UdpSocket> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    Ok(socket.into())
}

fn own() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Nanoseconds each.
fn each(count: u32, mut call: impl FnMut() -> Result<()>) -> Result<String> {
    ensure!(count > 0, "nothing to do");
    let start = Instant::now();
    for _ in 0..count {
        call()?;
    }
    Ok(format!(
        "{}",
        start.elapsed().as_nanos() as f64 / f64::from(count)
    ))
}

/// How many attempts were refused, and the nanoseconds they took.
fn flood(ms: u64, mut refused: impl FnMut() -> bool) -> Result<String> {
    let (start, limit) = (Instant::now(), Duration::from_millis(ms));
    let mut count = 0_u64;
    while start.elapsed() < limit {
        // The clock is asked once in so many.
        for _ in 0..64 {
            ensure!(refused(), "attempt {count} was not refused");
            count += 1;
        }
    }
    Ok(format!("{count} {}", start.elapsed().as_nanos()))
}
