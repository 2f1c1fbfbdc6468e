//! One server that does as it is told, in a view, with places inside and outside that it may or may not reach.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    agent::{AgentBuilder, Bench, Finished, Live},
    control::User,
    guards::Scratch,
    programs,
    records::Record,
};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

pub const PATIENCE: Duration = Duration::from_secs(60);
pub const VIEWS: [&str; 2] = ["private", "host"];

pub struct Stage {
    pub view: &'static str,
    pub bench: Bench,
    scratch: Scratch,
    user: User,
    server: Option<Live>,
}

/// What a session left: its records and what was said to the operator.
pub struct Told {
    pub launch: Record,
    pub kernel: Vec<Value>,
    pub gaps: Vec<Value>,
    pub stderr: String,
}

impl Stage {
    /// The places, without a server.
    ///
    /// # Errors
    /// When the places cannot be made.
    pub fn new(view: &'static str) -> Result<Self> {
        let (scratch, bench, user) = (
            Scratch::new("observe")?,
            Bench::new("observe-bench")?,
            User::of_tests()?,
        );
        let top = scratch.path();
        for dir in ["outside", "rw", "rw/sub", "r", "bin"] {
            fs::create_dir(top.join(dir))?;
            fs::set_permissions(top.join(dir), fs::Permissions::from_mode(0o777))?;
        }
        fs::set_permissions(top.join("bin"), fs::Permissions::from_mode(0o755))?;
        for file in [
            "secret",
            "dots",
            "linked",
            "below",
            "relative",
            "at",
            "thread",
            "grandchild",
            "unlinked",
            "moved-over",
            "cut",
            "mode",
            "attribute",
            "source",
            "counted",
        ] {
            give(&top.join("outside").join(file), 0o666)?;
        }
        for file in ["rw/file", "rw/sub/file", "rw/moved", "rw/twice", "r/file"] {
            give(&top.join(file), 0o666)?;
        }
        symlink(top.join("outside/linked"), top.join("rw/link"))?;
        symlink(top.join("outside"), top.join("rw/sub/way-out"))?;
        for program in ["bin/guard-probe", "bin/allowed", "outside/program", "rw/program"] {
            fs::copy(programs::probe()?, top.join(program))?;
        }
        fs::hard_link(top.join("bin/allowed"), top.join("bin/allowed-too"))?;
        chown(top.join("rw"), Some(user.uid), Some(user.gid))?;
        Ok(Self {
            view,
            bench,
            scratch,
            user,
            server: None,
        })
    }

    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    #[must_use]
    pub fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    #[must_use]
    pub fn agent(&self) -> AgentBuilder {
        AgentBuilder::new(&self.bench)
            .user(&self.user.name)
            .view(self.view)
            .runtime("static")
            .option("--directory", self.at("rw"))
            .root(&self.at("rw"), "rw")
            .root(&self.at("r"), "r")
            .root(&self.at("bin"), "rx")
            .command([self.at("bin/guard-probe").into_os_string(), "acts".into()])
    }

    /// With its server started.
    ///
    /// # Errors
    /// When the places cannot be made or the server does not start.
    pub fn started(view: &'static str) -> Result<Self> {
        let mut stage = Self::new(view)?;
        stage.server = Some(stage.agent().spawn()?);
        Ok(stage)
    }

    /// # Errors
    /// When it does not start.
    pub fn start(&mut self, agent: &AgentBuilder) -> Result<()> {
        self.server = Some(agent.spawn()?);
        Ok(())
    }

    /// Lets the server do something; what came of it.
    ///
    /// # Errors
    /// When it gives no answer.
    pub fn act(&mut self, act: &Value) -> Result<String> {
        let server = self.server.as_mut().context("no server runs")?;
        server.send(&act.to_string())?;
        let line = server.line(PATIENCE)?;
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("unreadable: `{line}`"))?;
        answer["outcome"]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("no outcome: {answer}"))
    }

    /// Lets the server do something after which it does not answer.
    ///
    /// # Errors
    /// When it does not listen.
    pub fn tell(&mut self, act: &Value) -> Result<()> {
        let server = self.server.as_mut().context("no server runs")?;
        server.send(&act.to_string())
    }

    /// The server's end, and everything that was recorded.
    ///
    /// # Errors
    /// When it ends badly, or the audit cannot be read.
    pub fn told(&mut self) -> Result<Told> {
        let server = self.server.take().context("no server runs")?;
        let Finished { status, stderr, .. } = server.finish(PATIENCE)?;
        ensure!(
            status.success(),
            "the server ended with {status}: {stderr}; the warden's log:\n{}",
            self.bench.log()
        );
        let records = self.bench.records()?;
        let launch = records
            .iter()
            .rfind(|record| record.kind == "launch")
            .context("no launch")?;
        Told::of(&records, launch, stderr)
    }

    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Waits for a record of the running session.
    ///
    /// # Errors
    /// When there is none soon.
    pub fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let records = self.bench.records().unwrap_or_default();
            if let Some(found) = records
                .iter()
                .map(|record| &record.body)
                .find(|body| wanted(body))
            {
                return Ok(found.clone());
            }
            if Instant::now() > until {
                let last: Vec<_> = records.iter().rev().take(3).map(|record| &record.body).collect();
                let log = self.bench.log();
                bail!(
                    "no record of {what} among {}, the last of which are {last:?}; the warden's log:\n{log}",
                    records.len()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Told {
    /// Of the session of this launch.
    ///
    /// # Errors
    /// When the launch has no session.
    pub fn of(records: &[Record], launch: &Record, stderr: String) -> Result<Self> {
        let session = launch.field("session").cloned().context("no session")?;
        let of = |kind: &str| -> Vec<Value> {
            let ours = |record: &&Record| record.kind == kind && record.field("session") == Some(&session);
            records
                .iter()
                .filter(ours)
                .map(|record| record.body.clone())
                .collect()
        };
        Ok(Self {
            launch: launch.clone(),
            kernel: of("kernel"),
            gaps: of("gap"),
            stderr,
        })
    }

    /// Every record of an operation on a path.
    #[must_use]
    pub fn about(&self, op: &str, path: &str) -> Vec<&Value> {
        self.kernel
            .iter()
            .filter(|record| record["op"] == op && record["path"] == path)
            .collect()
    }

    /// Records and their repeats that satisfy something.
    #[must_use]
    pub fn count(&self, wanted: impl Fn(&Value) -> bool) -> u64 {
        self.kernel
            .iter()
            .filter(|record| wanted(record))
            .map(|record| record["repeat"].as_u64().unwrap_or(1))
            .sum()
    }
}

fn give(path: &Path, mode: u32) -> Result<()> {
    fs::write(path, "GUARD")?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// One line of input.
#[must_use]
pub fn act(name: &str, path: impl AsRef<Path>) -> Value {
    json!({"act": name, "path": path.as_ref()})
}
