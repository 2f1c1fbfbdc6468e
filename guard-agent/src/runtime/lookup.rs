//! From the typed command to an executable file, as `execvp` finds it.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    unistd::{AccessFlags, faccessat},
};

use super::{
    context::{Context, is_plain},
    walk::{self, Found, Lost, show},
};
use crate::refusal::Refusal;

/// An executable file.
#[derive(Debug)]
pub(super) struct Executable {
    /// Absolute path that leads there, its last component as typed.
    pub(super) path: PathBuf,
    pub(super) found: Found,
}

#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("{0}")]
    Lost(Lost),
    #[error("`{0}` is a directory")]
    Directory(String),
    #[error("`{0}` is not a regular file")]
    Special(String),
    #[error("`{path}` is not executable for uid {uid}")]
    NotExecutable { path: String, uid: u32 },
}

/// The command itself: the first word the person typed.
pub(super) fn command(context: &Context<'_>, name: &OsStr) -> Result<Executable, Refusal> {
    find(context, name, &[])
}

/// `name` with a slash is a path; without, it is searched in `PATH`, leaving out some directories.
pub(super) fn find(context: &Context<'_>, name: &OsStr, except: &[PathBuf]) -> Result<Executable, Refusal> {
    if name.is_empty() {
        return Err(context.refuse(
            "the command's name is empty",
            "put the server's command after `--`",
        ));
    }
    if name.as_bytes().contains(&b'/') {
        return examine(&context.absolute(name)).map_err(|unusable| refuse(context, &unusable));
    }
    let mut first = None;
    for directory in context.list(context.ask.path.as_os_str()) {
        if except.contains(&directory) {
            continue;
        }
        match examine(&directory.join(name)) {
            Ok(executable) => return Ok(executable),
            Err(Unusable::Lost(lost)) if lost.is_absent() => {}
            Err(unusable) => first = first.or(Some(unusable)),
        }
    }
    Err(match first {
        // A directory that may not be searched does not say what it holds.
        Some(Unusable::Lost(lost @ Lost::Closed { .. })) => context.refuse(
            format!(
                "no directory of `PATH` that can be searched has `{}`, and {lost}",
                name.display()
            ),
            format!("if it lies there: {}", lost.hint()),
        ),
        Some(unusable) => refuse(context, &unusable),
        None => not_found(context, name),
    })
}

fn examine(path: &Path) -> Result<Executable, Unusable> {
    let found = walk::follow(path).map_err(Unusable::Lost)?;
    if found.metadata.is_dir() {
        return Err(Unusable::Directory(show(path)));
    }
    if !found.metadata.is_file() {
        return Err(Unusable::Special(show(path)));
    }
    if !may_execute(&found.real) {
        let uid = nix::unistd::geteuid().as_raw();
        return Err(Unusable::NotExecutable {
            path: show(&found.real),
            uid,
        });
    }
    let path = if is_plain(path) {
        path.components().collect()
    } else {
        behind_real_parent(path, &found)
    };
    Ok(Executable { path, found })
}

/// `a/../b/python` as a path that needs no `a` in the view, its last component kept for `pyvenv.cfg`.
fn behind_real_parent(path: &Path, found: &Found) -> PathBuf {
    let parent = path.parent().and_then(|parent| walk::follow(parent).ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.real.join(name),
        _ => found.real.clone(),
    }
}

pub(super) fn may_execute(path: &Path) -> bool {
    faccessat(AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok()
}

fn refuse(context: &Context<'_>, unusable: &Unusable) -> Refusal {
    let hint = match unusable {
        Unusable::Lost(lost) => lost.hint(),
        Unusable::Directory(_) | Unusable::Special(_) => "name the program file itself".into(),
        Unusable::NotExecutable { path, .. } => {
            format!("make it executable (`chmod +x {path}`), or name its interpreter in front of it")
        }
    };
    context.refuse(unusable.to_string(), hint)
}

fn not_found(context: &Context<'_>, name: &OsStr) -> Refusal {
    let elsewhere = suggestions(context, name);
    let hint = match elsewhere.as_slice() {
        [] => "install it, extend `PATH`, or name it by its full path".to_owned(),
        places => {
            let list: Vec<String> = places.iter().map(|place| format!("`{}`", show(place))).collect();
            format!("name it by its full path; there is {}", list.join(", "))
        }
    };
    let path = context.ask.path.to_string();
    context.refuse(
        format!("`{}` is in no directory of `PATH` ({path})", name.display()),
        hint,
    )
}

/// Where version managers put programs that a service's `PATH` does not name.
fn suggestions(context: &Context<'_>, name: &OsStr) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = ["/usr/local/bin", "/usr/bin", "/snap/bin"]
        .map(PathBuf::from)
        .into();
    if let Some(home) = &context.home {
        directories
            .extend([".local/bin", ".cargo/bin", ".pyenv/shims", ".volta/bin"].map(|part| home.join(part)));
        for versions in [".nvm/versions/node", ".pyenv/versions"] {
            let entries = fs::read_dir(home.join(versions)).into_iter().flatten().flatten();
            directories.extend(entries.map(|entry| entry.path().join("bin")));
        }
    }
    let mut places: Vec<PathBuf> = directories
        .into_iter()
        .map(|directory| directory.join(name))
        .filter(|path| examine(path).is_ok())
        .collect();
    places.sort();
    places.truncate(6);
    places
}
