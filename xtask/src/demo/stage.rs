//! The place the demo plays in: a root with a document, a link that leads out and code, a secret beside it, a listener.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

pub(super) const DOCUMENT: &str = "Quarterly figures: all good.";
pub(super) const SECRET: &str = "the-api-key-of-production";

pub(super) struct Stage {
    place: tempfile::TempDir,
    listener: TcpListener,
}

impl Stage {
    /// Ordinary permissions let everybody read all of it, so what is refused later is not refused by them.
    pub(super) fn new(parent: &Path, hostile: &Path, addon: &Path) -> Result<Self> {
        let place = tempfile::Builder::new()
            .prefix("guard-demo-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir_in(parent)
            .with_context(|| format!("create a folder for the demo in `{}`", parent.display()))?;
        let listener = TcpListener::bind("127.0.0.1:0").context("listen on loopback")?;
        listener.set_nonblocking(true).context("set up the listener")?;
        let stage = Self { place, listener };
        for dir in [stage.root(), stage.code(), stage.outside()] {
            fs::create_dir(&dir).with_context(|| format!("create `{}`", dir.display()))?;
        }
        write(&stage.document(), DOCUMENT)?;
        write(&stage.secret(), SECRET)?;
        symlink(stage.secret(), stage.link()).context("plant the link")?;
        copy(hostile, &stage.hostile())?;
        copy(addon, &stage.addon())?;
        Ok(stage)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }
    pub(super) fn root(&self) -> PathBuf {
        self.at("docs")
    }
    pub(super) fn document(&self) -> PathBuf {
        self.at("docs/report.txt")
    }
    pub(super) fn link(&self) -> PathBuf {
        self.at("docs/notes.txt")
    }
    /// Native code, which a root to be read is not there for.
    pub(super) fn addon(&self) -> PathBuf {
        self.at("docs/plugin.node")
    }
    fn outside(&self) -> PathBuf {
        self.at("private")
    }
    pub(super) fn secret(&self) -> PathBuf {
        self.at("private/secret.txt")
    }
    pub(super) fn code(&self) -> PathBuf {
        self.at("code")
    }
    pub(super) fn hostile(&self) -> PathBuf {
        self.at("code/hostile.mjs")
    }
    pub(super) fn audit(&self) -> PathBuf {
        self.at("audit")
    }
    pub(super) fn state(&self) -> PathBuf {
        self.at("state")
    }
    pub(super) fn listener(&self) -> Result<SocketAddr> {
        self.listener
            .local_addr()
            .context("ask for the listener's address")
    }

    /// How many connections arrived since the last call.
    pub(super) fn arrived(&self) -> usize {
        std::iter::from_fn(|| self.listener.accept().ok()).count()
    }

    /// Waits until no process names this place any more, then removes it.
    pub(super) fn clear(self, patience: Duration) -> Result<()> {
        let until = Instant::now() + patience;
        loop {
            let left = processes_naming(self.path());
            if left.is_empty() {
                break;
            }
            if Instant::now() > until {
                bail!(
                    "processes of the demo are still there after {} s: {}",
                    patience.as_secs(),
                    left.join(", ")
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let path = self.path().to_owned();
        self.place
            .close()
            .with_context(|| format!("remove `{}`", path.display()))
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copy `{}`", from.display()))?;
    readable(to)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write `{}`", path.display()))?;
    readable(path)
}

fn readable(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
        .with_context(|| format!("let everybody read `{}`", path.display()))
}

fn processes_naming(path: &Path) -> Vec<String> {
    let wanted = path.as_os_str().as_encoded_bytes();
    let own = std::process::id().to_string();
    let Ok(entries) = fs::read_dir("/proc") else {
        return vec!["`/proc` is not readable".to_owned()];
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|pid| *pid != own && pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let names = line.windows(wanted.len()).any(|window| window == wanted);
            names.then(|| format!("{pid} ({})", String::from_utf8_lossy(&line).replace('\0', " ")))
        })
        .collect()
}
