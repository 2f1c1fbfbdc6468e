//! The warden's cgroup and one below it for each sandbox: limits, counters, kill, removal.
//!
//! Only cgroup v2 counts. Where v1 holds the controllers the limits are reported as not enforced.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};

use crate::link::message::Limits;

/// The controllers our limits need.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];

#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("no cgroup v2 hierarchy is mounted")]
    NoHierarchy,
    #[error("cannot {action} `{path}`")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cgroup `{path}` still has processes after {waited_ms} ms")]
    Busy { path: PathBuf, waited_ms: u128 },
}

fn wrap<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> CgroupError + use<'a> {
    move |source| CgroupError::Io {
        action,
        path: path.to_path_buf(),
        source,
    }
}

/// Mount points of cgroup2 filesystems in a mountinfo text, in order.
fn hierarchies(mountinfo: &str) -> Vec<PathBuf> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            (after.next()? == "cgroup2").then_some(())?;
            let mut fields = before.split(' ').skip(3);
            let (root, mount_point) = (fields.next()?, fields.next()?);
            // A bind of a subtree is somebody else's view, not the hierarchy.
            (root == "/").then(|| PathBuf::from(unescape(mount_point)))
        })
        .collect()
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
pub(super) fn unescape(text: &str) -> String {
    let mut out = text.to_owned();
    for (code, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(code, plain);
    }
    out
}

/// The cgroup that holds all sandboxes of one state directory.
#[derive(Debug)]
pub struct Parent {
    path: PathBuf,
    directory: File,
    level: u32,
    controllers: Vec<String>,
}

/// The directory of the sandboxes of one state directory; made or not.
pub fn parent_path(state: &Path) -> Result<PathBuf, CgroupError> {
    let info = Path::new("/proc/self/mountinfo");
    let text = fs::read_to_string(info).map_err(wrap("read", info))?;
    let root = hierarchies(&text)
        .into_iter()
        .next()
        .ok_or(CgroupError::NoHierarchy)?;
    let name = format!("{:x}", Sha256::digest(state.as_os_str().as_encoded_bytes()));
    Ok(root.join(format!("guard-agent-{}", name.get(..8).unwrap_or(&name))))
}

impl Parent {
    /// Makes it (or takes over an empty one) and delegates what controllers there are.
    pub fn create(state: &Path) -> Result<Self, CgroupError> {
        let path = parent_path(state)?;
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(wrap("create", &path)(error));
            }
            _ => {}
        }
        let offered = path.join("cgroup.controllers");
        let offered = fs::read_to_string(&offered).map_err(wrap("read", &offered))?;
        let controllers: Vec<String> = CONTROLLERS
            .iter()
            .filter(|name| offered.split_whitespace().any(|offer| offer == **name))
            .map(|name| (*name).to_owned())
            .collect();
        let control = path.join("cgroup.subtree_control");
        for name in &controllers {
            fs::write(&control, format!("+{name}")).map_err(wrap("enable a controller in", &control))?;
        }
        let directory = hold(&path).map_err(wrap("take", &path))?;
        // Depth below the hierarchy's root, which has level 0; sandboxes sit one below.
        Ok(Self {
            directory,
            level: level_of(&path)?,
            controllers,
            path,
        })
    }

    pub fn directory(&self) -> &File {
        &self.directory
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The ancestor level at which a sandbox's own cgroup is found.
    pub fn sandbox_level(&self) -> u32 {
        self.level + 1
    }

    /// Why limits cannot be enforced here, if so.
    pub fn limits_unavailable(&self) -> Option<String> {
        let missing: Vec<&str> = CONTROLLERS
            .into_iter()
            .filter(|name| !self.controllers.iter().any(|have| have == name))
            .collect();
        (!missing.is_empty()).then(|| {
            let missing = missing.join(", ");
            format!("cgroup v2 does not offer the controllers {missing} (held by v1 or not delegated)")
        })
    }

    /// A cgroup for one sandbox with its limits in force.
    pub fn sandbox(&self, session: &str, limits: &Limits) -> Result<Sandbox, CgroupError> {
        let path = self.path.join(session);
        fs::create_dir(&path).map_err(wrap("create", &path))?;
        let sandbox = match File::open(&path).and_then(|file| Ok((file.metadata()?.ino(), file))) {
            Ok((id, directory)) => Sandbox { path, directory, id },
            Err(error) => {
                let _ = fs::remove_dir(&path);
                return Err(wrap("open", &path)(error));
            }
        };
        if let Err(error) = self.limit(&sandbox, limits) {
            let _ = sandbox.remove();
            return Err(error);
        }
        Ok(sandbox)
    }

    fn limit(&self, sandbox: &Sandbox, limits: &Limits) -> Result<(), CgroupError> {
        // One process more than asked: our init is in there too.
        let mut wanted: Vec<(&str, &str, String)> = vec![
            ("memory", "memory.max", limits.memory.to_string()),
            ("memory", "memory.oom.group", "1".into()),
            ("pids", "pids.max", (limits.pids.saturating_add(1)).to_string()),
            (
                "cpu",
                "cpu.max",
                format!("{} 100000", u64::from(limits.cpu_percent) * 1000),
            ),
        ];
        if sandbox.path.join("memory.swap.max").exists() {
            wanted.push(("memory", "memory.swap.max", "0".into()));
        }
        for (controller, file, value) in wanted {
            if self.controllers.iter().any(|have| have == controller) {
                let file = sandbox.path.join(file);
                fs::write(&file, &value).map_err(wrap("set the limit", &file))?;
                let now = fs::read_to_string(&file).map_err(wrap("read back", &file))?;
                // memory.max is kept in whole pages.
                let same = now.trim() == value
                    || matches!((now.trim().parse::<u64>(), value.parse::<u64>()),
                        (Ok(now), Ok(value)) if now <= value && value - now < 4096);
                if !same {
                    let source = io::Error::other(format!("reads `{}` after writing `{value}`", now.trim()));
                    return Err(wrap("set the limit", &file)(source));
                }
            }
        }
        Ok(())
    }

    /// Removes it when no sandbox is left.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }
}

/// Level of a cgroup: its depth below the hierarchy's real root, also when this process sees only a part of it.
fn level_of(path: &Path) -> Result<u32, CgroupError> {
    // From inside a cgroup namespace the real depth is not visible: `/proc/self/cgroup` would lie as well. The
    // kernel counts from the real root, so a namespaced host must be told apart by the id of its root cgroup (1).
    let info = Path::new("/proc/self/mountinfo");
    let text = fs::read_to_string(info).map_err(wrap("read", info))?;
    let root = hierarchies(&text)
        .into_iter()
        .next()
        .ok_or(CgroupError::NoHierarchy)?;
    let depth = path
        .strip_prefix(&root)
        .map_or(1, |rest| rest.components().count());
    let id = fs::metadata(&root).map_err(wrap("inspect", &root))?.ino();
    if id != 1 {
        let source = io::Error::other(format!(
            "it is not the root of the hierarchy (id {id}): a cgroup namespace"
        ));
        return Err(wrap("use", &root)(source));
    }
    Ok(u32::try_from(depth).unwrap_or(u32::MAX))
}

/// The cgroup of one sandbox.
#[derive(Debug)]
pub struct Sandbox {
    path: PathBuf,
    directory: File,
    id: u64,
}

/// What the kernel counted for a sandbox.
pub type Counters = BTreeMap<String, BTreeMap<String, u64>>;

impl Sandbox {
    pub fn directory(&self) -> &File {
        &self.directory
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's id of this cgroup.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// `memory.events`, `pids.events`, `cpu.stat`: those that exist.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::new();
        for (name, file) in [
            ("memory_events", "memory.events"),
            ("pids_events", "pids.events"),
            ("cpu_stat", "cpu.stat"),
        ] {
            if let Ok(text) = fs::read_to_string(self.path.join(file)) {
                let values: BTreeMap<String, u64> = text
                    .lines()
                    .filter_map(|line| {
                        let (key, value) = line.split_once(' ')?;
                        Some((key.to_owned(), value.trim().parse().ok()?))
                    })
                    .collect();
                counters.insert(name.to_owned(), values);
            }
        }
        counters
    }

    pub fn kill(&self) -> io::Result<()> {
        kill(&self.path)
    }

    /// Stops every task for good, those that are born meanwhile too. A killed task still dies.
    pub fn freezer(&self) -> impl Fn() -> io::Result<()> + use<> {
        let file = self.path.join("cgroup.freeze");
        move || fs::write(&file, "1")
    }

    /// Whether every task has stopped.
    pub fn is_frozen(&self) -> bool {
        fs::read_to_string(self.path.join("cgroup.events"))
            .is_ok_and(|text| text.lines().any(|line| line == "frozen 1"))
    }

    pub fn is_empty(&self) -> bool {
        is_empty(&self.path)
    }

    pub fn remove(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }
}

/// Opens a warden's cgroup and takes it for as long as the file is open. The lock in the state directory does not
/// do: in another mount namespace another directory has the same path, and its warden the same cgroup.
pub fn hold(path: &Path) -> io::Result<File> {
    let directory = File::open(path)?;
    let end = Instant::now() + Duration::from_secs(1);
    // A process that a dead warden had just begun may have it a moment longer.
    while !crate::sys::process::try_lock(&directory)? {
        if Instant::now() > end {
            return Err(io::Error::other(
                "a warden in another mount namespace has it, for a state directory of the same path: use another with `--state`",
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(directory)
}

fn kill(path: &Path) -> io::Result<()> {
    fs::write(path.join("cgroup.kill"), "1")
}

/// Whether no process is left, zombies aside.
fn is_empty(path: &Path) -> bool {
    match fs::read_to_string(path.join("cgroup.events")) {
        Ok(text) => text.lines().any(|line| line == "populated 0"),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Kills everything in a cgroup and removes it: for sandboxes whose warden is gone.
pub fn destroy(path: &Path, limit: Duration) -> Result<(), CgroupError> {
    let start = Instant::now();
    loop {
        match kill(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(wrap("kill the processes of", path)(error)),
            Ok(()) => {}
        }
        if is_empty(path) {
            match fs::remove_dir(path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // A task between its exit and its release; try again.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(wrap("remove", path)(error)),
            }
        }
        if start.elapsed() > limit {
            return Err(CgroupError::Busy {
                path: path.to_path_buf(),
                waited_ms: start.elapsed().as_millis(),
            });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_pure_hybrid_and_v1_layouts() {
        let pure = "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        assert_eq!(hierarchies(pure), [PathBuf::from("/sys/fs/cgroup")]);
        let hybrid = "33 32 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      40 32 0:39 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(hierarchies(hybrid), [PathBuf::from("/sys/fs/cgroup/unified")]);
        let v1 = "33 32 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert!(hierarchies(v1).is_empty());
        let odd =
            "40 32 0:39 / /mnt/a\\040b rw - cgroup2 none rw\n41 32 0:39 /sub /mnt/c rw - cgroup2 none rw\n";
        assert_eq!(hierarchies(odd), [PathBuf::from("/mnt/a b")]);
    }
}
