//! Protected names: files inside writable roots that programs *outside* the sandbox execute or obey.
//!
//! They are mounted read-only over themselves. What does not exist at launch cannot be protected by a mount:
//! that residual is stated in `docs/threat-model.md`.

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use super::roots::Opened;
use crate::sys::fs::open_at;

/// A name, relative to the directory it is found in.
pub const PROTECTED: [&str; 24] = [
    ".git/hooks",
    ".git/config",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".config/fish",
    ".vimrc",
    ".exrc",
    ".nvim.lua",
    ".config/nvim",
    ".vscode",
    ".idea",
    ".mcp.json",
    ".cursor",
    ".claude",
    ".claude.json",
    ".codex",
    ".gitmodules",
    ".config/Claude",
];

/// What git obeys in any git directory, whatever its name.
const GIT: [&str; 3] = ["hooks", "config", "config.worktree"];

/// Whether a policy that frees this name frees anything.
pub fn can_be_freed(name: &str) -> bool {
    name == ".git"
        || PROTECTED.contains(&name)
        || GIT.iter().any(|own| name.strip_prefix(".git/") == Some(own))
}

/// How deep below a root, and how many directory entries, the search goes: launch must stay fast.
const MAX_DEPTH: usize = 4;
const MAX_ENTRIES: usize = 5_000;

/// What to mount over itself inside a writable root.
#[derive(Debug)]
pub struct Pinned {
    pub path: PathBuf,
    pub object: OwnedFd,
    pub is_directory: bool,
    /// `false` for a parent that is only pinned: a mount point cannot be renamed away.
    pub read_only: bool,
}

#[derive(Debug, Default)]
pub struct Protection {
    pub pinned: Vec<Pinned>,
    /// The search met a bound: what lies beyond is not protected.
    pub incomplete: bool,
}

/// Finds protected names below a writable root, and holds the directories that lead to them. The calling thread has
/// the child's filesystem rights.
pub fn find(root: &Opened, free: &[String], found: &mut Protection) -> io::Result<()> {
    if !root.is_directory {
        return Ok(());
    }
    search(root, free, found)?;
    // Or `mv project x; mkdir -p project/.git/hooks` would free every name below the first level.
    let ancestors: BTreeSet<PathBuf> = found
        .pinned
        .iter()
        .flat_map(|pinned| pinned.path.ancestors().skip(1))
        .filter_map(|path| Some(path.strip_prefix(&root.path).ok()?.to_path_buf()))
        .filter(|below| !below.as_os_str().is_empty())
        .collect();
    for below in ancestors {
        if let Some(directory) = open_below(&root.object, &below)? {
            hold(&root.path.join(below), &directory, found)?;
        }
    }
    Ok(())
}

fn search(root: &Opened, free: &[String], found: &mut Protection) -> io::Result<()> {
    let mut entries = 0usize;
    let is_free = |name: &str| free.iter().any(|freed| freed == name);
    let mut pending = vec![(root.path.clone(), root.object.try_clone()?, 0usize)];
    while let Some((path, directory, depth)) = pending.pop() {
        for name in PROTECTED.into_iter().filter(|name| !is_free(name)) {
            pin(&path, &directory, Path::new(name), found)?;
        }
        if depth == 0 {
            rest_of_names(root, &is_free, found)?;
        }
        // The file by which a worktree or a submodule names its git directory.
        if !is_free(".git")
            && open_below(&directory, Path::new(".git"))?.is_some_and(|object| is_file(&object))
        {
            pin(&path, &directory, Path::new(".git"), found)?;
        }
        if is_git_directory(&directory)? {
            for name in GIT.into_iter().filter(|name| !is_free(&format!(".git/{name}"))) {
                pin(&path, &directory, Path::new(name), found)?;
            }
            if path != root.path {
                hold(&path, &directory, found)?;
            }
            // Of its thousands of objects none is obeyed; submodules are git directories of their own.
            if let Some(below) = open_below(&directory, Path::new("modules"))? {
                hold(&path.join("modules"), &below, found)?;
                pending.push((path.join("modules"), below, depth));
            }
            continue;
        }
        if depth == MAX_DEPTH {
            found.incomplete = true;
            continue;
        }
        // Through /proc: an O_PATH descriptor cannot be read itself.
        let listing = match std::fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd())) {
            Ok(listing) => listing,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(error) => return Err(error),
        };
        for entry in listing {
            let entry = entry?;
            entries += 1;
            if entries > MAX_ENTRIES {
                found.incomplete = true;
                return Ok(());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = PathBuf::from(entry.file_name());
                if let Some(below) = open_below(&directory, &name)? {
                    pending.push((path.join(&name), below, depth + 1));
                }
            }
        }
    }
    Ok(())
}

/// A root that is itself in a protected place, such as `…/.git`: what is left of the name counts from there.
fn rest_of_names(root: &Opened, is_free: &impl Fn(&str) -> bool, found: &mut Protection) -> io::Result<()> {
    for name in PROTECTED.into_iter().filter(|name| !is_free(name)) {
        let parts: Vec<_> = Path::new(name).iter().collect();
        for at in 1..parts.len() {
            let (before, rest) = parts.split_at(at);
            if root.resolved.ends_with(before.iter().collect::<PathBuf>()) {
                pin(&root.path, &root.object, &rest.iter().collect::<PathBuf>(), found)?;
            }
        }
    }
    Ok(())
}

fn is_file(object: &OwnedFd) -> bool {
    object
        .try_clone()
        .map(File::from)
        .and_then(|file| file.metadata())
        .is_ok_and(|meta| meta.is_file())
}

/// Pins a directory as it is: a mount point cannot be renamed away and made anew with other content.
fn hold(path: &Path, directory: &OwnedFd, found: &mut Protection) -> io::Result<()> {
    if !found.pinned.iter().any(|pinned| pinned.path == path) {
        let object = directory.try_clone()?;
        found.pinned.push(Pinned {
            path: path.to_path_buf(),
            object,
            is_directory: true,
            read_only: false,
        });
    }
    Ok(())
}

/// As git itself tells one: a repository's `.git`, a bare repository, a submodule's.
fn is_git_directory(directory: &OwnedFd) -> io::Result<bool> {
    for name in ["HEAD", "objects", "refs"] {
        if open_below(directory, Path::new(name))?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `None` when it is not there, or is a link that leads elsewhere (a link is not what gets executed here).
fn open_below(directory: impl AsFd, name: &Path) -> io::Result<Option<OwnedFd>> {
    match open_at(
        directory,
        name,
        libc::O_PATH | libc::O_NOFOLLOW,
        libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS,
    ) {
        Ok(object) => Ok(Some(object)),
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::EACCES | libc::EXDEV)
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn pin(path: &Path, directory: &OwnedFd, name: &Path, found: &mut Protection) -> io::Result<()> {
    let place = path.join(name);
    // A name may be found as more than one kind of thing; the stricter counts.
    if found
        .pinned
        .iter()
        .any(|pinned| pinned.path == place && pinned.read_only)
    {
        return Ok(());
    }
    let Some(object) = open_below(directory, name)? else {
        return Ok(());
    };
    let meta = File::from(object.try_clone()?).metadata()?;
    if !meta.is_dir() && !meta.is_file() {
        return Ok(());
    }
    // The directories on the way are pinned too, or `mv .git x; mkdir -p .git/hooks` would free the name.
    let ancestors = name
        .ancestors()
        .skip(1)
        .filter(|part| !part.as_os_str().is_empty());
    let mut ancestors: Vec<&Path> = ancestors.collect();
    ancestors.reverse();
    for ancestor in ancestors {
        let full = path.join(ancestor);
        if found.pinned.iter().any(|pinned| pinned.path == full) {
            continue;
        }
        if let Some(object) = open_below(directory, ancestor)? {
            found.pinned.push(Pinned {
                path: full,
                object,
                is_directory: true,
                read_only: false,
            });
        }
    }
    found.pinned.push(Pinned {
        path: path.join(name),
        object,
        is_directory: meta.is_dir(),
        read_only: true,
    });
    Ok(())
}
