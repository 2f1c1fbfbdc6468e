//! Which tier the agent under test gets: `GUARD_TEST_TIER` is `T2` (default), `T3`, or `T3-bare`, where ordinary
//! users have no user namespaces.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::require::Leg;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Started by root.
    T2,
    /// Started by an ordinary user.
    T3,
    /// The same on a machine that gives ordinary users no user namespaces.
    T3Bare,
}

impl Tier {
    /// # Errors
    /// When the variable names no tier.
    pub fn current() -> Result<Self> {
        match std::env::var("GUARD_TEST_TIER").as_deref() {
            Err(_) | Ok("T2") => Ok(Self::T2),
            Ok("T3") => Ok(Self::T3),
            Ok("T3-bare") => Ok(Self::T3Bare),
            Ok(other) => bail!("`GUARD_TEST_TIER`: no tier `{other}`"),
        }
    }

    #[must_use]
    pub fn is_root(self) -> bool {
        self == Self::T2
    }

    /// The views a server can have.
    #[must_use]
    pub fn views(self) -> &'static [&'static str] {
        match self {
            Self::T2 | Self::T3 => &["private", "host"],
            Self::T3Bare => &["host"],
        }
    }

    /// The record that a refusal leaves here, when root's programs would leave `(op, layer)`.
    #[must_use]
    pub fn record(self, op: &str, layer: &str) -> (String, String) {
        if !self.is_root() && layer == "cgroup-bpf" {
            // There is no program to see an address: the socket is refused.
            return ("socket".to_owned(), "seccomp".to_owned());
        }
        (op.to_owned(), layer.to_owned())
    }
}

/// Takes user namespaces from the ordinary users of this machine, where it is one of a test's own. On a shared
/// one what starts the agent does, for that process alone (`guard-around user-namespaces`).
///
/// # Errors
/// When the setting cannot be made.
pub fn deny_user_namespaces() -> Result<()> {
    if !machine_is_ours()? {
        return Ok(());
    }
    let debian = Path::new("/proc/sys/kernel/unprivileged_userns_clone");
    let (knob, value) = if debian.exists() {
        (debian, "0")
    } else {
        (Path::new("/proc/sys/user/max_user_namespaces"), "0")
    };
    fs::write(knob, value).with_context(|| format!("failed to write `{}`", knob.display()))
}

/// A virtual machine of `cargo xtask vm`.
///
/// # Errors
/// When the leg is unknown.
pub fn machine_is_ours() -> Result<bool> {
    Ok(Leg::current()?.name.starts_with("vm-"))
}

/// Whether every user can start this program.
#[must_use]
pub fn everybody_reaches(program: &Path) -> bool {
    let open = |path: &Path, bits| fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & bits == bits);
    open(program, 0o005) && program.ancestors().skip(1).all(|path| open(path, 0o001))
}
