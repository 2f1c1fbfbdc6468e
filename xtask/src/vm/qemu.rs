//! Starts the emulator, follows the console, tells a panic from a hang from a verdict.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Status;
use super::spec::{MARK, MARK_CASE, VERDICT_NAME, Verdict};

const SILENT: &str = "the machine went off without a verdict; is its memory too small for the kernel?";

pub(crate) struct Machine<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initrd: &'a Path,
    /// Raw images and their serials.
    pub(crate) disks: &'a [(&'a Path, &'a str)],
    pub(crate) append: &'a str,
    pub(crate) memory_mb: u64,
    pub(crate) cpus: u32,
    /// After this the machine is stopped, whatever it does.
    pub(crate) limit: Duration,
    /// Whether console lines of the case go to our output as they come.
    pub(crate) stream: bool,
    /// The guest's clock advances a nanosecond an instruction, and skips what it would wait.
    pub(crate) counted: bool,
}

pub(crate) struct Ran {
    pub(crate) console: Vec<String>,
    /// From the emulator's start to the start of the case.
    pub(crate) boot: Option<Duration>,
    pub(crate) end: End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    PoweredOff,
    Limit,
    Emulator(String),
}

/// The parent's death ends the emulator: a killed runner leaves no machine behind.
fn command(machine: &Machine<'_>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    command.args([
        "-nodefaults",
        "-no-reboot",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-cpu",
        "max",
    ]);
    let accel = if machine.cpus > 1 {
        "tcg,thread=multi"
    } else {
        "tcg"
    };
    command.args([
        "-accel",
        accel,
        "-smp",
        &machine.cpus.to_string(),
        "-m",
        &machine.memory_mb.to_string(),
    ]);
    if machine.counted {
        command.args(["-icount", "shift=0,sleep=off"]);
    }
    command
        .arg("-kernel")
        .arg(machine.kernel)
        .arg("-initrd")
        .arg(machine.initrd);
    for (path, serial) in machine.disks {
        let drive = format!(
            "id={serial},if=none,format=raw,cache=unsafe,file={}",
            path.display().to_string().replace(',', ",,")
        );
        command.args([
            "-drive",
            &drive,
            "-device",
            &format!("virtio-blk-pci,drive={serial},serial={serial}"),
        ]);
    }
    let append = format!("console=ttyS0 quiet panic=-1 mitigations=off {}", machine.append);
    command.args(["-append", append.trim_end()]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn run(machine: &Machine<'_>) -> Result<Ran> {
    let start = Instant::now();
    let mut emulator = command(machine).spawn().context("start `qemu-system-x86_64`")?;
    let console = emulator.stdout.take().context("the emulator has no output")?;
    let errors = emulator
        .stderr
        .take()
        .context("the emulator has no error stream")?;
    let errors = thread::spawn(move || read_all(errors));
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        lines(console, |line| sender.send(line).is_ok());
    });

    let mut ran = Ran {
        console: Vec::new(),
        boot: None,
        end: End::PoweredOff,
    };
    let case_starts = format!("{MARK}{MARK_CASE}");
    let mut shown = false;
    loop {
        let left = machine.limit.saturating_sub(start.elapsed());
        match receiver.recv_timeout(left) {
            Ok(line) => {
                if line == case_starts {
                    ran.boot = ran.boot.or(Some(start.elapsed()));
                    shown = machine.stream;
                } else if line.starts_with(MARK) {
                    shown = false;
                } else if shown {
                    let _ = writeln!(std::io::stdout().lock(), "{line}");
                }
                ran.console.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                ran.end = End::Limit;
                break;
            }
        }
    }
    stop(&mut emulator, &mut ran, errors)?;
    let _ = reader.join();
    Ok(ran)
}

fn stop(emulator: &mut Child, ran: &mut Ran, errors: thread::JoinHandle<String>) -> Result<()> {
    if ran.end == End::Limit {
        emulator.kill().context("stop the emulator")?;
    }
    let status = emulator.wait().context("wait for the emulator")?;
    let errors = errors.join().unwrap_or_default();
    if ran.end == End::PoweredOff && !status.success() {
        ran.end = End::Emulator(format!("{status}: {}", errors.trim()));
    }
    Ok(())
}

fn read_all(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Console lines without carriage returns and the escape codes the firmware prints.
fn lines(from: impl Read, mut each: impl FnMut(String) -> bool) {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    while matches!(from.read_until(b'\n', &mut bytes), Ok(1..)) {
        let line = clean(&String::from_utf8_lossy(&bytes));
        bytes.clear();
        if !each(line) {
            return;
        }
    }
}

fn clean(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.trim_end_matches(['\r', '\n']);
    while let Some((before, code)) = rest.split_once("\x1bc").or_else(|| rest.split_once("\x1b[")) {
        out.push_str(before);
        rest = if rest.as_bytes()[before.len() + 1] == b'c' {
            code
        } else {
            code.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ';' | '?' | '='))
                .get(1..)
                .unwrap_or("")
        };
    }
    out.push_str(rest);
    out
}

/// What the console tells when the guest handed over no verdict, or a killed case.
pub(crate) fn judge(ran: &Ran, verdict: Option<Verdict>) -> Status {
    let panic = find(&ran.console, "Kernel panic - not syncing");
    let oom = find(&ran.console, "Out of memory: Killed process")
        .or_else(|| panic.clone().filter(|line| line.contains("deadlocked on memory")));
    let setup = || {
        ran.console
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix(&format!("{MARK}verdict ")))
    };
    match (verdict, &ran.end) {
        (Some(Verdict::Signal(9)), _) if oom.is_some() => Status::OutOfMemory(oom.unwrap_or_default()),
        (Some(Verdict::Exit(code)), _) => Status::Exit(code),
        (Some(Verdict::Signal(signal)), _) => Status::Signal(signal),
        (Some(Verdict::Timeout(seconds)), _) => {
            Status::Timeout(format!("the case, stopped after {seconds} s"))
        }
        (Some(Verdict::Setup(text)), _) => Status::Setup(text),
        (None, _) if oom.is_some() => Status::OutOfMemory(oom.unwrap_or_default()),
        (None, _) if panic.is_some() => Status::Panic(panic.unwrap_or_default()),
        (None, End::Limit) => Status::Timeout("the machine".to_owned()),
        (None, End::Emulator(text)) => Status::Emulator(text.clone()),
        (None, End::PoweredOff) => match setup().and_then(|text| serde_json::from_str(text).ok()) {
            Some(Verdict::Setup(text)) => Status::Setup(text),
            _ => Status::Emulator(SILENT.to_owned()),
        },
    }
}

/// A kernel line with this text, its time stamp cut off. Lines of a case that merely quote it do not count.
fn find(console: &[String], text: &str) -> Option<String> {
    console.iter().find_map(|line| {
        let message = match line.strip_prefix('[') {
            Some(rest) => rest.split_once("] ").map_or(rest, |(_, message)| message),
            None => line,
        };
        message.starts_with(text).then(|| message.to_owned())
    })
}

/// Reads what the guest wrote to the output disk: its verdict, and the case's files into `into`.
pub(crate) fn unpack(disk: &Path, into: &Path) -> Result<Option<Verdict>> {
    let file = File::open(disk).with_context(|| format!("open `{}`", disk.display()))?;
    let mut archive = tar::Archive::new(BufReader::with_capacity(1 << 18, file));
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(false);
    let mut verdict = None;
    for entry in archive.entries().context("read the output disk")? {
        let mut entry = entry.context("read the output disk")?;
        let path = entry
            .path()
            .context("read a name on the output disk")?
            .into_owned();
        if verdict.is_none() {
            ensure!(
                path == Path::new(VERDICT_NAME),
                "the output disk starts with `{}`",
                path.display()
            );
            verdict = Some(serde_json::from_reader(&mut entry).context("read the verdict")?);
            continue;
        }
        entry
            .unpack_in(into)
            .with_context(|| format!("unpack `{}`", path.display()))?;
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(end: End, console: &[&str]) -> Ran {
        Ran {
            console: console.iter().map(|line| (*line).to_owned()).collect(),
            boot: None,
            end,
        }
    }

    #[test]
    fn a_panic_is_a_panic() {
        let text = "Kernel panic - not syncing: sysrq triggered crash";
        let status = judge(
            &ran(
                End::PoweredOff,
                &["noise", &format!("[    2.103944] {text}"), "more"],
            ),
            None,
        );
        assert_eq!(status, Status::Panic(text.to_owned()));
    }

    #[test]
    fn words_of_a_case_are_no_panic() {
        let console = [
            "test says Kernel panic - not syncing: no",
            "expected Out of memory: Killed process 7",
        ];
        assert_eq!(
            judge(&ran(End::PoweredOff, &console), Some(Verdict::Exit(0))),
            Status::Exit(0)
        );
        assert!(matches!(
            judge(&ran(End::Limit, &console), None),
            Status::Timeout(_)
        ));
    }

    #[test]
    fn a_killed_case_is_out_of_memory_only_when_the_machine_was() {
        let machine = "[   12.1] Out of memory: Killed process 70 (hog) total-vm:1kB";
        let cgroup = "[   12.1] Memory cgroup out of memory: Killed process 70 (hog) total-vm:1kB";
        let judged = |line| judge(&ran(End::PoweredOff, &[line]), Some(Verdict::Signal(9)));
        assert!(matches!(judged(machine), Status::OutOfMemory(_)));
        assert_eq!(judged(cgroup), Status::Signal(9));
    }

    #[test]
    fn silence_is_a_hang_and_a_dead_emulator_is_its_own_end() {
        assert!(matches!(judge(&ran(End::Limit, &[]), None), Status::Timeout(_)));
        let dead = judge(
            &ran(End::Emulator("exit status: 1: bad option".to_owned()), &[]),
            None,
        );
        assert_eq!(dead, Status::Emulator("exit status: 1: bad option".to_owned()));
        let console = [r#"@vm verdict {"setup":"mount `bpf` at `/sys/fs/bpf`: ENODEV"}"#];
        assert!(
            matches!(judge(&ran(End::PoweredOff, &console), None), Status::Setup(text) if text.contains("bpf"))
        );
    }

    #[test]
    fn firmware_codes_are_taken_out() {
        assert_eq!(clean("\x1bc\x1b[?7l\x1b[2J\x1b[0mSeaBIOS\r\n"), "SeaBIOS");
        assert_eq!(clean("plain [text] here\n"), "plain [text] here");
    }
}
