//! One program of a leg: its output passed on line by line, its end awaited, its children ended when it hangs.

use std::{
    fs,
    io::{BufRead as _, BufReader, PipeReader},
    process::{Command, ExitStatus},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How long there may be silence before a line says that it still runs.
const QUIET: Duration = Duration::from_secs(60);

/// How the line begins that says so.
pub(crate) const RUNNING: &str = "[test] still running after ";

/// Runs `command` for at most `limit` and gives each line of its output, stdout and stderr together, to `take`.
pub(crate) fn run(mut command: Command, limit: Duration, mut take: impl FnMut(&str)) -> Result<ExitStatus> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    let also = writer.try_clone().context("copy a pipe's end")?;
    let mut child = command
        .stdout(writer)
        .stderr(also)
        .spawn()
        .with_context(|| format!("start `{name}`"))?;
    // The command holds the pipe's other ends, and we would wait for them for ever.
    drop(command);
    let lines = lines(reader);
    let until = Instant::now() + limit;
    let start = Instant::now();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left.min(QUIET)) {
            Ok(line) => take(&line),
            Err(RecvTimeoutError::Disconnected) => return child.wait().context("wait for the program"),
            Err(RecvTimeoutError::Timeout) => {
                // A program may have ended while one that it left behind holds the pipe.
                let ended = child.try_wait().context("ask for the program")?;
                if Instant::now() >= until || ended.is_some() {
                    end_tree(child.id());
                    let _ = child.wait();
                    let what =
                        ended.map_or("not done", |_| "ended, but something it started holds its output");
                    bail!("`{name}`: {what} after {} s", start.elapsed().as_secs());
                }
                take(&format!("{RUNNING}{} s", start.elapsed().as_secs()));
            }
        }
    }
}

fn lines(reader: PipeReader) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes);
            if sender
                .send(line.trim_end_matches(['\n', '\r']).to_owned())
                .is_err()
            {
                return;
            }
            bytes.clear();
        }
    });
    receiver
}

/// Kills a process of ours and all that descend from it.
fn end_tree(root: u32) {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(children(parent));
        next += 1;
    }
    for pid in tree {
        if let Ok(pid) = i32::try_from(pid) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn children(parent: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else {
        return Vec::new();
    };
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_arrive_and_the_status() {
        let mut seen = Vec::new();
        let status = run(
            shell("echo one; echo two >&2; printf three; exit 3"),
            QUIET,
            |line| {
                seen.push(line.to_owned());
            },
        );
        assert_eq!(status.unwrap().code(), Some(3));
        assert_eq!(seen, ["one", "two", "three"]);
    }

    #[test]
    fn a_hanging_program_ends_with_its_children() {
        let mut pids = Vec::new();
        let limit = Duration::from_millis(500);
        let error = run(shell("sleep 600 & echo $!; wait"), limit, |line| {
            pids.push(line.to_owned());
        });
        assert!(error.unwrap_err().to_string().contains("not done after"));
        let stat = format!("/proc/{}/stat", pids[0]);
        let gone = |text: String| text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
        let until = Instant::now() + Duration::from_secs(5);
        while !fs::read_to_string(&stat).map_or(true, gone) {
            assert!(Instant::now() < until, "the child is still there");
        }
    }
}
