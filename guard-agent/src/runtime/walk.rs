//! Path walks by hand: every symbolic link on the way is seen, and what stops the walk is named.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

/// The kernel's own limit (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Where a walk ended, and the links it went through.
#[derive(Debug)]
pub(super) struct Found {
    /// Absolute, without symbolic links.
    pub(super) real: PathBuf,
    pub(super) metadata: Metadata,
    /// Link (its parents are real) → its text.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
}

/// Why a walk ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("`{0}` does not exist")]
    Missing(String),
    #[error("`{0}` is a dangling symbolic link to `{1}`")]
    Dangling(String, String),
    #[error("`{0}` is not a directory")]
    NotDirectory(String),
    #[error("component `{path}` is mode {mode:04o} of uid {owner}, so uid {uid} cannot pass it")]
    Closed {
        path: String,
        mode: u32,
        owner: u32,
        uid: u32,
    },
    #[error("`{0}` goes through more than {MAX_LINKS} symbolic links")]
    Loop(String),
    #[error("`{path}` cannot be examined: {cause}")]
    Other { path: String, cause: io::Error },
}

impl Lost {
    /// Nothing is there, as opposed to something that cannot be used.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::NotDirectory(_))
    }

    pub(super) fn hint(&self) -> String {
        match self {
            Self::Missing(_) | Self::NotDirectory(_) => "check the spelling, or install it".into(),
            Self::Dangling(link, _) => format!("repair or remove the link `{link}`"),
            Self::Closed { path, uid, .. } => format!(
                "name a user that can with `--user`, install it where uid {uid} can reach it (`/opt`, `/usr/local`), or open `{path}` to it"
            ),
            Self::Loop(path) => format!("repair the symbolic links that `{path}` leads to"),
            Self::Other { .. } => "see the cause, then try again".into(),
        }
    }
}

/// A path as text for people: one line, whatever bytes it holds.
pub(super) fn show(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    match path.to_str() {
        Some(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => path.as_os_str().as_bytes().escape_ascii().to_string(),
    }
}

/// Walks an absolute path to the object it names.
pub(super) fn follow(path: &Path) -> Result<Found, Lost> {
    let mut current = PathBuf::from("/");
    let mut metadata = None;
    let mut links = Vec::new();
    let mut rest: VecDeque<OsString> = VecDeque::new();
    // How many components follow the last link: what is missing beyond its target does not make it dangle.
    let mut behind_link = usize::MAX;
    push_front(&mut rest, path);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            current.pop();
            metadata = None;
            continue;
        }
        let next = current.join(&name);
        let meta = fs::symlink_metadata(&next).map_err(|error| {
            let link = links.last().filter(|_| rest.len() >= behind_link);
            lost(&current, &next, error, link)
        })?;
        if !meta.is_symlink() {
            current = next;
            metadata = Some(meta);
            continue;
        }
        if links.len() >= MAX_LINKS {
            return Err(Lost::Loop(show(path)));
        }
        let target = fs::read_link(&next).map_err(|cause| Lost::Other {
            path: show(&next),
            cause,
        })?;
        if target.is_absolute() {
            current = PathBuf::from("/");
            metadata = None;
        }
        behind_link = rest.len();
        push_front(&mut rest, &target);
        links.push((next, target));
    }
    let metadata = match metadata {
        Some(metadata) => metadata,
        None => fs::symlink_metadata(&current).map_err(|error| lost(&current, &current, error, None))?,
    };
    Ok(Found {
        real: current,
        metadata,
        links,
    })
}

fn push_front(rest: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => rest.push_front(name.to_owned()),
            Component::ParentDir => rest.push_front("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

fn lost(directory: &Path, path: &Path, error: io::Error, link: Option<&(PathBuf, PathBuf)>) -> Lost {
    match error.kind() {
        io::ErrorKind::NotFound => match link {
            Some((link, target)) => Lost::Dangling(show(link), show(target)),
            None => Lost::Missing(show(path)),
        },
        io::ErrorKind::NotADirectory => Lost::NotDirectory(show(directory)),
        io::ErrorKind::PermissionDenied => closed(directory, error),
        _ => Lost::Other {
            path: show(path),
            cause: error,
        },
    }
}

/// Names the directory that the walk could not search.
fn closed(directory: &Path, error: io::Error) -> Lost {
    match fs::symlink_metadata(directory) {
        Ok(metadata) => Lost::Closed {
            path: show(directory),
            mode: metadata.mode() & 0o7777,
            owner: metadata.uid(),
            uid: nix::unistd::geteuid().as_raw(),
        },
        Err(_) => Lost::Other {
            path: show(directory),
            cause: error,
        },
    }
}
