//! The state directory: who may have one, and the lock that makes its warden the only one.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::{config::shown, refusal::Refusal, sys};

pub const SOCKET: &str = "warden.sock";
/// What a warden says on its stdout that found the directory taken. The one that is ready says nothing.
pub const TAKEN: &str = "taken";
const LOCK: &str = "warden.lock";
pub const LOG: &str = "warden.log";
/// `sun_path`, without the zero byte at its end.
const MAX_SOCKET_PATH: usize = 107;
const SCAFFOLD: &str = "scaffold";

fn refuse(state: &Path, why: impl Into<String>) -> Refusal {
    Refusal::usage(
        format!("cannot use state directory `{}`", shown(state)),
        why,
        if nix::unistd::geteuid().is_root() {
            "name a directory that only root may write with `--state`"
        } else {
            "name a directory of your own that nobody else may write with `--state`"
        },
    )
}

/// Makes (or checks) the directory; the returned path has no symbolic link in it.
pub fn prepare(state: &Path) -> Result<PathBuf, Refusal> {
    let failed = |error: io::Error| refuse(state, error.to_string());
    match DirBuilder::new().mode(0o700).create(state) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Refusal::usage(
                format!("cannot use state directory `{}`", shown(state)),
                "the directory it would lie in does not exist",
                "create that, or name another directory with `--state`",
            ));
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let meta = fs::symlink_metadata(state).map_err(failed)?;
    if meta.is_symlink() {
        // Whoever may write the directory of the link decides where it leads.
        return Err(refuse(state, "it is a symbolic link"));
    }
    if !meta.is_dir() {
        return Err(refuse(state, "it is not a directory"));
    }
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        return Err(refuse(state, format!("it belongs to uid {}", meta.uid())));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(refuse(
            state,
            format!("others may write it (mode {:04o})", meta.mode() & 0o7777),
        ));
    }
    let real = fs::canonicalize(state).map_err(failed)?;
    if real.as_os_str().len() + 1 + SOCKET.len() > MAX_SOCKET_PATH {
        return Err(Refusal::usage(
            format!("cannot use state directory `{}`", shown(state)),
            format!(
                "with `/{SOCKET}` its path is longer than the {MAX_SOCKET_PATH} bytes a socket's may have"
            ),
            "name one with a shorter path with `--state`",
        ));
    }
    match DirBuilder::new().mode(0o700).create(real.join(SCAFFOLD)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    super::registry::prepare(&real).map_err(failed)?;
    Ok(real)
}

pub fn scaffold(state: &Path) -> PathBuf {
    state.join(SCAFFOLD)
}

/// The lock file, open and not inherited. Whoever holds its lock owns the directory.
pub fn lock_file(state: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(state.join(LOCK))
}

/// `None` when another warden (or a reaper at work) has it.
pub fn try_own(state: &Path) -> io::Result<Option<File>> {
    let file = lock_file(state)?;
    Ok(sys::process::try_lock(&file)?.then_some(file))
}

/// Device and inode of this process's mount namespace: whether two of ours mean the same files by a path.
pub fn files() -> io::Result<(u64, u64)> {
    fs::metadata("/proc/self/ns/mnt").map(|meta| (meta.dev(), meta.ino()))
}
