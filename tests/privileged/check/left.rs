//! Nothing of a check is left: no directory, cgroup, mount or process, however it ends.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use guard_agent::warden::cgroup;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    Test,
    checked::{AS_USER, Around, Place, for_a_user},
};

pub(crate) fn tests() -> Vec<(&'static str, Test)> {
    vec![
        ("by_a_check_as_root", || after("left-root", &[])),
        ("by_a_check_as_a_user", || after("left-user", &[AS_USER])),
        ("by_a_check_without_landlock", || {
            after("left-less", &[&["landlock"]])
        }),
        ("by_a_check_that_is_told_to_end", told_to_end),
    ]
}

fn after(name: &str, around: Around<'_>) -> Result<()> {
    let place = Place::new(name)?;
    let before = things(&place)?;
    let watch = Watch::start();
    for _ in 0..3 {
        place.command(around, &["check"]).output()?;
    }
    watch.nothing_left(for_a_user(around))?;
    same(&place, &before)
}

/// At any moment of its work.
fn told_to_end() -> Result<()> {
    let place = Place::new("left-term")?;
    let before = things(&place)?;
    let watch = Watch::start();
    let start = Instant::now();
    place.command(&[], &["check"]).output()?;
    let took = start.elapsed();
    // An emulated machine needs seconds for one.
    let moments = if took > Duration::from_secs(1) { 5 } else { 20 };
    let mut ended = 0;
    for moment in 0..moments {
        let wait = took * moment / moments;
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let mut child = place
                .command(&[], &["check"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            std::thread::sleep(wait);
            let pid = Pid::from_raw(i32::try_from(child.id())?);
            let _ = kill(pid, signal);
            ended += usize::from(child.wait()?.code().is_none());
        }
    }
    ensure!(
        ended > 0,
        "no check was ended by a signal: this test tests nothing"
    );
    watch.nothing_left(false)?;
    same(&place, &before)
}

/// Where a check makes its directory.
const PLACES: [&str; 3] = ["/run", "/tmp", "/dev/shm"];

/// Sees the directories of checks while they are there: by them their cgroups are known, which others' are not.
struct Watch {
    /// Those of others, or of a test that was killed.
    before: BTreeSet<PathBuf>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<PathBuf>>,
}

impl Watch {
    fn start() -> Self {
        let here = |place: &&str| listed(Path::new(place), "guard-agent-check-");
        let before = PLACES.iter().flat_map(here).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !told.load(Ordering::Relaxed) {
                for place in PLACES {
                    seen.extend(listed(Path::new(place), "guard-agent-check-"));
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            seen
        });
        Self { before, stop, thread }
    }

    fn nothing_left(self, user: bool) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self
            .thread
            .join()
            .map_err(|_| anyhow::anyhow!("the watching thread panicked"))?;
        let seen: Vec<_> = seen.difference(&self.before).collect();
        ensure!(
            !seen.is_empty(),
            "no check was seen at work: this test tests nothing"
        );
        for directory in seen {
            ensure!(!directory.exists(), "left behind: {}", directory.display());
            let cgroup = cgroup::parent_path(&directory.join("state"))?;
            ensure!(user || !cgroup.exists(), "left behind: {}", cgroup.display());
        }
        Ok(())
    }
}

/// Mounts of this machine, and processes of this test's own copy of the agent.
fn things(place: &Place) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
        let point = line.split(' ').nth(4).unwrap_or_default();
        found.insert(format!("mount {point}"));
    }
    for entry in fs::read_dir("/proc")?.flatten() {
        if fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == place.agent) {
            found.insert(format!("process {}", entry.path().display()));
        }
    }
    Ok(found)
}

fn listed(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect()
}

fn same(place: &Place, before: &BTreeSet<String>) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let now = things(place)?;
        let new: Vec<_> = now.difference(before).collect();
        if new.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < until, "left behind: {new:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
