//! The scratch copy of the checkout that is changed and built, with build results of its own.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use walkdir::WalkDir;

use crate::{apt, cargo};

/// Cargo reads the checkout's own configuration, which lies above the copy; a second one would double its flags.
const LEFT_OUT: &str = ".cargo/";

pub(super) struct Scratch {
    pub(super) path: PathBuf,
}

impl Scratch {
    /// Makes the copy what the checkout is now, uncommitted changes included.
    pub(super) fn sync(root: &Path) -> Result<Self> {
        let path = root.join("target/mutants/tree");
        fs::create_dir_all(&path).with_context(|| format!("create `{}`", path.display()))?;
        let scratch = Self { path };
        let files = files(root)?;
        for file in &files {
            copy(&root.join(file), &scratch.path.join(file)).with_context(|| format!("copy `{file}`"))?;
        }
        scratch.remove_others(&files)?;
        scratch.seed(root)?;
        Ok(scratch)
    }

    /// What an earlier run copied and the checkout has no more.
    fn remove_others(&self, files: &BTreeSet<String>) -> Result<()> {
        let found = WalkDir::new(&self.path)
            .into_iter()
            .filter_entry(|entry| entry.path() != self.path.join("target"));
        for entry in found {
            let entry = entry.context("list the scratch copy")?;
            let name = entry.path().strip_prefix(&self.path).unwrap_or(entry.path());
            if !entry.file_type().is_dir() && !files.contains(&*name.to_string_lossy()) {
                fs::remove_file(entry.path())
                    .with_context(|| format!("remove `{}`", entry.path().display()))?;
            }
        }
        Ok(())
    }

    /// The first build finds the dependencies that the checkout has built: they are what takes minutes.
    fn seed(&self, root: &Path) -> Result<()> {
        let target = self.path.join("target");
        if target.exists() {
            return Ok(());
        }
        let from = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let host = Path::new("debug").to_path_buf();
        for profile in [host.clone(), Path::new(cargo::PLATFORM).join(host)] {
            for part in [".fingerprint", "build", "deps"] {
                let place = profile.join(part);
                seed(&from.join(&place), &target.join(&place))
                    .with_context(|| format!("copy `{}`", place.display()))?;
            }
        }
        fs::create_dir_all(&target).with_context(|| format!("create `{}`", target.display()))?;
        // Kernels of the virtual machines: read only.
        if from.join("vm").is_dir() {
            std::os::unix::fs::symlink(from.join("vm"), target.join("vm")).context("link the kernels")?;
        }
        Ok(())
    }

    /// What is in some files, to be written back.
    pub(super) fn keep(&self, files: &[&str]) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let read = |file: &&str| {
            let path = self.path.join(file);
            let bytes = fs::read(&path).with_context(|| format!("read `{}`", path.display()))?;
            Ok((path, bytes))
        };
        files.iter().map(read).collect()
    }

    /// Cargo here, without the caller's choice of another target directory.
    pub(super) fn cargo(&self) -> Command {
        let mut command = cargo::command();
        command
            .current_dir(&self.path)
            .env("CARGO_TARGET_DIR", self.path.join("target"));
        command
    }
}

/// Files of the repository that exist, committed or not.
fn files(root: &Path) -> Result<BTreeSet<String>> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let out = apt::output(
        Command::new("git")
            .args(["-c", "safe.directory=*"])
            .args(list)
            .current_dir(root),
    )
    .context("list the repository's files")?;
    Ok(out
        .split('\0')
        .filter(|path| !path.is_empty() && !path.starts_with(LEFT_OUT) && root.join(path).is_file())
        .map(str::to_owned)
        .collect())
}

/// Copies what differs, with its times: Cargo builds what is newer than what it built.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let bytes = fs::read(from)?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to).map(drop)
    // Written now, so newer than any build of the earlier text.
}

/// Libraries are linked, since nothing writes into one that is there; the small files beside them are copied.
fn seed(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    for entry in WalkDir::new(from) {
        let entry = entry.context("list what was built")?;
        let place = to.join(entry.path().strip_prefix(from).unwrap_or(entry.path()));
        if entry.file_type().is_dir() {
            fs::create_dir_all(&place)?;
            continue;
        }
        let library = entry
            .path()
            .extension()
            .is_some_and(|kind| kind == "rlib" || kind == "rmeta" || kind == "so");
        let program = entry.path().extension().is_none() && from.ends_with("deps");
        if program {
            continue;
        }
        if library && fs::hard_link(entry.path(), &place).is_ok() {
            continue;
        }
        fs::copy(entry.path(), &place)?;
        let times = entry.metadata()?.modified()?;
        File::options().write(true).open(&place)?.set_modified(times)?;
    }
    Ok(())
}
