//! `guard-scripted CONTROL HEARD`: a server whose both ends are the test's. It decides nothing.
//!
//! What comes on its stdin goes to the pipe `HEARD` as it came: length (4 bytes, little endian), then the bytes; a length
//! of zero is the end. The pipe `CONTROL` says what it does, a line a deed: `out N` and `err N` with N bytes that follow
//! are written as they are, `open N` opens the path of N bytes that follow, `write N` to write, `fill N` and `err-flood N` are bytes of its own, `pause MS`, `close-out`, `exit N`, `crash`. From `hold` to `go` it
//! reads no more than one chunk.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    os::{fd::AsFd, unix::ffi::OsStringExt},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use nix::sys::signal::{Signal, raise};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(control), Some(heard)) = (words.next(), words.next()) else {
        return ExitCode::from(97);
    };
    let Ok(heard) = File::options().write(true).open(heard) else {
        return ExitCode::from(96);
    };
    thread::spawn(move || hear(heard));
    match File::open(control).and_then(|control| obey(BufReader::new(control))) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            drop(writeln!(io::stderr(), "guard-scripted: {error}"));
            ExitCode::from(99)
        }
    }
}

static HOLD: AtomicBool = AtomicBool::new(false);

fn hear(mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        while HOLD.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        let count = io::stdin().read(&mut buffer)?;
        let length = u32::try_from(count).map_err(io::Error::other)?;
        to.write_all(&length.to_le_bytes())?;
        to.write_all(&buffer[..count])?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// The end of the orders is the end of the test.
fn obey(mut control: impl BufRead) -> io::Result<u8> {
    let mut line = String::new();
    loop {
        line.clear();
        if control.read_line(&mut line)? == 0 {
            return Ok(0);
        }
        let (deed, number) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), "0"));
        let number: u64 = number.parse().map_err(io::Error::other)?;
        match deed {
            "out" => write_raw(&io::stdout(), &taken(&mut control, number)?)?,
            "err" => write_raw(&io::stderr(), &taken(&mut control, number)?)?,
            // What comes of it is for the record.
            "open" => drop(File::open(OsString::from_vec(taken(&mut control, number)?))),
            "write" => {
                let path = OsString::from_vec(taken(&mut control, number)?);
                drop(File::options().append(true).open(path));
            }
            "fill" => fill(number)?,
            "err-flood" => drop(thread::spawn(move || complain(number))),
            "pause" => thread::sleep(Duration::from_millis(number)),
            "hold" => HOLD.store(true, Ordering::Relaxed),
            "go" => HOLD.store(false, Ordering::Relaxed),
            "close-out" => nix::unistd::close(1)?,
            "exit" => return u8::try_from(number).map_err(io::Error::other),
            "crash" => raise(Signal::SIGKILL)?,
            _ => return Err(io::Error::other(format!("no deed `{deed}`"))),
        }
    }
}

fn taken(control: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    control.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Without the buffer of the standard library, which would hold back what has no line end.
fn write_raw(to: &impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = nix::unistd::write(to, bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Bytes without a line end.
fn fill(mut left: u64) -> io::Result<()> {
    let block = [b'x'; 1 << 16];
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        write_raw(&io::stdout(), &block[..count])?;
        left -= count as u64;
    }
    Ok(())
}

/// Lines of a kibibyte on stderr.
fn complain(bytes: u64) -> io::Result<()> {
    let mut line = [b'e'; 1024];
    line[1023] = b'\n';
    for _ in 0..bytes / 1024 {
        write_raw(&io::stderr(), &line)?;
    }
    Ok(())
}
