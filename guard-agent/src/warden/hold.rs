//! What holds a sandbox's processes together for counting and killing: a cgroup, or without privilege its init.

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    cgroup::{self, CgroupError, Counters},
    scratch,
};
use crate::{
    init::message::Ground,
    link::message::Limits,
    sys::{self, clone::Born, family},
};

/// How long an init may take to end what it started, before the warden does.
const PATIENCE: Duration = Duration::from_secs(5);

/// What one warden makes its sandboxes in.
#[derive(Debug)]
pub enum Parent {
    Cgroup(cgroup::Parent),
    Processes(Processes),
}

/// The sandboxes of a warden without privilege.
#[derive(Debug)]
pub struct Processes {
    state: PathBuf,
    ground: Ground,
    next: AtomicU64,
    children: Children,
}

/// This warden's own children: everything else that becomes one is what a dead init left.
#[derive(Debug, Clone, Default)]
pub struct Children(Arc<Mutex<BTreeSet<i32>>>);

impl Children {
    /// Starts a child, and knows it before anybody can look for strangers.
    pub fn start(&self, spawn: impl FnOnce() -> io::Result<Born>) -> io::Result<Born> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let born = spawn()?;
        known.insert(born.pid);
        Ok(born)
    }

    fn forget(&self, pid: i32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    fn end_strangers(&self) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        family::end_orphans(&known)
    }
}

impl Processes {
    pub fn new(state: &Path, ground: Ground, children: Children) -> Self {
        Self {
            state: state.to_path_buf(),
            ground,
            next: AtomicU64::new(1),
            children,
        }
    }
}

impl Parent {
    pub fn path(&self) -> &Path {
        match self {
            Self::Cgroup(parent) => parent.path(),
            Self::Processes(processes) => &processes.state,
        }
    }

    /// Why limits cannot be enforced here, if so.
    pub fn limits_unavailable(&self) -> Option<String> {
        match self {
            Self::Cgroup(parent) => parent.limits_unavailable(),
            Self::Processes(_) => Some("without root there is no cgroup for the sandbox".to_owned()),
        }
    }

    pub fn sandbox(&self, session: &str, limits: &Limits) -> Result<Sandbox, CgroupError> {
        match self {
            Self::Cgroup(parent) => parent.sandbox(session, limits).map(Sandbox::Cgroup),
            Self::Processes(processes) => {
                let directory = scratch::path(&processes.state, session);
                let scratch = match processes.ground {
                    Ground::Bare => Some(scratch::make(&directory).map_err(|source| CgroupError::Io {
                        action: "make the directory for temporary files",
                        path: directory.clone(),
                        source,
                    })?),
                    Ground::UserNamespace | Ground::Machine => None,
                };
                Ok(Sandbox::Processes(Family {
                    id: processes.next.fetch_add(1, Ordering::Relaxed),
                    ground: processes.ground,
                    children: processes.children.clone(),
                    init: None,
                    scratch: scratch.map(|()| directory),
                }))
            }
        }
    }

    pub fn remove(&self) -> io::Result<()> {
        match self {
            Self::Cgroup(parent) => parent.remove(),
            Self::Processes(_) => Ok(()),
        }
    }
}

/// One sandbox.
#[derive(Debug)]
pub enum Sandbox {
    Cgroup(cgroup::Sandbox),
    Processes(Family),
}

/// A sandbox known by its init alone.
#[derive(Debug)]
pub struct Family {
    id: u64,
    ground: Ground,
    children: Children,
    init: Option<(i32, OwnedFd)>,
    scratch: Option<PathBuf>,
}

impl Sandbox {
    /// Init's birth: `spawn` gets the cgroup it is born into, if there is one.
    pub fn birth(
        &mut self,
        spawn: impl FnOnce(Option<BorrowedFd<'_>>) -> io::Result<Born>,
    ) -> io::Result<Born> {
        match self {
            Self::Cgroup(cgroup) => spawn(Some(cgroup.directory().as_fd())),
            Self::Processes(family) => {
                let born = family.children.start(|| spawn(None))?;
                family.init = Some((born.pid, born.pidfd.try_clone()?));
                Ok(born)
            }
        }
    }

    pub fn directory(&self) -> Option<&File> {
        match self {
            Self::Cgroup(cgroup) => Some(cgroup.directory()),
            Self::Processes(_) => None,
        }
    }

    /// Its cgroup, if it has one.
    pub fn cgroup(&self) -> Option<&cgroup::Sandbox> {
        match self {
            Self::Cgroup(cgroup) => Some(cgroup),
            Self::Processes(_) => None,
        }
    }

    /// The directory for temporary files of a sandbox without a view.
    pub fn scratch(&self) -> Option<&Path> {
        match self {
            Self::Cgroup(_) => None,
            Self::Processes(family) => family.scratch.as_deref(),
        }
    }

    /// The kernel's id of its cgroup, or a number of this warden's.
    pub fn id(&self) -> u64 {
        match self {
            Self::Cgroup(cgroup) => cgroup.id(),
            Self::Processes(family) => family.id,
        }
    }

    /// What stops every task in it; it does not wait. Without a cgroup nothing can stop them all at once.
    pub fn freezer(&self) -> Box<dyn Fn() -> io::Result<()>> {
        match self {
            Self::Cgroup(cgroup) => Box::new(cgroup.freezer()),
            Self::Processes(_) => {
                Box::new(|| Err(io::Error::new(io::ErrorKind::Unsupported, "it has no cgroup")))
            }
        }
    }

    pub fn is_frozen(&self) -> bool {
        match self {
            Self::Cgroup(cgroup) => cgroup.is_frozen(),
            Self::Processes(_) => false,
        }
    }

    pub fn counters(&self) -> Counters {
        match self {
            Self::Cgroup(cgroup) => cgroup.counters(),
            Self::Processes(_) => Counters::new(),
        }
    }

    /// Asks for the end of everything in it; does not wait.
    pub fn kill(&self) -> io::Result<()> {
        match self {
            Self::Cgroup(cgroup) => cgroup.kill(),
            Self::Processes(family) => family.kill(),
        }
    }

    /// Whether nothing of it runs any more. Without a cgroup it is also what makes it so.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Cgroup(cgroup) => cgroup.is_empty(),
            Self::Processes(family) => family.is_empty(),
        }
    }

    pub fn remove(&self) -> io::Result<()> {
        match self {
            Self::Cgroup(cgroup) => cgroup.remove(),
            Self::Processes(family) => family.remove(),
        }
    }

    /// Kills everything in it, waits until it is dead and removes it. For a launch that is undone.
    pub fn destroy(&self, limit: Duration) -> Result<(), CgroupError> {
        match self {
            Self::Cgroup(cgroup) => cgroup::destroy(cgroup.path(), limit),
            Self::Processes(family) => family.destroy(limit),
        }
    }
}

impl Family {
    fn kill(&self) -> io::Result<()> {
        let Some((pid, pidfd)) = &self.init else {
            return Ok(());
        };
        if self.ground != Ground::Bare {
            // Pid 1 of a namespace: the kernel ends the rest.
            return sys::process::pidfd_kill(pidfd, libc::SIGKILL);
        }
        // It ends its descendants, as nobody else can do at once. Should it not, the warden does.
        let pid = *pid;
        let waiting = pidfd.try_clone()?;
        for signal in [libc::SIGTERM, libc::SIGCONT] {
            sys::process::pidfd_kill(pidfd, signal)?;
        }
        std::thread::Builder::new().name("end".into()).spawn(move || {
            if !sys::process::wait_dead(&waiting, PATIENCE) {
                tracing::error!(pid, "a sandbox's init does not end it; the warden does");
                family::end_family(pid, PATIENCE);
            }
        })?;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        let Some((pid, pidfd)) = &self.init else {
            return true;
        };
        if !sys::process::wait_dead(pidfd, Duration::ZERO) {
            return false;
        }
        self.children.forget(*pid);
        self.ground != Ground::Bare || self.children.end_strangers()
    }

    fn remove(&self) -> io::Result<()> {
        self.scratch.as_deref().map_or(Ok(()), scratch::remove)
    }

    fn destroy(&self, limit: Duration) -> Result<(), CgroupError> {
        let end = Instant::now() + limit;
        let path = self.scratch.clone().unwrap_or_default();
        if let Some((_, pidfd)) = &self.init {
            // Its child was never released: there is nobody else.
            let _ = sys::process::pidfd_kill(pidfd, libc::SIGKILL);
            while !self.is_empty() {
                if Instant::now() > end {
                    return Err(CgroupError::Busy {
                        path,
                        waited_ms: limit.as_millis(),
                    });
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.remove().map_err(|source| CgroupError::Io {
            action: "remove",
            path,
            source,
        })
    }
}
