//! A server under measurement: started in one of the ways that are compared, asked line by line.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::Place;

pub(super) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#;

/// Longer than a cold start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the agent is started; each state directory has a warden of its own.
#[derive(Debug, Clone)]
pub(super) struct Agent {
    program: PathBuf,
    state: PathBuf,
    audit: PathBuf,
    idle: Duration,
    options: Vec<OsString>,
}

impl Agent {
    /// `idle`: how long its warden stays after the last session.
    pub(super) fn new(place: &Place, name: &str, idle: Duration) -> Self {
        Self {
            program: place.agent.clone(),
            state: place.path().join(format!("{name}-state")),
            audit: place.path().join(format!("{name}-audit")),
            idle,
            options: Vec::new(),
        }
    }

    pub(super) fn option(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.options.extend([name.into(), value.into()]);
        self
    }

    /// Its server takes orders that are no messages.
    pub(super) fn orders(&self) -> Self {
        self.clone().option("--protocol", "none")
    }

    pub(super) fn root(self, path: &Path, rights: &str) -> Self {
        let mut value = path.as_os_str().to_owned();
        value.push(format!(":{rights}"));
        self.option("--root", value)
    }

    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    pub(super) fn audit(&self) -> &Path {
        &self.audit
    }

    pub(super) fn command<T: Into<OsString>>(&self, server: impl IntoIterator<Item = T>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("run")
            .arg("--state")
            .arg(&self.state)
            .arg("--audit")
            .arg(&self.audit)
            .args(&self.options)
            .arg("--")
            .args(server.into_iter().map(Into::into))
            .env("GUARD_AGENT_IDLE_MS", self.idle.as_millis().to_string());
        command
    }

    /// The warden of the state directory.
    pub(super) fn warden(&self) -> Option<i32> {
        processes().into_iter().find(|pid| {
            let words = arguments(*pid);
            words.get(1).is_some_and(|word| word == "warden")
                && words.iter().any(|word| Path::new(word) == self.state)
        })
    }

    /// Waits until the warden has left.
    pub(super) fn gone(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.warden().is_some() {
            ensure!(Instant::now() < until, "the warden does not leave");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

pub(super) fn processes() -> Vec<i32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

pub(super) fn arguments(pid: i32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// A running server.
pub(super) struct Live {
    pub(super) child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Live {
    pub(super) fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start `{}`", command.get_program().display()))?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, to, from })
    }

    pub(super) fn ask(&mut self, line: &str) -> Result<String> {
        let to = self.to.as_mut().context("its input is closed")?;
        let sent = writeln!(to, "{line}").and_then(|()| to.flush());
        let mut answer = String::new();
        if sent.is_err() || self.from.read_line(&mut answer)? == 0 {
            bail!("no answer to `{line}`; it said:\n{}", self.said());
        }
        Ok(answer.trim_end().to_owned())
    }

    /// What it says without being asked.
    pub(super) fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            bail!("it says nothing, but on stderr:\n{}", self.said());
        }
        Ok(line)
    }

    /// A request whose answer is a number.
    pub(super) fn number(&mut self, line: &str) -> Result<f64> {
        let answer = self.ask(line)?;
        answer
            .parse()
            .with_context(|| format!("`{line}` gave `{answer}`"))
    }

    fn said(&mut self) -> String {
        self.to = None;
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut errors, &mut text);
        }
        text
    }

    pub(super) fn end(mut self) -> Result<()> {
        self.to = None;
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().context("wait for a server")? {
                ensure!(status.success(), "it ended with {status}:\n{}", self.said());
                return Ok(());
            }
            if Instant::now() > until {
                bail!("it does not end:\n{}", self.said());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.to = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Milliseconds from the start of the command to its answer to `initialize`.
pub(super) fn first_answer(command: Command) -> Result<f64> {
    let start = Instant::now();
    let mut live = Live::start(command)?;
    let answer = live.ask(INITIALIZE)?;
    let took = start.elapsed().as_secs_f64() * 1000.0;
    ensure!(
        answer.contains("protocolVersion"),
        "no answer to `initialize`: `{answer}`"
    );
    live.end()?;
    Ok(took)
}
