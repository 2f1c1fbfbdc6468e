//! What a root gives and what it does not, as the server finds it, in both views.

mod host_view;
mod links;
mod mounts;
mod names;
mod project;
mod rights;
mod surroundings;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};
use guard_tests::{
    agent::AgentBuilder,
    picture::Picture,
    refused::{Stage, USER},
};

/// Ids of [`USER`] on every Debian system.
const IDS: (u32, u32) = (5, 60);
const VIEWS: [&str; 2] = ["private", "host"];

/// Gives it and all below to the user the servers run as: ordinary permissions refuse nothing.
fn give(path: &Path) -> Result<()> {
    chown(path, Some(IDS.0), Some(IDS.1))?;
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path)? {
            let entry = entry?.path();
            if !entry.is_symlink() {
                give(&entry)?;
            }
        }
    }
    Ok(())
}

/// A directory of that user with a file, a directory and a file in that.
fn tree(stage: &Stage, name: &str) -> Result<PathBuf> {
    let path = stage.directory(name)?;
    fs::create_dir(path.join("sub"))?;
    fs::write(path.join("note"), "a note")?;
    fs::write(path.join("sub/inner"), "an inner note")?;
    give(&path)?;
    Ok(path)
}

fn launch(stage: &Stage, view: &str) -> AgentBuilder {
    stage.plain().user(USER).view(view)
}

fn picture(path: &Path) -> Result<Picture> {
    let mut picture = Picture::default();
    picture.add(path)?;
    Ok(picture)
}

fn unchanged(path: &Path, before: &Picture) -> Result<()> {
    let after = picture(path)?;
    ensure!(*before == after, "changed: {:#?}", before.difference(&after));
    Ok(())
}

fn executable(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
