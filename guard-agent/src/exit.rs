//! Exit statuses of every command, a contract (see `docs/commands.md`).

use serde::{Deserialize, Serialize};

/// What the process tells whoever started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitStatus {
    /// Done.
    Ok = 0,
    /// The thing asked about failed: denied, not verified, the server ended with an error.
    Failed = 1,
    /// Usage or configuration.
    Usage = 2,
    /// Enforcement not available on this machine.
    NotEnforced = 3,
    /// A fault of ours, or of the machine under us.
    Internal = 4,
}

impl From<ExitStatus> for std::process::ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}
