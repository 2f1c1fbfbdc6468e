//! The question in typed form, and how a refusal about it is worded.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use super::{
    Ask,
    walk::{Lost, show},
};
use crate::{octets::Octets, refusal::Refusal};

pub(super) struct Context<'a> {
    pub(super) ask: &'a Ask,
    pub(super) directory: PathBuf,
    pub(super) home: Option<PathBuf>,
}

impl<'a> Context<'a> {
    pub(super) fn new(ask: &'a Ask) -> Result<Self, Refusal> {
        let directory = ask.directory.to_path_buf();
        if !directory.is_absolute() {
            return Err(Refusal::internal(
                "cannot resolve the command",
                format!("the working directory `{}` is not absolute", show(&directory)),
                "report this: it is an error of guard-agent",
            ));
        }
        let home = ask
            .environment
            .get("HOME")
            .map(Octets::to_path_buf)
            .filter(|home| home.is_absolute());
        Ok(Self { ask, directory, home })
    }

    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.ask
            .environment
            .get(name)
            .map(Octets::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// An absolute path for what was typed, against the working directory.
    pub(super) fn absolute(&self, typed: &OsStr) -> PathBuf {
        self.directory.join(typed)
    }

    /// The directories of a `PATH`-like list; an empty entry is the working directory.
    pub(super) fn list(&self, list: &OsStr) -> Vec<PathBuf> {
        std::env::split_paths(list)
            .map(|entry| self.directory.join(entry))
            .collect()
    }

    pub(super) fn command_name(&self) -> String {
        self.ask
            .command
            .first()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// "cannot start `node`": the one `what` of everything that is wrong with the executable.
    pub(super) fn refuse(&self, why: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal::usage(format!("cannot start `{}`", self.command_name()), why, hint)
    }

    pub(super) fn lost(&self, lost: &Lost) -> Refusal {
        self.refuse(lost.to_string(), lost.hint())
    }

    /// A file that can be seen but not read.
    pub(super) fn unreadable(&self, path: &Path, error: &std::io::Error) -> Refusal {
        let uid = nix::unistd::geteuid();
        self.refuse(
            format!("`{}` cannot be read as uid {uid}: {error}", show(path)),
            format!("let uid {uid} read it, or name another user with `--user`"),
        )
    }
}

/// Whether a path means the same when its symbolic links are not looked at.
pub(super) fn is_plain(path: &Path) -> bool {
    path.components().all(|part| {
        matches!(
            part,
            std::path::Component::RootDir | std::path::Component::Normal(_)
        )
    })
}

/// A file name as text, lossless for comparison with ASCII names.
pub(super) fn name_of(path: &Path) -> OsString {
    path.file_name().unwrap_or_default().to_owned()
}
