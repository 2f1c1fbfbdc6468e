//! Directories for temporary files of sandboxes that have no `/tmp` of their own: one a session, removed with it.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

fn all(state: &Path) -> PathBuf {
    state.join("tmp")
}

pub(super) fn path(state: &Path, session: &str) -> PathBuf {
    all(state).join(session)
}

/// Makes one, for its owner alone.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent() {
        match DirBuilder::new().mode(0o700).create(parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    DirBuilder::new().mode(0o700).create(directory)
}

/// Removes one with all that a server left in it. No link is followed.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    let removed = fs::remove_dir_all(directory).or_else(|_| {
        // A directory that its maker may not list.
        open_up(directory)?;
        fs::remove_dir_all(directory)
    });
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open_up(directory: &Path) -> io::Result<()> {
    let mut pending = vec![directory.to_path_buf()];
    while let Some(path) = pending.pop() {
        if !fs::symlink_metadata(&path)?.is_dir() {
            continue;
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Removes those of sessions that are over with their warden.
pub(super) fn sweep(state: &Path) {
    let Ok(listing) = fs::read_dir(all(state)) else {
        return;
    };
    for entry in listing.flatten() {
        if let Err(error) = remove(&entry.path()) {
            tracing::error!(path = %entry.path().display(), %error, "cannot remove a directory for temporary files");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_left_is_removed_and_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        let session = path(state.path(), "s-1");
        make(&session).unwrap();
        assert!(make(&session).is_err(), "made twice");
        fs::create_dir_all(session.join("a/b")).unwrap();
        std::os::unix::fs::symlink(outside.path(), session.join("a/link")).unwrap();
        fs::set_permissions(session.join("a"), Permissions::from_mode(0o000)).unwrap();
        remove(&session).unwrap();
        assert!(!session.exists());
        assert!(outside.path().join("kept").exists());
        remove(&session).unwrap();
    }
}
