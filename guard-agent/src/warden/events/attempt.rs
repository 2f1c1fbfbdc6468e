//! One attempt of a sandboxed process, normalised: what makes it the same as another one, and its record.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::in_flight::During;
use crate::{
    audit::{Decision, Kernel, Layer},
    warden::kernel::{KernelPath, Origin},
};

/// Bytes as the program gave them, and whether they are all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Given {
    pub(super) bytes: Vec<u8>,
    pub(super) complete: bool,
}

impl Given {
    pub(super) fn is_relative(&self) -> bool {
        self.bytes.first() != Some(&b'/')
    }
}

/// Everything that makes two attempts the same: what was tried, what came of it, and in which calls, not who
/// and when. Made by moving what the event had, so that a repeated attempt costs no memory.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Net {
        op: u16,
        family: u16,
        kind: u32,
        protocol: u32,
        reason: u16,
        errno: u16,
        to: To,
        during: During,
    },
    Call {
        nr: u32,
        errno: u16,
        /// Those that matter, see `calls::telling`.
        args: [u64; 6],
        first: Option<Given>,
        second: Option<Given>,
        to: Option<std::net::SocketAddr>,
        /// The process, where the meaning of a path depends on it; else 0.
        process: u32,
        during: During,
    },
    Exec {
        filename: Given,
        interpreter: Option<Given>,
        dev: u64,
        ino: u64,
        nlink: u32,
        during: During,
    },
    Verdict {
        /// Its number.
        hook: u16,
        reason: Option<&'static str>,
        errno: u16,
        needs: u32,
        found: u32,
        dev: Option<u64>,
        ino: Option<u64>,
        detail: u64,
        names: Option<KernelPath>,
        during: During,
    },
    /// A call that waited for the warden's answer.
    Refused { nr: i32, args: [u64; 6], during: During },
}

/// The other end of a network operation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum To {
    Internet(std::net::SocketAddr),
    Unix(Vec<u8>),
    Nowhere,
}

impl Key {
    /// Whether it counts among what was allowed.
    pub(super) fn allowed(&self) -> bool {
        matches!(self, Self::Exec { .. } | Self::Call { errno: 0, .. })
    }

    pub(super) fn during(&self) -> &During {
        match self {
            Self::Net { during, .. }
            | Self::Call { during, .. }
            | Self::Exec { during, .. }
            | Self::Verdict { during, .. }
            | Self::Refused { during, .. } => during,
        }
    }
}

/// Who made the attempt.
#[derive(Debug, Clone)]
pub(super) struct Who {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// In which calls.
    pub(super) during: During,
}

impl Who {
    pub(super) fn of(origin: &Origin, during: During) -> Self {
        Self {
            pid: origin.pid,
            tid: origin.tid,
            during,
        }
    }
}

/// A record that tells only who, what and whose decision. The ledger adds session and server.
pub(super) fn blank(op: Cow<'static, str>, decision: Decision, layer: Layer, who: &Who) -> Kernel {
    Kernel {
        session: String::new(),
        server: String::new(),
        op: op.into_owned(),
        decision,
        layer,
        reason: None,
        path: None,
        path2: None,
        path_source: None,
        path_complete: None,
        dev: None,
        ino: None,
        nlink: None,
        rights: None,
        address: None,
        port: None,
        family: None,
        detail: None,
        pid: who.pid,
        tid: who.tid,
        exe: None,
        errno: None,
        calls: who.during.names(),
        attribution: who.during.attribution,
        repeat: None,
    }
}
