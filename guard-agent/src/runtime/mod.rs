//! What an executable needs to run: its loader, libraries, and its runtime's own trees.
//!
//! [`resolve`] only reads. It runs in a short-lived process that already has the target user's
//! credentials, so that what it cannot reach is exactly what the server could not reach either.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{config::rights::Rights, octets::Octets, refusal::Refusal};

mod collect;
mod context;
mod culprit;
mod elf;
mod extensions;
mod libraries;
mod lookup;
mod node;
mod options;
mod packages;
mod project;
mod pyenv;
mod python;
mod resolve;
mod runners;
mod script;
mod walk;

#[cfg(test)]
mod tests;

pub use culprit::Culprit;

/// `--runtime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeKind {
    Auto,
    Node,
    Python,
    Static,
}

/// A file or tree the runtime needs, read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Absolute, no symbolic link in it.
    pub path: Octets,
    /// May be executed (`execve`): the program itself and its ELF loader.
    pub exec: bool,
    /// Holds code that is mapped executable: libraries, native add-ons.
    pub map: bool,
    /// Why it is there, for the launch record and errors: "library of `/usr/bin/node`".
    pub reason: String,
}

/// A symbolic link that must exist in a private view so that the paths people use lead to the grants.
///
/// `path` has no symbolic link among its parents; `target` is the link's own text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub path: Octets,
    pub target: Octets,
}

/// The resolved command: what is executed and what that needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// `Auto` for an executable that is none of the others.
    pub kind: RuntimeKind,
    /// The path given to `execve`: absolute, may go through `links` (a virtual environment's `python` must).
    pub program: Octets,
    /// The whole argument vector, `argv[0]` first.
    pub argv: Vec<Octets>,
    /// Sorted by path; none lies inside another that gives as much.
    pub grants: Vec<Grant>,
    pub links: Vec<Link>,
    /// Environment variables that this runtime's users rely on and that carry no secret.
    pub environment: Vec<String>,
    /// What was left out on purpose or could not be found, for the operator: one line each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What `resolve` is asked: a command as typed, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ask {
    /// The command as typed, its name first.
    pub command: Vec<Octets>,
    pub kind: RuntimeKind,
    /// `PATH` of the caller.
    pub path: Octets,
    /// The working directory, absolute.
    pub directory: Octets,
    /// Values of the names in [`LOOKUPS`], as far as the caller has them.
    pub environment: BTreeMap<String, Octets>,
    /// The roots of this launch: links inside them exist already.
    pub roots: Vec<(Octets, Rights)>,
}

/// Environment variables that decide what a runtime loads: the caller of [`resolve`] passes their values on.
pub const LOOKUPS: &[&str] = &[
    "HOME",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PYENV_VERSION",
    "PYTHONPATH",
    "PYTHONUSERBASE",
];

/// Finds the executable behind a command and all that it needs in a view where nothing else exists.
pub fn resolve(ask: &Ask) -> Result<Runtime, Refusal> {
    resolve::resolve(ask)
}
