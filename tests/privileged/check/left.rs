//! Nothing of a check is left: no directory, cgroup, mount or process, however it ends.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::guards::cgroup2;
use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    Test,
    checked::{AS_USER, Around, Place},
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
    for _ in 0..3 {
        place.command(around, &["check"]).output()?;
    }
    same(&place, &before)
}

/// At any moment of its work.
fn told_to_end() -> Result<()> {
    let place = Place::new("left-term")?;
    let before = things(&place)?;
    let mut ended = 0;
    for wait in (0..60).step_by(3) {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let mut child = place
                .command(&[], &["check"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            std::thread::sleep(Duration::from_millis(wait));
            let pid = Pid::from_raw(i32::try_from(child.id())?);
            let _ = kill(pid, signal);
            ended += usize::from(child.wait()?.code().is_none());
        }
    }
    ensure!(
        ended > 0,
        "no check was ended by a signal: this test tests nothing"
    );
    same(&place, &before)
}

/// What is of ours or may be: the rest of the machine has its own life.
fn things(place: &Place) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for dir in ["/run", "/tmp", "/dev/shm"] {
        for path in listed(Path::new(dir), "guard-agent-check-") {
            found.insert(format!("directory {}", path.display()));
        }
    }
    for path in listed(&cgroup2().context("no cgroup v2")?, "guard-agent-") {
        // A warden that lives has its lock; other tests have wardens.
        let Ok(file) = fs::File::open(&path) else { continue };
        if Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok() {
            found.insert(format!("cgroup {}", path.display()));
        }
    }
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
