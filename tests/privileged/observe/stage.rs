//! One server that does as it is told, in a view, with places inside and outside that it may or may not reach.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench, Finished, Live},
    control::User,
    guards::Scratch,
    programs,
    records::Record,
};
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const VIEWS: [&str; 2] = ["private", "host"];

pub(crate) struct Stage {
    pub(crate) view: &'static str,
    pub(crate) bench: Bench,
    scratch: Scratch,
    user: User,
    server: Option<Live>,
}

/// What a session left: its records and what was said to the operator.
pub(crate) struct Told {
    pub(crate) launch: Record,
    pub(crate) kernel: Vec<Value>,
    pub(crate) gaps: Vec<Value>,
    pub(crate) stderr: String,
}

impl Stage {
    /// The places, without a server.
    pub(crate) fn new(view: &'static str) -> Result<Self> {
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

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    pub(crate) fn agent(&self) -> AgentBuilder {
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
    pub(crate) fn started(view: &'static str) -> Result<Self> {
        let mut stage = Self::new(view)?;
        stage.server = Some(stage.agent().spawn()?);
        Ok(stage)
    }

    pub(crate) fn start(&mut self, agent: &AgentBuilder) -> Result<()> {
        self.server = Some(agent.spawn()?);
        Ok(())
    }

    /// Lets the server do something; what came of it.
    pub(crate) fn act(&mut self, act: &Value) -> Result<String> {
        let server = self.server.as_mut().context("no server runs")?;
        server.send(&act.to_string())?;
        let line = server.line(PATIENCE)?;
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("unreadable: `{line}`"))?;
        answer["outcome"]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("no outcome: {answer}"))
    }

    /// The server's end, and everything that was recorded.
    pub(crate) fn told(&mut self) -> Result<Told> {
        let server = self.server.take().context("no server runs")?;
        let Finished { status, stderr, .. } = server.finish(PATIENCE)?;
        ensure!(status.success(), "the server ended with {status}: {stderr}");
        let records = self.bench.records()?;
        let launch = records
            .iter()
            .rfind(|record| record.kind == "launch")
            .context("no launch")?;
        let session = launch.field("session").cloned().context("no session")?;
        let of = |kind: &str| -> Vec<Value> {
            let ours = |record: &&Record| record.kind == kind && record.field("session") == Some(&session);
            records
                .iter()
                .filter(ours)
                .map(|record| record.body.clone())
                .collect()
        };
        Ok(Told {
            launch: launch.clone(),
            kernel: of("kernel"),
            gaps: of("gap"),
            stderr,
        })
    }

    /// Waits for a record of the running session.
    pub(crate) fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
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
                bail!("no record of {what}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Told {
    /// Every record of an operation on a path.
    pub(crate) fn about(&self, op: &str, path: &str) -> Vec<&Value> {
        self.kernel
            .iter()
            .filter(|record| record["op"] == op && record["path"] == path)
            .collect()
    }

    /// Records and their repeats that satisfy something.
    pub(crate) fn count(&self, wanted: impl Fn(&Value) -> bool) -> u64 {
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
pub(crate) fn act(name: &str, path: impl AsRef<Path>) -> Value {
    json!({"act": name, "path": path.as_ref()})
}
