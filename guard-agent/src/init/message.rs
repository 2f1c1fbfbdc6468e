//! What warden and init say to each other over init's one socket.

use serde::{Deserialize, Serialize};

use crate::{
    config::rights::Rights,
    link::message::View,
    octets::Octets,
    runtime::{Culprit, Link},
    sys::mount::Attributes,
};

/// What stands around a sandbox besides Landlock and seccomp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// Namespaces that root made, and a cgroup (tier T2).
    Machine,
    /// Namespaces that belong to a user namespace of the sandbox's own (tier T3).
    UserNamespace,
    /// Nothing: the caller's own namespaces (tier T3).
    Bare,
}

/// Where init finds an object again that the warden opened and may not clone itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// On the host, without a symbolic link in it.
    pub path: Octets,
    pub attributes: Attributes,
    pub recursive: bool,
}

/// One mount, in the order of the descriptors that follow. Without a source the descriptor is its detached tree,
/// otherwise the object itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountPoint {
    pub path: Octets,
    pub is_directory: bool,
    /// What Landlock allows beneath it. `None`: whatever an outer rule says (a pinned directory).
    pub rights: Option<Rights>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// The ids the child runs with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// Everything init needs; the mounts' descriptors and the child's stdin, stdout and stderr follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub ground: Ground,
    /// An empty directory of the host on which the new root is built.
    pub scaffold: Octets,
    pub view: View,
    pub mounts: Vec<MountPoint>,
    pub links: Vec<Link>,
    /// Small files made for the view: `/etc/passwd` and the like.
    pub files: Vec<(Octets, String)>,
    pub home: Option<Octets>,
    pub tmp_bytes: u64,
    pub ids: Ids,
    pub program: Octets,
    pub argv: Vec<Octets>,
    pub environment: Vec<(Octets, Octets)>,
    /// Working directories to try, in order.
    pub directories: Vec<Octets>,
    /// How many processes the uid may have, where no cgroup limit holds and no other process has that uid.
    pub processes: Option<u64>,
    /// Whether the kernel's cgroup hooks see IPv4 and IPv6 sockets; without them seccomp refuses to make any.
    pub inet_sockets: bool,
    /// The same of unix sockets.
    pub unix_sockets: bool,
    /// A directory of the host for temporary files, where the sandbox has no `/tmp` of its own.
    pub scratch: Option<Octets>,
}

impl Setup {
    /// How many descriptors belong to it: the mounts', the host's tree, stdin, stdout and stderr.
    pub fn descriptors(&self) -> usize {
        self.mounts.len() + usize::from(self.ground == Ground::Machine && self.view == View::Host) + 3
    }
}

/// Warden → init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum ToInit {
    Setup(Box<Setup>),
    /// Up to 64 descriptors, continuing the list of the setup.
    Descriptors,
    /// Everything was verified: start the child.
    Release,
    /// SIGTERM to the child.
    Terminate,
}

/// Init → warden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum FromInit {
    /// With it comes the seccomp listener.
    Listener,
    Ready(Confinement),
    Failed {
        step: String,
        error: String,
    },
    Started,
    /// The program could not be executed.
    NotExecuted(Culprit),
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
}

/// What init put in force, layer by layer, as it found it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The Landlock ABI in use; 0 when Landlock is not in force.
    pub landlock_abi: u32,
    /// Landlock rights or scopes that this kernel lacks, and what follows.
    pub landlock_missing: Vec<String>,
    pub landlock_scopes: bool,
    /// `vm.memfd_noexec` of the sandbox's pid namespace reads 2.
    pub memfd_noexec: bool,
    /// Signals end at the sandbox's edge: by its pid namespace, or seen to end there by Landlock.
    pub signals_bounded: bool,
    /// What the view lacks that servers may miss, and why.
    pub notes: Vec<String>,
    /// The working directory taken.
    pub directory: Octets,
}
