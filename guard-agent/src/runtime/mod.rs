//! What an executable needs to run: its loader, libraries, and its runtime's own trees.

use serde::{Deserialize, Serialize};

use crate::octets::Octets;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub path: Octets,
    pub target: Octets,
}

/// The resolved command: what is executed and what that needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    pub kind: RuntimeKind,
    /// The path given to `execve`: absolute, may go through `links` (a virtual environment's `python` must).
    pub program: Octets,
    /// The whole argument vector, `argv[0]` first.
    pub argv: Vec<Octets>,
    pub grants: Vec<Grant>,
    pub links: Vec<Link>,
    /// Environment variables that this runtime's users rely on and that carry no secret.
    pub environment: Vec<String>,
}
