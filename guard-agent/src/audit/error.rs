//! What can go wrong with a trail, and what a person can do about it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::refusal::{Refusal, chain};

/// The audit cannot be used, or a record was not written. Whoever gets one refuses what the record was about.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuditError {
    #[error("cannot use audit directory `{}`: {why}", path.display())]
    Directory {
        path: PathBuf,
        why: String,
        hint: String,
    },
    #[error("audit directory `{}` has a writer already{}", path.display(), holder(*pid))]
    Locked { path: PathBuf, pid: Option<i32> },
    #[error("cannot {action} `{}`", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: Arc<io::Error>,
    },
    #[error("audit segment `{}` is damaged at line {line}{}: {reason}", segment.display(), at(*seq))]
    Damaged {
        segment: PathBuf,
        line: u64,
        seq: Option<u64>,
        reason: String,
    },
    #[error("cannot use audit key `{}`: {why}", path.display())]
    Key { path: PathBuf, why: String },
    #[error(
        "a record of {bytes} bytes is longer than the {} a record may have",
        super::MAX_RECORD
    )]
    TooLarge { bytes: usize },
    #[error("cannot write the record as JSON: {0}")]
    Encode(String),
    #[error("the audit writer has ended")]
    Closed,
}

fn holder(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

fn at(seq: Option<u64>) -> String {
    seq.map(|seq| format!(" (record {seq})")).unwrap_or_default()
}

impl AuditError {
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            path: path.into(),
            source: Arc::new(source.into()),
        }
    }

    pub(super) fn directory(path: &Path, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Directory {
            path: path.to_owned(),
            why: why.into(),
            hint: hint.into(),
        }
    }

    /// What a person is told when the audit stands in the way of a launch.
    pub fn refusal(&self) -> Refusal {
        let what = "cannot use the audit trail";
        match self {
            Self::Directory { hint, .. } => Refusal::usage(what, chain(self), hint),
            Self::Locked { .. } => Refusal::usage(
                what,
                chain(self),
                "give this run a directory of its own with `--audit`, or end the process that has it",
            ),
            Self::Io { source, .. } if full(source) => Refusal::internal(
                what,
                chain(self),
                "make room there, or name another directory with `--audit`",
            ),
            Self::Io { source, .. } if denied(source) => {
                Refusal::usage(what, chain(self), "name a directory you may write with `--audit`")
            }
            Self::Io { .. } => Refusal::internal(
                what,
                chain(self),
                "look at the disk, or name another directory with `--audit`",
            ),
            Self::Damaged { .. } => Refusal::internal(
                what,
                chain(self),
                "run `guard-agent audit verify`, keep the directory as evidence, and start a new one with `--audit`",
            ),
            Self::Key { .. } => Refusal::internal(
                what,
                chain(self),
                "restore the key file, or keep the directory as it is and start a new one with `--audit`",
            ),
            Self::TooLarge { .. } | Self::Encode(_) | Self::Closed => Refusal::internal(
                "cannot write an audit record",
                chain(self),
                "report this; nothing was let through",
            ),
        }
    }
}

fn full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn denied(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound
    )
}
