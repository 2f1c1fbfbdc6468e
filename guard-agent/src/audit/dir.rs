//! An audit directory, held by a descriptor: everything in it is reached from there, no link is followed.

use std::{
    fs::{DirBuilder, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag, open, openat, renameat},
    sys::stat::{Mode, fstat, mkdirat},
    unistd::{fsync, geteuid},
};

use super::error::AuditError;
use crate::refusal::Refusal;

pub(super) struct AuditDir {
    fd: OwnedFd,
    path: PathBuf,
}

/// What the directory holds.
pub(super) struct Listing {
    /// Numbers of the segments, ascending.
    pub segments: Vec<u64>,
    /// Files with what was cut out of the chain: the record they were cut out before, and their name.
    pub torn: Vec<(u64, String)>,
    /// Names that are none of ours, left alone.
    pub foreign: Vec<String>,
}

const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

impl AuditDir {
    /// To write in: made when missing, ours alone.
    pub(super) fn open_writing(path: &Path) -> Result<Self, AuditError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => AuditError::directory(
                    path,
                    "it, or something on the way to it, is no directory",
                    "name a directory with `--audit`",
                ),
                _ => AuditError::io("create audit directory", path, error),
            })?;
        let fd = open(path, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty()).map_err(|errno| match errno {
            Errno::ELOOP | Errno::ENOTDIR => AuditError::directory(
                path,
                "it is a symbolic link or no directory",
                "name the directory itself",
            ),
            errno => AuditError::io("open audit directory", path, errno),
        })?;
        let dir = Self {
            fd,
            path: path.to_owned(),
        };
        dir.check_private(dir.fd.as_fd(), path)?;
        Ok(dir)
    }

    /// To read: whoever may.
    pub(super) fn open_reading(path: &Path) -> Result<Self, AuditError> {
        let fd = open(path, DIRECTORY, Mode::empty())
            .map_err(|errno| AuditError::io("open audit directory", path, errno))?;
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }

    /// A directory inside, made when missing, ours alone.
    pub(super) fn subdirectory(&self, name: &str) -> Result<Self, AuditError> {
        let path = self.path.join(name);
        match mkdirat(&self.fd, name, Mode::S_IRWXU) {
            Ok(()) => self.sync()?,
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(AuditError::io("create", path, errno)),
        }
        let dir = self.subdirectory_reading(name)?;
        dir.check_private(dir.fd.as_fd(), &path)?;
        Ok(dir)
    }

    pub(super) fn subdirectory_reading(&self, name: &str) -> Result<Self, AuditError> {
        let path = self.path.join(name);
        let fd = openat(&self.fd, name, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty())
            .map_err(|errno| AuditError::io("open", &path, errno))?;
        Ok(Self { fd, path })
    }

    fn check_private(&self, fd: std::os::fd::BorrowedFd<'_>, path: &Path) -> Result<(), AuditError> {
        let stat = fstat(fd).map_err(|errno| AuditError::io("inspect", path, errno))?;
        let us = geteuid().as_raw();
        if stat.st_uid != us {
            return Err(AuditError::directory(
                path,
                format!(
                    "it belongs to uid {}, not to uid {us} that would write it",
                    stat.st_uid
                ),
                "name a directory of your own with `--audit`",
            ));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(AuditError::directory(
                path,
                format!("others may write it (mode {:o})", stat.st_mode & 0o7777),
                format!(
                    "run `chmod go-w {}`, or name another with `--audit`",
                    path.display()
                ),
            ));
        }
        Ok(())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A regular file in the directory, never a link, a FIFO or a device; new ones are 0600.
    pub(super) fn file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let safe = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let fd = openat(&self.fd, name, flags | safe, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let file = File::from(fd);
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ))
    }

    /// As `file`, for files whose content we stand for.
    pub(super) fn own_file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let file = self.file(name, flags)?;
        let metadata = file.metadata()?;
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "it belongs to uid {} with mode {:o}",
                    metadata.uid(),
                    metadata.mode() & 0o7777
                ),
            ));
        }
        Ok(file)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), AuditError> {
        renameat(&self.fd, from, &self.fd, to)
            .map_err(|errno| AuditError::io("rename", self.path(from), errno))?;
        self.sync()
    }

    /// Names made, renamed or removed are on the disk after this.
    pub(super) fn sync(&self) -> Result<(), AuditError> {
        fsync(&self.fd).map_err(|errno| AuditError::io("sync directory", &self.path, errno))
    }

    /// The writer's lock; it lasts as long as the value, or the process.
    pub(super) fn lock(&self) -> Result<Flock<File>, AuditError> {
        use std::io::{Read as _, Write as _};
        let path = self.path("lock");
        let file = self
            .own_file("lock", OFlag::O_RDWR | OFlag::O_CREAT)
            .map_err(|error| AuditError::io("open lock", &path, error))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut lock) => {
                // For people only: a full disk is no reason to fail here.
                let _ = lock
                    .set_len(0)
                    .and_then(|()| writeln!(lock, "{}", std::process::id()));
                Ok(lock)
            }
            Err((file, Errno::EWOULDBLOCK)) => {
                let mut text = String::new();
                let _ = (&file).take(32).read_to_string(&mut text);
                Err(AuditError::Locked {
                    path: self.path.clone(),
                    pid: text.trim().parse().ok(),
                })
            }
            Err((_, errno)) => Err(AuditError::io("lock", path, errno)),
        }
    }

    pub(super) fn list(&self) -> Result<Listing, AuditError> {
        let failed = |errno: Errno| AuditError::io("list audit directory", &self.path, errno);
        let mut listing = Listing {
            segments: Vec::new(),
            torn: Vec::new(),
            foreign: Vec::new(),
        };
        let mut dir = Dir::openat(&self.fd, ".", DIRECTORY, Mode::empty()).map_err(failed)?;
        for entry in dir.iter() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match name.as_str() {
                "." | ".." | "lock" | "keys" => {}
                _ => {
                    if let Some(number) = segment_number(&name) {
                        listing.segments.push(number);
                    } else if let Some(seq) = torn_seq(&name) {
                        listing.torn.push((seq, name));
                    } else {
                        listing.foreign.push(name);
                    }
                }
            }
        }
        listing.segments.sort_unstable();
        listing.torn.sort();
        listing.foreign.sort();
        Ok(listing)
    }
}

pub(super) fn segment_name(number: u64) -> String {
    format!("{number:06}.jsonl")
}

fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".jsonl")?.parse().ok()?;
    (number > 0 && segment_name(number) == name).then_some(number)
}

pub(super) fn torn_name(seq: u64, copy: u32) -> String {
    format!("torn-{seq}.{copy}.bin")
}

fn torn_seq(name: &str) -> Option<u64> {
    let (seq, copy) = name
        .strip_prefix("torn-")?
        .strip_suffix(".bin")?
        .split_once('.')?;
    let (seq, copy) = (seq.parse().ok()?, copy.parse().ok()?);
    (torn_name(seq, copy) == name).then_some(seq)
}

/// Where records go when nobody says: the system's log directory, without root the user's state directory.
pub fn default_directory() -> Result<PathBuf, Refusal> {
    if geteuid().is_root() {
        return Ok(PathBuf::from("/var/log/guard-agent"));
    }
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("guard-agent"))
        .ok_or_else(|| {
            Refusal::usage(
                "cannot tell where the audit directory is",
                "neither `XDG_STATE_HOME` nor `HOME` is set to an absolute path",
                "name it with `--audit`",
            )
        })
}
