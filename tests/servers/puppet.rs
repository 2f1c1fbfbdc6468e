//! `guard-puppet`: the server whose life and death the tests watch. It does what its words say, in order, then ends.
//!
//! No SDK, no protocol: what is relayed are bytes, and what matters here is who dies when.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, Read as _, Write as _},
    net::TcpStream,
    os::unix::{fs::OpenOptionsExt as _, net::UnixStream},
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal};

/// A stream of bytes that both sides can make and that no line reader leaves alone.
const STEP: usize = 251;

fn main() -> ExitCode {
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        match act(name, value) {
            Ok(None) => {}
            Ok(Some(code)) => return ExitCode::from(code),
            Err(error) => {
                drop(writeln!(io::stderr(), "guard-puppet: {word}: {error}"));
                return ExitCode::from(99);
            }
        }
    }
    ExitCode::SUCCESS
}

/// One word; a code ends the program.
fn act(name: &str, value: &str) -> io::Result<Option<u8>> {
    let number = || value.parse::<u64>().map_err(io::Error::other);
    match name {
        "mark" => drop(File::create(value)?),
        "say" => say(value)?,
        "raw" => io::stdout().write_all(&[0, 0xff, 0x1b, b'\r', b'\n', 0x80, 0xc3, b'\n'])?,
        "complain" => writeln!(io::stderr(), "{value}")?,
        "complain-control" => io::stderr().write_all(b"red\x1b[31m\x07 bell\r\nlong\n")?,
        "complain-bytes" => complain(number()?)?,
        "exit" => return Ok(Some(u8::try_from(number()?).unwrap_or(98))),
        "crash" => nix::sys::signal::raise(Signal::SIGKILL)?,
        "sleep" => thread::sleep(Duration::from_millis(number()?)),
        // Blocked, not ignored: what cannot be delivered changes nothing, and no handler is needed.
        "stubborn" => blocked().thread_block()?,
        "tell-term" => tell_term(value)?,
        // Whoever ended it is the test's question, not ours.
        "echo" => drop(io::copy(&mut io::stdin().lock(), &mut io::stdout().lock())),
        "answer-after" => answer_after(number()?)?,
        "answer-or-leave" => answer_or_leave(number()?)?,
        "until-eof" => drop(io::copy(&mut io::stdin().lock(), &mut io::sink())?),
        "keep" => drop(io::copy(&mut io::stdin().lock(), &mut File::create(value)?)?),
        "told-eof" => fs::write(value, "eof")?,
        "close-stdin" => nix::unistd::close(0)?,
        "forever" => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        "flood" => flood(number()?)?,
        "daemons" => daemons(number()?)?,
        "middle" => middle(value)?,
        "orphans" => orphans(number()?)?,
        "connect" => connect(value.to_owned()),
        "leak" => leak(value)?,
        "status" => io::copy(&mut File::open("/proc/self/status")?, &mut io::stdout()).map(drop)?,
        _ => return Err(io::Error::other("no such word")),
    }
    Ok(None)
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

fn blocked() -> SigSet {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set
}

/// A SIGTERM becomes a file, and nothing else.
fn tell_term(path: &str) -> io::Result<()> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.thread_block()?;
    let path = path.to_owned();
    thread::spawn(move || {
        if set.wait().is_ok() {
            drop(fs::write(path, "term"));
        }
    });
    Ok(())
}

/// Each line is answered after a while, one after the other; ends at the end of its input.
fn answer_after(milliseconds: u64) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        thread::sleep(Duration::from_millis(milliseconds));
        say(&format!("answer {line}"))?;
    }
    Ok(())
}

/// As many asynchronous servers: the end of the input ends the program, whatever it still owes.
fn answer_or_leave(milliseconds: u64) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(milliseconds));
            say(&format!("answer {line}"))
        });
    }
    Ok(())
}

fn flood(bytes: u64) -> io::Result<()> {
    let block: Vec<u8> = (0..STEP * 256)
        .map(|at| u8::try_from(at % STEP).unwrap_or(0))
        .collect();
    let mut out = io::stdout().lock();
    let mut left = bytes;
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        out.write_all(&block[..count])?;
        left -= count as u64;
    }
    out.flush()
}

fn complain(bytes: u64) -> io::Result<()> {
    let line = [b'e'; 1023];
    for _ in 0..bytes / 1024 {
        io::stderr().write_all(&line)?;
        io::stderr().write_all(b"\n")?;
    }
    Ok(())
}

fn own() -> io::Result<std::path::PathBuf> {
    std::env::current_exe()
}

/// Processes that left their parents and their session, and do not go when asked.
fn daemons(count: u64) -> io::Result<()> {
    for number in 0..count {
        let done = Command::new(own()?)
            .arg(format!("middle=daemon-{number}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !done.success() {
            return Err(io::Error::other(format!("a daemon did not start: {done}")));
        }
    }
    Ok(())
}

/// Starts what outlives it. `leaf` ends soon; a daemon never does.
fn middle(what: &str) -> io::Result<()> {
    nix::unistd::setsid()?;
    let mut command = Command::new(own()?);
    if what == "leaf" {
        command.arg("sleep=5");
    } else {
        blocked().thread_block()?;
        command.arg("forever");
    }
    command.spawn().map(drop)
}

/// Double forks; then tells how many dead processes nobody fetched.
fn orphans(count: u64) -> io::Result<()> {
    for _ in 0..count {
        let done = Command::new(own()?).arg("middle=leaf").status()?;
        if !done.success() {
            return Err(io::Error::other(format!("a double fork failed: {done}")));
        }
    }
    for _ in 0..200 {
        if living()?.1 == 2 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let (zombies, all) = living()?;
    say(&format!("zombies {zombies} processes {all}"))
}

/// Zombies and processes in this pid namespace.
fn living() -> io::Result<(usize, usize)> {
    let (mut zombies, mut all) = (0, 0);
    for entry in fs::read_dir("/proc")?.flatten() {
        if !entry
            .file_name()
            .to_string_lossy()
            .bytes()
            .all(|byte| byte.is_ascii_digit())
        {
            continue;
        }
        let mut stat = String::new();
        if File::open(entry.path().join("stat"))
            .and_then(|mut file| file.read_to_string(&mut stat))
            .is_err()
        {
            continue;
        }
        all += 1;
        if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')) {
            zombies += 1;
        }
    }
    Ok((zombies, all))
}

/// Tries to reach something outside without a pause, on a thread, as long as the program lives.
fn connect(target: String) {
    thread::spawn(move || {
        loop {
            if target.starts_with('/') {
                drop(UnixStream::connect(Path::new(&target)).map(|mut stream| stream.write_all(b"x")));
            } else {
                drop(TcpStream::connect(&target).map(|mut stream| stream.write_all(b"x")));
            }
            // A planted file too: it must never open.
            drop(
                File::options()
                    .read(true)
                    .custom_flags(nix::libc::O_NOFOLLOW)
                    .open("/etc/shadow"),
            );
        }
    });
}

/// `FROM:TO`: tries to read a file without a pause, on a thread, as long as the program lives. Its bytes go to another.
fn leak(value: &str) -> io::Result<()> {
    let (from, to) = value.split_once(':').ok_or(io::ErrorKind::InvalidInput)?;
    let (from, to) = (from.to_owned(), to.to_owned());
    thread::spawn(move || {
        loop {
            if let Ok(bytes) = fs::read(&from) {
                drop(fs::write(&to, bytes));
            }
        }
    });
    Ok(())
}
