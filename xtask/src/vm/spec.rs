//! What the host tells the guest's init, and what the init answers. Both programs compile this file.

use serde::{Deserialize, Serialize};

/// Where the init finds its [`Spec`] in the initramfs.
pub(crate) const SPEC_PATH: &str = "/.vm/spec.json";
/// First entry of the tar archive the init writes to the disk with serial [`OUT_SERIAL`].
pub(crate) const VERDICT_NAME: &str = "verdict.json";
/// Folder of that archive that holds what the case left in `/out`.
pub(crate) const FILES_NAME: &str = "out";
/// Serial of the disk the archive is written to, raw.
pub(crate) const OUT_SERIAL: &str = "out";
/// Serial of the ext4 disk that is mounted at `/disk`.
pub(crate) const DATA_SERIAL: &str = "data";
/// Console lines of the init itself start with this.
pub(crate) const MARK: &str = "@vm ";
/// What follows the mark when the case is about to start.
pub(crate) const MARK_CASE: &str = "case";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Module files, in the order they are loaded.
    pub(crate) modules: Vec<String>,
    /// Seconds the case may take before everything but the init is killed.
    pub(crate) timeout_s: u64,
    /// Whether there is an ext4 disk to mount at `/disk`.
    pub(crate) disk: bool,
    /// Directories over which an empty one is mounted: what a host hides or lacks.
    #[serde(default)]
    pub(crate) hide: Vec<String>,
}

/// How the case ended, as the guest saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Exit(i32),
    Signal(i32),
    Timeout(u64),
    /// The case did not start, or its files could not be brought back.
    Setup(String),
}
