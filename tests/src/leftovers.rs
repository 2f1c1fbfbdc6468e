//! What a run may not leave behind: processes, cgroups, mounts, namespaces, pins.
//!
//! Other agents may run on the same machine, so ours are told by our program file and by the paths of the test.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use guard_agent::warden::cgroup;

use crate::{agent::Bench, programs};

/// Things of ours that exist now, as readable lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers(pub BTreeSet<String>);

/// How ours are told from others'.
#[derive(Debug, Clone)]
pub struct Ours {
    agent: PathBuf,
    marks: Vec<String>,
    /// The cgroup of all sandboxes of the test's state directory.
    cgroup: PathBuf,
    state: PathBuf,
    before: BTreeSet<String>,
}

impl Ours {
    /// Remembers what there is before the test, and the paths that only the test uses.
    ///
    /// # Errors
    /// When the agent is not built, or there is no cgroup v2.
    pub fn before(bench: &Bench, marks: &[&Path]) -> Result<Self> {
        let agent = programs::agent()?;
        let agent = agent.canonicalize().unwrap_or(agent);
        let marks = marks
            .iter()
            .copied()
            .chain([bench.path()])
            .map(|path| path.display().to_string())
            .collect();
        let state = bench.state();
        let cgroup = cgroup::parent_path(&state)?;
        let mut new = Self {
            agent,
            marks,
            cgroup,
            state,
            before: BTreeSet::new(),
        };
        new.before = new.now().0;
        Ok(new)
    }

    /// What of ours there is now and was not before.
    #[must_use]
    pub fn now(&self) -> Leftovers {
        let mut found = BTreeSet::new();
        self.processes(&mut found);
        self.mounts(&mut found);
        self.cgroups(&mut found);
        self.state_files(&mut found);
        pins(Path::new("/sys/fs/bpf"), &mut found);
        found.retain(|line| !self.before.contains(line));
        Leftovers(found)
    }

    /// # Errors
    /// When something of ours is still there after the time.
    pub fn none_within(&self, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        loop {
            let left = self.now();
            if left.0.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                bail!(
                    "left behind after {within:?}:\n  {}",
                    left.0.into_iter().collect::<Vec<_>>().join("\n  ")
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// As `none_within`, except for our own long-lived roles (the warden and its reaper), which leave when idle.
    ///
    /// # Errors
    /// When a sandbox, its cgroup or a mount of it is still there.
    pub fn no_sandbox_within(&self, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        loop {
            let left: Vec<_> = self.now().0.into_iter().filter(|line| !is_role(line)).collect();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("left behind after {within:?}:\n  {}", left.join("\n  "));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn processes(&self, found: &mut BTreeSet<String>) {
        let me = std::process::id().to_string();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.bytes().all(|byte| byte.is_ascii_digit()) || name == me {
                continue;
            }
            let dir = entry.path();
            let words = fs::read(dir.join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            let exe = fs::read_link(dir.join("exe")).ok();
            let is_agent = exe.as_deref() == Some(&self.agent);
            let environ = fs::read(dir.join("environ")).unwrap_or_default();
            let environ = String::from_utf8_lossy(&environ);
            // The neighbour is the test's own and named by it.
            let marked = self
                .marks
                .iter()
                .any(|mark| words.contains(mark) || environ.contains(mark));
            if is_agent && (marked || self.in_marked_cgroup(&dir)) || marked && !words.contains("neighbour") {
                found.insert(format!("process {name}: {words}"));
            }
        }
    }

    fn in_marked_cgroup(&self, process: &Path) -> bool {
        fs::read_to_string(process.join("cgroup")).is_ok_and(|text| {
            self.cgroup
                .file_name()
                .is_some_and(|name| text.contains(&*name.to_string_lossy()))
        })
    }

    fn cgroups(&self, found: &mut BTreeSet<String>) {
        if self.cgroup.exists() {
            found.insert(format!("cgroup {}", self.cgroup.display()));
        }
        for inner in fs::read_dir(&self.cgroup)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|inner| inner.path().is_dir())
        {
            found.insert(format!("sandbox cgroup {}", inner.path().display()));
        }
    }

    /// What a session keeps there ends with it.
    fn state_files(&self, found: &mut BTreeSet<String>) {
        for dir in ["sessions", "scaffold"] {
            for entry in fs::read_dir(self.state.join(dir)).into_iter().flatten().flatten() {
                found.insert(format!("state file {}", entry.path().display()));
            }
        }
    }

    fn mounts(&self, found: &mut BTreeSet<String>) {
        for line in fs::read_to_string("/proc/self/mountinfo")
            .unwrap_or_default()
            .lines()
        {
            if self.marks.iter().any(|mark| line.contains(mark.as_str())) {
                found.insert(format!("mount {line}"));
            }
        }
    }
}

fn pins(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.to_string_lossy().contains("guard") {
            found.insert(format!("pin {}", path.display()));
        }
    }
}

fn is_role(line: &str) -> bool {
    line.starts_with("process ") && (line.contains("warden") || line.contains("reaper"))
        || line.starts_with("cgroup ")
}
