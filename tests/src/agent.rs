//! Starts the real agent as a client would, with state and audit directories of the test's own.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    control::User,
    guards::Scratch,
    programs,
    records::{self, Record},
    tier::{Start, Tier},
};

/// Where one warden lives: its state and its audit. Tests that share a bench share a warm warden.
#[derive(Debug)]
pub struct Bench {
    scratch: Scratch,
}

impl Bench {
    /// # Errors
    /// When the directories cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self {
            scratch: Scratch::new(name)?,
        })
    }
    #[must_use]
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }
    #[must_use]
    pub fn audit(&self) -> PathBuf {
        self.path().join("audit")
    }
    pub fn keep(&mut self) {
        self.scratch.keep();
    }

    /// # Errors
    /// When the audit cannot be read.
    pub fn records(&self) -> Result<Vec<Record>> {
        records::read(&self.audit())
    }

    /// What the warden had to say, for a failure's message.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.state().join("warden.log")).unwrap_or_default()
    }

    /// Waits until some record satisfies `wanted`; the audit may be up to a moment behind.
    ///
    /// # Errors
    /// When none does within the time.
    pub fn wait_record(&self, within: Duration, wanted: impl Fn(&Record) -> bool) -> Result<Record> {
        let until = Instant::now() + within;
        loop {
            if let Some(found) = self
                .records()
                .unwrap_or_default()
                .into_iter()
                .find(|record| wanted(record))
            {
                return Ok(found);
            }
            if Instant::now() > until {
                bail!(
                    "no such record within {within:?} in `{}`; the warden's log:\n{}",
                    self.audit().display(),
                    self.log()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One `guard-agent run`, before it starts.
#[derive(Debug, Clone)]
pub struct AgentBuilder {
    options: Vec<OsString>,
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// A program and its arguments that start the agent, such as `unshare`.
    around: Vec<OsString>,
    program: Option<PathBuf>,
    /// As somebody else.
    start: Option<Start>,
    /// At whatever tier there is.
    any_tier: bool,
    /// The server speaks the protocol; most of ours do not.
    mcp: bool,
}

impl AgentBuilder {
    #[must_use]
    pub fn new(bench: &Bench) -> Self {
        let mut new = Self::bare();
        new.push("--state", bench.state()).push("--audit", bench.audit());
        new
    }
    /// Without any flag: not even the state and audit directories of a bench.
    #[must_use]
    pub fn bare() -> Self {
        Self {
            options: Vec::new(),
            command: Vec::new(),
            environment: Vec::new(),
            around: Vec::new(),
            program: None,
            start: None,
            any_tier: false,
            mcp: false,
        }
    }
    /// Its client and server speak MCP. A policy says so itself.
    #[must_use]
    pub fn mcp(mut self) -> Self {
        self.mcp = true;
        self
    }
    /// At the tier that this run of the tests is for (see `tier.rs`), as the tests' user where that is not root's.
    ///
    /// # Errors
    /// When the machine has no such user.
    pub fn at_tier(bench: &Bench) -> Result<Self> {
        let mut new = Self::new(bench);
        if Tier::current()?.is_root() {
            return Ok(new.user(&User::of_tests()?.name));
        }
        new.start = Some(Start::current(bench.path())?);
        Ok(new)
    }
    /// Started by an ordinary user.
    #[must_use]
    pub fn started(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }
    /// Without insisting on the tier of this run.
    #[must_use]
    pub fn any_tier(mut self) -> Self {
        self.any_tier = true;
        self
    }
    /// Started by these words instead of directly.
    #[must_use]
    pub fn around<T: Into<OsString>>(mut self, words: impl IntoIterator<Item = T>) -> Self {
        self.around = words.into_iter().map(Into::into).collect();
        self
    }
    /// Another copy of the agent.
    #[must_use]
    pub fn program(mut self, path: &Path) -> Self {
        self.program = Some(path.to_owned());
        self
    }
    /// A flag without a value.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<OsString>) -> Self {
        self.options.push(flag.into());
        self
    }
    fn push(&mut self, option: &str, value: impl Into<OsString>) -> &mut Self {
        self.options.push(option.into());
        self.options.push(value.into());
        self
    }
    #[must_use]
    pub fn option(mut self, option: &str, value: impl Into<OsString>) -> Self {
        self.push(option, value);
        self
    }
    #[must_use]
    pub fn root(self, path: &Path, rights: &str) -> Self {
        let mut value = path.as_os_str().to_owned();
        value.push(":");
        value.push(rights);
        self.option("--root", value)
    }
    #[must_use]
    pub fn user(self, name: &str) -> Self {
        self.option("--user", name)
    }
    #[must_use]
    pub fn view(self, view: &str) -> Self {
        self.option("--view", view)
    }
    #[must_use]
    pub fn runtime(self, runtime: &str) -> Self {
        self.option("--runtime", runtime)
    }
    /// A variable of the agent's own environment, which the server must not get by itself.
    #[must_use]
    pub fn outer_env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }
    #[must_use]
    pub fn command<T: Into<OsString>>(mut self, words: impl IntoIterator<Item = T>) -> Self {
        self.command = words.into_iter().map(Into::into).collect();
        self
    }

    /// # Errors
    /// When the agent cannot be started.
    pub fn spawn(&self) -> Result<Live> {
        self.start(true)
    }

    /// As `spawn`, with the command of a policy file.
    ///
    /// # Errors
    /// When the agent cannot be started.
    pub fn spawn_policy(&self) -> Result<Live> {
        self.start(false)
    }

    /// The whole command line, its streams as the caller sets them.
    ///
    /// # Errors
    /// When the agent is not built.
    pub fn process(&self, with_command: bool) -> Result<Command> {
        let start = match (&self.start, &self.program) {
            (Some(start), _) => start.clone(),
            (None, program) => Start {
                words: vec![program.clone().map_or_else(programs::agent, Ok)?.into()],
                identity: None,
                by_words: false,
            },
        };
        let of_a_user = |word: &OsString| word == "user" || word == "user-namespaces";
        let by_root = start.identity.is_none() && !start.by_words && !self.around.iter().any(of_a_user);
        let mut words = self.around.clone();
        words.extend(start.words);
        let mut command = Start { words, ..start }.command();
        command.arg("run").args(&self.options);
        if by_root && !self.any_tier && !self.options.iter().any(|option| option == "--tier") {
            command.args(Tier::insisted()?);
        }
        let policy = self.options.iter().any(|option| option == "--policy");
        if !self.mcp && !policy {
            command.args(["--protocol", "none"]);
        }
        if with_command && !self.command.is_empty() {
            command.arg("--").args(&self.command);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    fn start(&self, with_command: bool) -> Result<Live> {
        let mut command = self.process(with_command)?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("failed to start the agent")?;
        let (sender, lines) = channel();
        let out = child.stdout.take().context("the agent has no output")?;
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let mut err = child.stderr.take().context("the agent has no error output")?;
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            drop(err.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Live {
            stdin: child.stdin.take(),
            child,
            lines,
            reader: Some(reader),
            errors: Some(errors),
        })
    }

    /// Gives it the whole input, waits for as many lines as the input has, and only then closes it: a server whose
    /// input has ended has little time left.
    ///
    /// # Errors
    /// When it cannot be started or does not end within the time after its last line.
    pub fn converse(&self, input: &str, within: Duration) -> Result<Finished> {
        self.spawn()?.converse(input, within)
    }
    /// Gives it the whole input, then waits for its end.
    ///
    /// # Errors
    /// When it does not end within the time (it is killed then), or cannot be started.
    pub fn run(&self, input: &str, within: Duration) -> Result<Finished> {
        Self::feed(self.spawn()?, input, within)
    }

    /// With a client that stays: it ends by itself or, after the time, with its input.
    ///
    /// # Errors
    /// When it does not even end then, or cannot be started.
    pub fn run_to_its_end(&self, within: Duration) -> Result<Finished> {
        let mut live = self.spawn()?;
        let until = Instant::now() + within;
        while live.child.try_wait()?.is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        live.finish(Duration::from_secs(10))
    }

    /// As `run`, with the command of a policy file.
    ///
    /// # Errors
    /// When it does not end within the time, or cannot be started.
    pub fn run_policy(&self, input: &str, within: Duration) -> Result<Finished> {
        Self::feed(self.spawn_policy()?, input, within)
    }

    fn feed(mut live: Live, input: &str, within: Duration) -> Result<Finished> {
        // Not from this thread: the agent may answer before it has read everything.
        let mut stdin = live.stdin.take().context("the agent's input is taken")?;
        let input = input.to_owned();
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let finished = live.finish(within);
        drop(writer.join());
        finished
    }
}

/// A running agent. Killed on drop if it still runs.
#[derive(Debug)]
pub struct Live {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    errors: Option<JoinHandle<String>>,
}

/// How it ended.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Live {
    /// # Errors
    /// When its input is closed.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the agent's input is closed")?;
        stdin.write_all(line.as_bytes())?;
        stdin.write_all(b"\n")?;
        Ok(stdin.flush()?)
    }
    /// # Errors
    /// When no line comes within the time or the output ends; the error has what the agent said.
    pub fn line(&mut self, within: Duration) -> Result<String> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("no line within {within:?}"),
            Err(RecvTimeoutError::Disconnected) => {
                drop(self.child.wait());
                let said = self
                    .errors
                    .take()
                    .and_then(|errors| errors.join().ok())
                    .unwrap_or_default();
                bail!("the agent's output ended; it said:\n{said}")
            }
        }
    }
    /// See [`AgentBuilder::converse`].
    ///
    /// # Errors
    /// When it does not end within the time after its last line.
    pub fn converse(self, input: &str, within: Duration) -> Result<Finished> {
        let mut live = self;
        // Not from this thread: the server may answer before it has read everything.
        let mut stdin = live.stdin.take().context("the agent's input is taken")?;
        let text = input.to_owned();
        let writer = std::thread::spawn(move || {
            drop(stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()));
            stdin
        });
        let (wanted, until) = (input.lines().count(), Instant::now() + within);
        let mut lines = Vec::new();
        while lines.len() < wanted {
            match live
                .lines
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(line) => lines.push(line),
                Err(_) => break,
            }
        }
        if lines.len() == wanted {
            // Hands the input back, which closes it. A server that does not answer may not read either.
            drop(writer.join());
        }
        let mut finished = live.finish(within)?;
        lines.extend(finished.stdout.lines().map(str::to_owned));
        finished.stdout = lines.join("\n");
        Ok(finished)
    }

    /// Closes its input and waits.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn finish(mut self, within: Duration) -> Result<Finished> {
        drop(self.stdin.take());
        let until = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                self.child.kill()?;
                self.child.wait()?;
                let said = self
                    .errors
                    .take()
                    .and_then(|errors| errors.join().ok())
                    .unwrap_or_default();
                bail!("the agent did not end within {within:?}; it said:\n{said}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        drop(self.reader.take().map(JoinHandle::join));
        let stdout: Vec<String> = self.lines.try_iter().collect();
        let stderr = self
            .errors
            .take()
            .and_then(|errors| errors.join().ok())
            .unwrap_or_default();
        Ok(Finished {
            status,
            stdout: stdout.join("\n"),
            stderr,
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
