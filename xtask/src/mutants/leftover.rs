//! What a test of a changed agent may leave on the machine although every process of it is gone: cgroups and the
//! directories of failed tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sha2::{Digest as _, Sha256};

const OFTEN: Duration = Duration::from_millis(25);
/// How long what lived in a cgroup may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Notes the cgroups in which programs built in one place are seen.
pub(super) struct Watch {
    place: PathBuf,
    seen: Arc<Mutex<BTreeSet<PathBuf>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches processes whose program lies below `place`.
    pub(super) fn start(place: &Path) -> Self {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (seen, over, place) = (Arc::clone(&seen), Arc::clone(&over), place.to_owned());
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let found = cgroups(&place);
                    if let Ok(mut seen) = seen.lock() {
                        seen.extend(found);
                    }
                    thread::sleep(OFTEN);
                }
            })
        };
        Self {
            place: place.to_owned(),
            seen,
            over,
            thread: Some(thread),
        }
    }

    /// Ends what lives in them and removes them. Returns those that stayed.
    pub(super) fn clear(mut self) -> Vec<PathBuf> {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Gone with their namespace, where they had one.
        processes(&self.place).for_each(|process| end(&process));
        let Some(top) = hierarchy() else { return Vec::new() };
        let seen = self.seen.lock().map(|seen| seen.clone()).unwrap_or_default();
        let mut stayed = Vec::new();
        for path in seen {
            let place = top.join(path.strip_prefix("/").unwrap_or(&path));
            if !remove(&place) {
                stayed.push(place);
            }
        }
        stayed
    }
}

/// Processes whose program lies below a place.
fn processes(place: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(move |path| fs::read_link(path.join("exe")).is_ok_and(|exe| exe.starts_with(place)))
}

fn end(process: &Path) {
    let pid = process.file_name().and_then(|name| name.to_str()?.parse().ok());
    if let Some(pid) = pid {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Cgroups of agents, as `/proc/PID/cgroup` names them.
///
/// A sandbox may live too shortly to be seen in its own; its warden and its `run` name the state directory, which
/// names the cgroup of all of them (`guard-agent/src/warden/cgroup.rs`).
fn cgroups(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for process in processes(place) {
        let text = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
        let own = text.lines().find_map(|line| line.strip_prefix("0::"));
        found.extend(
            own.filter(|path| path.contains("/guard-agent-"))
                .map(PathBuf::from),
        );
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        let mut words = words
            .split(|byte| *byte == 0)
            .skip_while(|word| *word != b"--state");
        if let Some(state) = words.nth(1) {
            found.push(PathBuf::from(format!("/{}", of_state(state))));
        }
    }
    found
}

fn of_state(state: &[u8]) -> String {
    let name = format!("{:x}", Sha256::digest(state));
    format!("guard-agent-{}", &name[..8])
}

fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ")
            .then(|| place.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// A sandbox's cgroup, then the one that held it when it was the last.
fn remove(place: &Path) -> bool {
    let until = Instant::now() + PATIENCE;
    while place.exists() && Instant::now() < until {
        let _ = fs::write(place.join("cgroup.kill"), "1");
        // A sandbox that was too short-lived to be seen.
        for inner in fs::read_dir(place).into_iter().flatten().flatten() {
            if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = fs::remove_dir(inner.path());
            }
        }
        if fs::remove_dir(place).is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    if let Some(parent) = place.parent()
        && parent
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("guard-agent-"))
    {
        // Not empty while another sandbox is in it.
        let _ = fs::remove_dir(parent);
    }
    !place.exists()
}

/// Directories that failed tests kept, which they name. A red test is what was wanted here.
pub(super) fn remove_kept(output: &[String]) {
    for line in output {
        if let Some((_, path)) = line.split_once("kept for inspection: ") {
            let path = Path::new(path.trim());
            if path.starts_with("/var/tmp") {
                let _ = fs::remove_dir_all(path);
            }
        }
    }
}
