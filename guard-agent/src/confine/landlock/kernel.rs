//! What Landlock the kernel has, and what it lacks.

use std::{fmt, io};

use super::Settings;
use crate::sys::landlock as sys;

/// Why there is no Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    NotBuilt,
    NotEnabled,
    /// Something around us (another seccomp filter) answers for the kernel.
    Refused(i32),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => f.write_str(
                "the kernel was built without it (older than 5.13, or `CONFIG_SECURITY_LANDLOCK` off)",
            ),
            Self::NotEnabled => f.write_str("it is not among the kernel's `lsm=` modules"),
            Self::Refused(errno) => {
                write!(
                    f,
                    "the kernel does not answer: {}",
                    io::Error::from_raw_os_error(*errno)
                )
            }
        }
    }
}

/// What the kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LandlockProbe {
    pub abi: u32,
    /// A bit for each fixed erratum, where the kernel can tell.
    pub errata: Option<u32>,
}

/// Asks the kernel by system call.
pub fn probe() -> Result<LandlockProbe, Absence> {
    let abi = sys::abi().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS) => Absence::NotBuilt,
        Some(libc::EOPNOTSUPP) => Absence::NotEnabled,
        other => Absence::Refused(other.unwrap_or_default()),
    })?;
    Ok(LandlockProbe {
        abi,
        errata: sys::errata().ok(),
    })
}

/// Something asked for that this kernel cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    pub what: &'static str,
    /// The ABI that brings it.
    pub since: u32,
    pub why: &'static str,
}

/// What is in force after `restrict`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockState {
    /// The kernel's ABI.
    pub abi: u32,
    /// File rights taken away (and given back by rules), by the kernel's bits.
    pub handled_fs: u64,
    /// Network rights taken away.
    pub handled_net: u64,
    /// Abstract unix sockets and signals end at the sandbox's edge.
    pub scopes: bool,
    /// What was asked and is not in force.
    pub missing: Vec<Missing>,
}

impl LandlockState {
    /// Whether every file right there is today is in force.
    pub fn fs_complete(&self) -> bool {
        !self.missing.iter().any(|missing| FS_RIGHTS.contains(missing))
    }
}

const FS_RIGHTS: [Missing; 4] = [
    Missing {
        what: "moving between directories",
        since: 2,
        why: "it is refused everywhere, inside writable roots too",
    },
    Missing {
        what: "truncation",
        since: 3,
        why: "read-only mounts alone keep files outside writable roots from being emptied",
    },
    Missing {
        what: "device control",
        since: 5,
        why: "every open device takes any request that seccomp lets pass",
    },
    Missing {
        what: "unix sockets by path",
        since: 9,
        why: "sockets outside the roots can be reached where the view shows them",
    },
];
const SCOPES: Missing = Missing {
    what: "scopes",
    since: 6,
    why: "abstract unix sockets and signals are bounded by namespaces alone",
};
const TCP: Missing = Missing {
    what: "TCP",
    since: 4,
    why: "binding and connecting is not Landlock's to refuse",
};
const UDP: Missing = Missing {
    what: "UDP",
    since: 10,
    why: "datagrams are not Landlock's to refuse",
};

pub(super) fn missing(abi: u32, settings: Settings) -> Vec<Missing> {
    let network = [TCP, UDP].into_iter().filter(|_| settings.network);
    FS_RIGHTS
        .into_iter()
        .chain([SCOPES])
        .chain(network)
        .filter(|missing| missing.since > abi)
        .collect()
}
