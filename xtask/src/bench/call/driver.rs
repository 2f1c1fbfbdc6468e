//! The client of every way: lines out, lines in, a monotonic clock, and nothing in between.

use std::{
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::bench::server::INITIALIZE;

/// Longer than it takes a proxy to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// What is read at once: no more than a pipe holds.
const CHUNK: usize = 64 << 10;
/// What may stand before an id or the outcome of an answer, at its start or at its end.
const EDGE: usize = 96;

/// A session with a server, through whatever stands before it.
pub(super) struct Driver {
    child: Child,
    to: Option<ChildStdin>,
    from: Lines,
    last: u64,
    /// How many calls were answered.
    pub(super) calls: u64,
}

/// A call without its id.
pub(super) struct Call {
    tail: String,
    /// An answer is at least as long.
    least: usize,
}

impl Call {
    /// Of a tool with arguments, for an answer with so many bytes of text.
    pub(super) fn new(tool: &str, arguments: &serde_json::Value, least: usize) -> Self {
        let params = serde_json::json!({ "name": tool, "arguments": arguments });
        Self {
            tail: format!(r#","method":"tools/call","params":{params}}}"#) + "\n",
            least,
        }
    }

    fn line(&self, id: u64) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","id":{id}{}"#, self.tail).into_bytes()
    }
}

/// When a sample is over: after so many calls, or after so long and a few of them.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) calls: usize,
    pub(super) time: Duration,
    pub(super) least: usize,
}

impl Driver {
    pub(super) fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start `{}`", command.get_program().display()))?;
        let to = child.stdin.take();
        let from = Lines::new(child.stdout.take().context("no output")?);
        let mut driver = Self {
            child,
            to,
            from,
            last: 1,
            calls: 0,
        };
        driver.write(format!("{INITIALIZE}\n").as_bytes())?;
        driver.answer(1, "protocolVersion".len())?;
        driver.write(format!("{INITIALIZED}\n").as_bytes())?;
        Ok(driver)
    }

    /// Microseconds each, one call at a time.
    pub(super) fn one_by_one(&mut self, call: &Call, sample: Sample) -> Result<Vec<f64>> {
        let start = Instant::now();
        let mut took = Vec::with_capacity(sample.calls);
        while took.len() < sample.calls && (took.len() < sample.least || start.elapsed() < sample.time) {
            self.last += 1;
            let line = call.line(self.last);
            let begun = Instant::now();
            self.write(&line)?;
            self.answer(self.last, call.least)?;
            took.push(begun.elapsed().as_nanos() as f64 / 1000.0);
            self.calls += 1;
        }
        Ok(took)
    }

    /// Calls a second, with so many of them in flight all the time.
    pub(super) fn at_once(&mut self, call: &Call, in_flight: usize, sample: Sample) -> Result<f64> {
        let first = self.last + 1;
        let mut to = self.to.take().context("its input is closed")?;
        let (free, turns) = sync_channel(in_flight);
        let start = Instant::now();
        // A thread of its own, so that a server that waits for its answer to be read is not waited for.
        let writer = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let sent = write_each(&mut to, call, first, &turns);
                // Whoever hands out turns must not wait for one to be taken.
                drop(turns);
                sent
            });
            let read = self.read_each(call, &free, in_flight, start, sample);
            drop(free);
            let sent = writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"));
            Ok::<_, anyhow::Error>((read?, sent??))
        });
        self.to = Some(to);
        let (answered, sent) = writer?;
        ensure!(answered == sent, "{sent} calls, {answered} answers");
        let took = start.elapsed().as_secs_f64();
        self.last += sent;
        self.calls += sent;
        Ok(sent as f64 / took)
    }

    /// Reads an answer for each turn it gives away.
    fn read_each(
        &mut self,
        call: &Call,
        free: &SyncSender<()>,
        in_flight: usize,
        start: Instant,
        sample: Sample,
    ) -> Result<u64> {
        let mut given = 0_usize;
        let mut answered = 0_usize;
        let goes_on = |given: usize| {
            given < sample.calls.max(in_flight) && (given < sample.least || start.elapsed() < sample.time)
        };
        while given < in_flight && goes_on(given) {
            free.send(())?;
            given += 1;
        }
        while answered < given {
            let line = self.from.next()?;
            if is_message(line) {
                continue;
            }
            ensure!(is_result(line, call.least), "no result: `{}`", edges(line));
            answered += 1;
            if goes_on(given) {
                free.send(())?;
                given += 1;
            }
        }
        Ok(answered as u64)
    }

    fn write(&mut self, line: &[u8]) -> Result<()> {
        let to = self.to.as_mut().context("its input is closed")?;
        to.write_all(line).context("write a message")
    }

    /// The answer with this id.
    fn answer(&mut self, id: u64, least: usize) -> Result<()> {
        let own = format!("\"id\":{id}");
        loop {
            let line = self.from.next()?;
            if is_message(line) {
                continue;
            }
            let (head, tail) = parts(line);
            ensure!(
                is_result(line, least) && (holds(head, own.as_bytes()) || holds(tail, own.as_bytes())),
                "no result with id {id}: `{}`",
                edges(line)
            );
            return Ok(());
        }
    }

    /// Its input is closed, and it has to end by itself.
    pub(super) fn end(mut self) -> Result<()> {
        self.to = None;
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().context("wait for a server")?.is_none() {
            if Instant::now() > until {
                bail!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.to = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn write_each(to: &mut ChildStdin, call: &Call, first: u64, turns: &Receiver<()>) -> Result<u64> {
    let mut sent = 0;
    while turns.recv().is_ok() {
        to.write_all(&call.line(first + sent)).context("write a call")?;
        sent += 1;
    }
    Ok(sent)
}

/// Whole lines of a pipe, none copied twice.
struct Lines {
    from: ChildStdout,
    buffer: Vec<u8>,
    /// What of the buffer is read, given away, and known to hold no line's end.
    filled: usize,
    start: usize,
    seen: usize,
}

impl Lines {
    fn new(from: ChildStdout) -> Self {
        Self {
            from,
            buffer: vec![0; 2 * CHUNK],
            filled: 0,
            start: 0,
            seen: 0,
        }
    }

    fn next(&mut self) -> Result<&[u8]> {
        loop {
            let new = &self.buffer[self.seen..self.filled];
            if let Some(at) = memchr::memchr(b'\n', new) {
                let line = self.start..self.seen + at;
                self.start = line.end + 1;
                self.seen = self.start;
                return Ok(&self.buffer[line]);
            }
            self.seen = self.filled;
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.filled, 0);
                self.filled -= self.start;
                (self.start, self.seen) = (0, self.filled);
            }
            if self.buffer.len() - self.filled < CHUNK {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            let room = &mut self.buffer[self.filled..];
            let count = self.from.read(room).context("read an answer")?;
            ensure!(count > 0, "it ended without an answer");
            self.filled += count;
        }
    }
}

fn parts(line: &[u8]) -> (&[u8], &[u8]) {
    (
        &line[..line.len().min(EDGE)],
        &line[line.len().saturating_sub(EDGE)..],
    )
}

fn holds(part: &[u8], text: &[u8]) -> bool {
    part.windows(text.len()).any(|window| window == text)
}

/// What servers say of their own accord is not what is waited for.
fn is_message(line: &[u8]) -> bool {
    let head = parts(line).0;
    holds(head, b"\"method\":") && !holds(head, b"\"result\":")
}

fn is_result(line: &[u8], least: usize) -> bool {
    let (head, tail) = parts(line);
    let failed = |part| holds(part, b"\"isError\":true");
    holds(head, b"\"result\":") && !failed(head) && !failed(tail) && line.len() >= least
}

fn edges(line: &[u8]) -> String {
    let (head, tail) = parts(line);
    format!(
        "{} … {}",
        String::from_utf8_lossy(head),
        String::from_utf8_lossy(tail)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_what_is_none() {
        let result = br#"{"result":{"content":[{"type":"text","text":"abc"}]},"jsonrpc":"2.0","id":7}"#;
        assert!(is_result(result, 70) && !is_result(result, 100) && !is_message(result));
        let failed = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":true}}"#;
        assert!(!is_result(failed, 0));
        assert!(!is_result(
            br#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}"#,
            0
        ));
        assert!(is_message(
            br#"{"method":"notifications/message","params":{},"jsonrpc":"2.0"}"#
        ));
    }

    #[test]
    fn one_server_is_asked_in_both_ways() {
        // Every line comes back as a result with the same id.
        let script = r#"while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in *'"method":"notifications/'*) ;; *) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"x"}}\n' "$id" ;; esac; done"#;
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut driver = Driver::start(command).unwrap();
        let call = Call::new("echo", &serde_json::json!({"bytes": 3}), 3);
        let sample = Sample {
            calls: 20,
            time: Duration::from_secs(5),
            least: 5,
        };
        assert_eq!(driver.one_by_one(&call, sample).unwrap().len(), 20);
        assert!(driver.at_once(&call, 4, sample).unwrap() > 0.0);
        assert_eq!(driver.calls, 40);
        // A time that is over leaves the least there is to measure.
        let short = Sample {
            time: Duration::ZERO,
            ..sample
        };
        assert_eq!(driver.one_by_one(&call, short).unwrap().len(), 5);
        driver.end().unwrap();
    }
}
