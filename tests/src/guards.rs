//! Things a test makes on the machine and must not leave there.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A cgroup of the test's own, beside everybody else's; removed on drop.
#[derive(Debug)]
pub struct TempCgroup(PathBuf);

impl TempCgroup {
    /// # Errors
    /// When there is no cgroup v2 tree or it is not writable.
    pub fn new() -> Result<Self> {
        let top = cgroup2().context("no cgroup v2 is mounted")?;
        let path = top.join(format!(
            "guard-tests-{}-{}",
            std::process::id(),
            SERIAL.fetch_add(1, Ordering::Relaxed)
        ));
        fs::create_dir(&path).with_context(|| format!("failed to make cgroup `{}`", path.display()))?;
        Ok(Self(path))
    }
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempCgroup {
    fn drop(&mut self) {
        drop(fs::write(self.0.join("cgroup.kill"), "1"));
        // A killed task keeps its cgroup until it is reaped.
        let until = Instant::now() + Duration::from_secs(1);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where cgroup v2 is mounted.
#[must_use]
pub fn cgroup2() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ")
            .then(|| place.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// A directory in `/var/tmp` that all users can enter: `/tmp` is the server's own inside, so it proves nothing there.
/// Kept, and its path told, when the test that owns it panics.
#[derive(Debug)]
pub struct Scratch {
    dir: Option<tempfile::TempDir>,
    path: PathBuf,
}

impl Scratch {
    /// # Errors
    /// When `/var/tmp` is not writable.
    pub fn new(name: &str) -> Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::Builder::new()
            .prefix(&format!("guard-{name}-"))
            .tempdir_in("/var/tmp")?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let path = dir.path().to_owned();
        Ok(Self { dir: Some(dir), path })
    }
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Leaves the directory for whoever looks at the failure.
    pub fn keep(&mut self) {
        if let Some(dir) = self.dir.take() {
            eprintln!("kept for inspection: {}", dir.keep().display());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep();
        }
    }
}
