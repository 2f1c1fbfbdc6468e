//! What exists of one stage: processes by role, cgroups, mounts, namespaces, session files.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::{programs, tier::Tier};

/// Which of our processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Run,
    Warden,
    Reaper,
    Init,
    /// The server and whatever it started.
    Server,
}

/// One look at the machine. Other agents may run on it: what belongs to a stage has its path in the command line
/// or lives in the cgroup of its state directory.
#[derive(Debug, Clone, Default)]
pub struct Left {
    processes: Vec<(Role, i32, String)>,
    cgroups: Vec<PathBuf>,
    mounts: Vec<String>,
    files: Vec<PathBuf>,
}

impl Left {
    #[must_use]
    pub fn look(place: &Path, state: &Path) -> Self {
        let mut left = Self::default();
        let parent = fs::canonicalize(state)
            .ok()
            .filter(|_| Tier::current().is_ok_and(Tier::is_root))
            .and_then(|state| guard_agent::warden::cgroup::parent_path(&state).ok());
        left.find_processes(place, parent.as_deref());
        if let Some(parent) = parent {
            left.cgroups.extend(parent.exists().then(|| parent.clone()));
            let inside = fs::read_dir(&parent).into_iter().flatten().flatten();
            left.cgroups
                .extend(inside.map(|entry| entry.path()).filter(|path| path.is_dir()));
        }
        let mark = place.display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        left.mounts.extend(
            mounts
                .lines()
                .filter(|line| line.contains(&mark))
                .map(str::to_owned),
        );
        for dir in ["sessions", "tmp"] {
            let files = fs::read_dir(state.join(dir)).into_iter().flatten().flatten();
            left.files.extend(files.map(|entry| entry.path()));
        }
        left
    }

    fn find_processes(&mut self, place: &Path, cgroup: Option<&Path>) {
        let place = place.as_os_str().as_bytes();
        let group = cgroup
            .and_then(Path::file_name)
            .map(|name| format!("/{}/", name.to_string_lossy()));
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok())
            else {
                continue;
            };
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let inside = match &group {
                Some(group) => {
                    fs::read_to_string(entry.path().join("cgroup")).is_ok_and(|text| text.contains(group))
                }
                None => is_init_of_a_user(&entry.path(), &words),
            };
            let named = words.windows(place.len()).any(|part| part == place);
            if !inside && !named {
                continue;
            }
            if words.is_empty() && dead_child_of_init(&entry.path()) {
                continue;
            }
            let shown = String::from_utf8_lossy(&words).replace('\0', " ");
            if let Some(role) = role(&words, inside) {
                self.processes.push((role, pid, shown));
            }
        }
    }

    #[must_use]
    pub fn pids(&self, role: Role) -> Vec<i32> {
        self.processes
            .iter()
            .filter(|(is, ..)| *is == role)
            .map(|(_, pid, _)| *pid)
            .collect()
    }

    /// Sandboxes that exist now.
    #[must_use]
    pub fn sandboxes(&self) -> usize {
        match self.cgroups.len() {
            // Without root there is none; each session has its file.
            0 => self
                .files
                .iter()
                .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
                .count(),
            // The first is the parent.
            with_parent => with_parent - 1,
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
            && self.cgroups.is_empty()
            && self.mounts.is_empty()
            && self.files.is_empty()
    }

    /// Whether nothing runs and nothing is mounted; a session file may tell the next warden what to record.
    #[must_use]
    pub fn is_clean_but_for_files(&self) -> bool {
        self.processes.is_empty() && self.cgroups.is_empty() && self.mounts.is_empty()
    }

    /// For people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let processes = self
            .processes
            .iter()
            .map(|(role, pid, words)| format!("{role:?} {pid}: {words}"));
        let cgroups = self
            .cgroups
            .iter()
            .map(|path| format!("cgroup {}", path.display()));
        let mounts = self.mounts.iter().map(|line| format!("mount {line}"));
        let files = self.files.iter().map(|path| format!("file {}", path.display()));
        processes.chain(cgroups).chain(mounts).chain(files).collect()
    }
}

/// Without a cgroup nothing tells an init's stage. Only one at a time has the tests' user and this program.
fn is_init_of_a_user(process: &Path, words: &[u8]) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let agent = programs::agent().ok().and_then(|path| own(&path));
    words.starts_with(b"guard-agent-init") && own(&process.join("exe")).is_some_and(|exe| Some(exe) == agent)
}

/// `None` for what only mentions the stage's path, such as an editor or this test's own shell.
fn role(words: &[u8], inside: bool) -> Option<Role> {
    let mut words = words.split(|byte| *byte == 0);
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    Some(match (first, second) {
        (b"guard-agent-reaper", _) => Role::Reaper,
        (b"guard-agent-init", _) => Role::Init,
        _ if inside => Role::Server,
        (_, b"warden") => Role::Warden,
        (_, b"run") => Role::Run,
        (first, _) if first.ends_with(b"guard-puppet") => Role::Server,
        _ => return None,
    })
}

/// A dead process that the machine's own init has yet to fetch: not ours any more.
fn dead_child_of_init(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with("Z 1 "))
}

/// The namespaces a process lives in, as `net:[4026532281]`.
#[must_use]
pub fn namespaces(pid: i32) -> BTreeSet<String> {
    ["mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .iter()
        .filter_map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok())
        .map(|link| link.display().to_string())
        .collect()
}

/// Hundredths of a second since the machine started, as `/proc/PID/stat` counts them.
#[must_use]
pub fn ticks() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split(' ').next().unwrap_or_default().replace('.', "");
    seconds.parse().unwrap_or(u64::MAX)
}

/// Who on the machine keeps one of these alive: by living in it, by an open descriptor, by a mount. Only processes
/// that existed at `at` count: the kernel gives the numbers of dead namespaces to the next ones.
#[must_use]
pub fn held(wanted: &BTreeSet<String>, at: u64) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let started = fs::read_to_string(entry.path().join("stat"))
            .ok()
            .and_then(|stat| {
                stat.rsplit(") ")
                    .next()
                    .and_then(|rest| rest.split(' ').nth(19)?.parse::<u64>().ok())
            });
        if started.is_none_or(|started| started > at) || dead_child_of_init(&entry.path()) {
            continue;
        }
        for part in ["ns", "fd"] {
            for item in fs::read_dir(entry.path().join(part))
                .into_iter()
                .flatten()
                .flatten()
            {
                let link = fs::read_link(item.path())
                    .map(|link| link.display().to_string())
                    .unwrap_or_default();
                if wanted.contains(&link) {
                    found.insert(link);
                }
            }
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    found.extend(
        wanted
            .iter()
            .filter(|name| mounts.contains(name.as_str()))
            .cloned(),
    );
    found
}
