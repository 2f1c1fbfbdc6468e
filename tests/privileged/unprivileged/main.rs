//! The agent of an ordinary user: who the server is, what it can, what is refused and how it is said.
//! `GUARD_TEST_TIER` says whether that user has user namespaces (`T3`, also when it is not set) or none (`T3-bare`).

mod bounds;
mod child;
mod places;
mod refused;
mod swapped;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    control::User,
    inside::Inside,
    tier::{Start, Tier, deny_user_namespaces},
};

const LONG: Duration = Duration::from_secs(60);

fn tier() -> Result<Tier> {
    let tier = match Tier::current()? {
        Tier::T1 | Tier::T2 => Tier::T3,
        tier => tier,
    };
    if tier == Tier::T3Bare {
        deny_user_namespaces()?;
    }
    Ok(tier)
}

fn bare() -> Result<bool> {
    Ok(tier()? == Tier::T3Bare)
}

/// A bench of the tests' user, with a writable and a readable root.
struct Place {
    bench: Bench,
    user: User,
}

impl Place {
    fn new(name: &str) -> Result<Self> {
        let place = Self {
            bench: Bench::new(name)?,
            user: User::of_tests()?,
        };
        for dir in ["rw", "r", "outside"] {
            place.dir(dir)?;
        }
        place.file("r/read", "readable")?;
        place.file("outside/secret", "GUARD-SECRET")?;
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.path().join(name)
    }

    fn give(&self, path: &Path) -> Result<()> {
        Ok(chown(path, Some(self.user.uid), Some(self.user.gid))?)
    }

    fn dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        self.give(&path)?;
        Ok(path)
    }

    fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, text)?;
        self.give(&path)?;
        Ok(path)
    }

    fn start(&self) -> Result<Start> {
        let start = Start::as_user(self.bench.path(), &self.user)?;
        if bare()? {
            start.without_user_namespaces()
        } else {
            Ok(start)
        }
    }

    /// `guard-agent run` with both roots. Where the kernel cannot hold `ipc`, that is accepted.
    fn agent(&self) -> Result<AgentBuilder> {
        let agent = AgentBuilder::new(&self.bench)
            .started(self.start()?)
            .root(&self.path("rw"), "rw")
            .root(&self.path("r"), "r");
        Ok(if bare()? && landlock()? < 6 {
            agent.flag("--allow-unenforced")
        } else {
            agent
        })
    }

    fn inside(&self) -> Result<Inside> {
        Inside::start(self.agent()?)
    }

    fn launch(&self) -> Result<guard_tests::records::Record> {
        self.bench.wait_record(LONG, |record| record.kind == "launch")
    }
}

/// The kernel's own answer, not the agent's.
fn landlock() -> Result<u32> {
    let probe = guard_agent::confine::landlock::probe().map_err(|why| anyhow::anyhow!("{why}"))?;
    Ok(probe.abi)
}

/// A refused `run`: its status and its three lines.
fn refusal(agent: &AgentBuilder, code: i32) -> Result<[String; 3]> {
    let finished = agent.run("", LONG)?;
    ensure!(
        finished.status.code() == Some(code),
        "not status {code}: {finished:?}"
    );
    let mut lines = finished
        .stderr
        .lines()
        .skip_while(|line| !line.starts_with("error: "))
        .map(str::to_owned);
    let mut next = || {
        lines
            .next()
            .with_context(|| format!("not three lines: {}", finished.stderr))
    };
    Ok([next()?, next()?, next()?])
}
