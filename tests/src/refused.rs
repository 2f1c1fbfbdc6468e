//! A launch that must not happen: what the person is told, word by word, and that nothing else came of it.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use guard_agent::warden::{cgroup, registry};

use crate::{
    agent::{AgentBuilder, Bench, Finished},
    leftovers::Ours,
};

/// How long a launch or its refusal may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An account of every Debian system that owns nothing and is not `nobody`.
pub const USER: &str = "games";

/// Words that start what follows in a mount namespace of its own, after `setup` (a shell's text) ran there.
#[must_use]
pub fn with_mounts(setup: &str) -> Vec<OsString> {
    let script = format!("set -e; {setup}; exec \"$@\"");
    [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--",
        "sh",
        "-c",
        &script,
        "sh",
    ]
    .map(OsString::from)
    .to_vec()
}

/// The exit statuses of `docs/commands.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Failed = 1,
    Usage = 2,
    NotEnforced = 3,
    Internal = 4,
}

/// A place with a server that would leave a mark the moment it starts.
#[derive(Debug)]
pub struct Stage {
    pub bench: Bench,
    ours: Ours,
}

impl Stage {
    /// # Errors
    /// When the place cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        let bench = Bench::new(name)?;
        let marks = bench.path().join("mark");
        fs::create_dir(&marks)?;
        fs::set_permissions(&marks, fs::Permissions::from_mode(0o777))?;
        let ours = Ours::before(&bench, &[bench.path()])?;
        Ok(Self { bench, ours })
    }

    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.bench.path().join(name)
    }

    /// A directory that everybody may enter and read.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    #[must_use]
    pub fn marker(&self) -> PathBuf {
        self.path("mark/started")
    }

    /// The command that leaves the mark.
    #[must_use]
    pub fn touch(&self) -> [OsString; 2] {
        ["/usr/bin/touch".into(), self.marker().into()]
    }

    /// The whole launch, with nothing wrong in it.
    #[must_use]
    pub fn run(&self) -> AgentBuilder {
        let good = AgentBuilder::new(&self.bench)
            .root(&self.path("mark"), "rw")
            .command(self.touch());
        quiet(good)
    }

    /// The same without roots and command: for a policy, or for a command of the test's own.
    #[must_use]
    pub fn plain(&self) -> AgentBuilder {
        quiet(AgentBuilder::new(&self.bench))
    }

    /// Runs it; it must be refused with exactly these words.
    ///
    /// # Errors
    /// When it was not, or something came of it.
    pub fn refused(&self, run: &AgentBuilder, status: Status, [what, why, fix]: [&str; 3]) -> Result<()> {
        let finished = run.run("", PATIENCE)?;
        let told = format!("error: {what}\n  why: {why}\n  fix: {fix}\n");
        ensure!(
            finished.stderr == told,
            "told otherwise:\n{}expected:\n{told}",
            finished.stderr
        );
        self.ended(&finished, status)
    }

    /// Exit status and silence on standard output; nothing started, nothing left.
    ///
    /// # Errors
    /// When one of these does not hold.
    pub fn ended(&self, finished: &Finished, status: Status) -> Result<()> {
        ensure!(
            finished.status.code() == Some(status as i32),
            "ended with {}, not {}: {}",
            finished.status,
            status as i32,
            finished.stderr
        );
        ensure!(
            finished.stdout.is_empty(),
            "on standard output: {}",
            finished.stdout
        );
        ensure!(!self.marker().exists(), "the server was started");
        self.nothing_left()
    }

    /// No launch recorded, no session file; of processes, cgroups and mounts nothing either once the warden,
    /// which has nothing to do, is gone.
    ///
    /// # Errors
    /// When something is left.
    pub fn nothing_left(&self) -> Result<()> {
        let audit = self.bench.audit();
        if audit.is_dir() {
            let records = self.bench.records()?;
            ensure!(
                records.iter().all(|record| record.kind != "launch"),
                "a launch is recorded: {records:?}"
            );
        }
        self.no_session()
    }

    /// No session file, process, cgroup or mount.
    ///
    /// # Errors
    /// When something is left.
    pub fn no_session(&self) -> Result<()> {
        let mut left = Vec::new();
        for _ in 0..500 {
            left = self.left()?;
            if left.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
        Ok(())
    }

    /// As `no_session`, where the audit could not take the end of a session: its file stays for the next warden.
    ///
    /// # Errors
    /// When anything but such a file is left.
    pub fn no_sandbox(&self) -> Result<()> {
        let owed = |line: &String| line.starts_with("session ") || line.contains("/state/sessions/s-");
        let mut left = Vec::new();
        for _ in 0..500 {
            left = self.left()?;
            left.retain(|line| !owed(line));
            if left.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
        Ok(())
    }

    fn left(&self) -> Result<Vec<String>> {
        let state = self.bench.state();
        let place = self.bench.path().display().to_string();
        let parent = cgroup::parent_path(&state).context("no cgroup v2 here")?;
        let parent = parent.file_name().map(|name| name.to_string_lossy().into_owned());
        let parent = parent.context("a cgroup has a name")?;
        // Other tests have wardens too: theirs carry other names.
        let mine = |line: &String| line.contains(&place) || line.contains(&parent);
        let mut left: Vec<String> = self.ours.now().0.into_iter().filter(mine).collect();
        if state.is_dir() && !fs::symlink_metadata(&state)?.is_symlink() {
            let entries = registry::entries(&state).unwrap_or_default();
            left.extend(
                entries
                    .into_iter()
                    .map(|entry| format!("session {}", entry.session)),
            );
        }
        Ok(left)
    }
}

/// The warden leaves as soon as it has nothing to do; nothing of the test's own surroundings counts.
fn quiet(run: AgentBuilder) -> AgentBuilder {
    run.outer_env("GUARD_AGENT_IDLE_MS", "100")
}

/// The text a path has in a message.
#[must_use]
pub fn text(path: &Path) -> String {
    path.display().to_string()
}
