//! One test's state, audit, programs and work directory, and `guard-agent run` on it.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    PATIENCE,
    left::{Left, Role},
    second,
};
use crate::{
    guards::Scratch,
    programs,
    records::{self, Record},
    tier::{Start, Tier},
};

/// Where one test's sessions live.
#[derive(Debug)]
pub struct Stage {
    scratch: Scratch,
    start: Start,
    /// How long the warden stays without a session, milliseconds.
    pub idle: u32,
    /// What client and server speak. The puppet speaks nothing in particular.
    pub protocol: &'static str,
}

/// Everything a finished `run` said.
#[derive(Debug)]
pub struct Done {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub took: Duration,
}

impl Done {
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Stage {
    /// # Errors
    /// When the directories cannot be made or the programs are not built.
    pub fn new(name: &str) -> Result<Self> {
        let scratch = Scratch::new(name)?;
        for (dir, mode) in [("bin", 0o755), ("work", 0o777)] {
            let dir = scratch.path().join(dir);
            fs::create_dir(&dir)?;
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode))?;
        }
        fs::copy(programs::puppet()?, scratch.path().join("bin/guard-puppet"))?;
        Ok(Self {
            start: Start::current(scratch.path())?,
            scratch,
            idle: 20,
            protocol: "none",
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
    /// A name in the one directory that the server may write.
    #[must_use]
    pub fn work(&self, name: &str) -> PathBuf {
        self.path().join("work").join(name)
    }
    pub fn keep(&mut self) {
        self.scratch.keep();
    }

    /// `guard-agent run` with any command.
    #[must_use]
    pub fn run_command<T: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = T>) -> Command {
        self.run_with(&[], words)
    }

    fn run_with<T: AsRef<std::ffi::OsStr>>(
        &self,
        flags: &[&str],
        words: impl IntoIterator<Item = T>,
    ) -> Command {
        let root = |dir: &str, rights: &str| format!("{}:{rights}", self.path().join(dir).display());
        let mut command = self.start.command();
        command
            .arg("run")
            .args(Tier::insisted().unwrap_or_default())
            .args(["--name", "puppet", "--protocol", self.protocol])
            .arg("--state")
            .arg(self.state())
            .arg("--audit")
            .arg(self.audit())
            .args(flags)
            .args(["--root", &root("bin", "rx"), "--root", &root("work", "rw"), "--"])
            .args(words)
            .env_remove("GUARD_AGENT_FAULT")
            .env("GUARD_AGENT_IDLE_MS", self.idle.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `guard-agent run` of what a policy describes.
    #[must_use]
    pub fn policy_command(&self, policy: &Path, flags: &[&str]) -> Command {
        let mut command = self.start.command();
        command
            .arg("run")
            .args(Tier::insisted().unwrap_or_default())
            .arg("--state")
            .arg(self.state())
            .arg("--audit")
            .arg(self.audit())
            .arg("--policy")
            .arg(policy)
            .args(flags)
            .env_remove("GUARD_AGENT_FAULT")
            .env("GUARD_AGENT_IDLE_MS", self.idle.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `guard-agent run` with the puppet and its words.
    #[must_use]
    pub fn puppet<T: AsRef<str>>(&self, words: impl IntoIterator<Item = T>) -> Command {
        self.puppet_with(&[], words)
    }

    /// The same with flags of `run` of its own.
    #[must_use]
    pub fn puppet_with<T: AsRef<str>>(&self, flags: &[&str], words: impl IntoIterator<Item = T>) -> Command {
        let program = self.path().join("bin/guard-puppet").display().to_string();
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        self.run_with(flags, std::iter::once(program).chain(words))
    }

    /// The same for a fault in a write of the session's end, which is known by its number: what the puppet does is
    /// not recorded in between.
    #[must_use]
    pub fn puppet_at<T: AsRef<str>>(&self, step: &str, words: impl IntoIterator<Item = T>) -> Command {
        let flags: &[&str] = if step.contains('#') && step.starts_with("audit.") {
            &["--observe", "off"]
        } else {
            &[]
        };
        self.puppet_with(flags, words)
    }

    /// A warden, without a `run` that starts it.
    #[must_use]
    pub fn warden_command(&self) -> Command {
        let mut command = self.start.command();
        command
            .arg("warden")
            .arg("--state")
            .arg(self.state())
            .args(["--idle-ms", &self.idle.to_string()])
            .env_remove("GUARD_AGENT_FAULT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    /// Starts the command and watches over it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, command: &mut Command) -> Result<Session> {
        let started = Instant::now();
        let mut child = command.spawn().context("failed to start the agent")?;
        let stderr = child.stderr.take().map(|mut from| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                drop(from.read_to_end(&mut text));
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        Ok(Session {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            child,
            stderr,
            started,
        })
    }

    /// Runs it to its end with this input.
    ///
    /// # Errors
    /// When it cannot be started or does not end.
    pub fn finish(&self, command: &mut Command, input: &[u8]) -> Result<Done> {
        let mut session = self.start(command)?;
        if let Some(mut stdin) = session.stdin.take() {
            // Small inputs only: they fit the pipe. A run that ended already is no error here.
            drop(stdin.write_all(input));
        }
        session.finish()
    }

    /// Everything of this stage that exists right now.
    #[must_use]
    pub fn left(&self) -> Left {
        Left::look(self.path(), &self.state())
    }

    /// # Errors
    /// When something is left after the second (and the warden's idle time).
    pub fn nothing_left(&self) -> Result<Duration> {
        self.gone(Left::is_empty)
    }

    /// As `nothing_left`; what the next warden must record may still be noted.
    ///
    /// # Errors
    /// When something is left.
    pub fn nothing_left_but_files(&self) -> Result<Duration> {
        self.gone(Left::is_clean_but_for_files)
    }

    fn gone(&self, clean: impl Fn(&Left) -> bool) -> Result<Duration> {
        let start = Instant::now();
        let until = start + second() + Duration::from_millis(self.idle.into());
        loop {
            let left = self.left();
            if clean(&left) {
                return Ok(start.elapsed());
            }
            if Instant::now() > until {
                bail!(
                    "left behind after {:?}:\n  {}{}",
                    start.elapsed(),
                    left.lines().join("\n  "),
                    self.log()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the role has a process.
    ///
    /// # Errors
    /// When it does not come.
    pub fn wait_for(&self, role: Role) -> Result<i32> {
        self.wait_until(&format!("no process of role {role:?}"), || {
            self.left().pids(role).first().copied()
        })
    }

    /// # Errors
    /// When `seen` gives nothing for too long.
    pub fn wait_until<T>(&self, what: &str, mut seen: impl FnMut() -> Option<T>) -> Result<T> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = seen() {
                return Ok(value);
            }
            if Instant::now() > until {
                bail!("{what} within {PATIENCE:?}{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// # Errors
    /// When there is no trail or a line is no record.
    pub fn records(&self) -> Result<Vec<Record>> {
        records::read(&self.audit())
    }

    /// `guard-agent audit verify` on this stage's trail.
    ///
    /// # Errors
    /// When it does not hold.
    pub fn verify(&self) -> Result<()> {
        let out = Command::new(programs::agent()?)
            .args(["audit", "verify", "--audit"])
            .arg(self.audit())
            .output()?;
        ensure!(
            out.status.success(),
            "`audit verify` ended with {}:\n{}{}",
            out.status,
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        Ok(())
    }

    /// One more session in the same directories must work as if nothing had been.
    ///
    /// # Errors
    /// When it does not.
    pub fn works(&self) -> Result<()> {
        let mark = self.work("works");
        let done = self.finish(
            &mut self.puppet([format!("mark={}", mark.display()), "say=works".into()]),
            b"",
        )?;
        ensure!(
            done.code() == Some(0) && done.text() == "works\n" && mark.exists(),
            "the next run ended with {}, said {:?} and\n{}{}",
            done.status,
            done.text(),
            done.stderr,
            self.log()
        );
        fs::remove_file(mark)?;
        Ok(())
    }

    /// The warden's log, for the message of a failure.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.state().join("warden.log"))
            .map_or_else(|_| String::new(), |text| format!("\n--- warden.log\n{text}"))
    }
}

impl Drop for Stage {
    /// A test that failed half-way leaves no cgroup to the machine; one that passed has none.
    fn drop(&mut self) {
        let Ok(parent) = guard_agent::warden::cgroup::parent_path(&self.state()) else {
            return;
        };
        for entry in fs::read_dir(&parent)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().is_dir())
        {
            drop(guard_agent::warden::cgroup::destroy(
                &entry.path(),
                Duration::from_secs(2),
            ));
        }
        drop(fs::remove_dir(parent));
    }
}

/// A `run` at work. Killed when dropped, so that a failed test leaves none.
#[derive(Debug)]
pub struct Session {
    pub child: Child,
    pub stdin: Option<std::process::ChildStdin>,
    pub stdout: Option<std::process::ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    started: Instant,
}

impl Session {
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Reads one line of the server.
    ///
    /// # Errors
    /// When there is none.
    pub fn line(&mut self) -> Result<String> {
        let out = self.stdout.as_mut().context("the output is taken")?;
        let mut line = Vec::new();
        let mut byte = [0];
        while out.read(&mut byte)? == 1 {
            if byte[0] == b'\n' {
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            line.push(byte[0]);
        }
        let said = self
            .stderr
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        bail!(
            "the output ended after {:?}; it said:\n{said}",
            String::from_utf8_lossy(&line)
        )
    }

    /// Closes its input and waits for its end.
    ///
    /// # Errors
    /// When it does not end.
    pub fn finish(mut self) -> Result<Done> {
        drop(self.stdin.take());
        self.wait()
    }

    /// Waits for its end; the input stays as it is.
    ///
    /// # Errors
    /// When it does not end.
    pub fn wait(mut self) -> Result<Done> {
        let reader = self.stdout.take().map(|mut out| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                drop(out.read_to_end(&mut bytes));
                bytes
            })
        });
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                bail!("`run` did not end within {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let took = self.started.elapsed();
        let stdout = reader.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let stderr = self
            .stderr
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        Ok(Done {
            status,
            stdout,
            stderr,
            took,
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
