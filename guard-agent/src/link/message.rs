//! The messages. A change of any of them is a new `VERSION`.

use serde::{Deserialize, Serialize};

use crate::{
    config::rights::Rights,
    octets::Octets,
    proof::Tier,
    refusal::Refusal,
    runtime::{Runtime, RuntimeKind},
};

/// Both sides must speak the same one.
pub const VERSION: u32 = 5;

/// Which host tree a sandbox sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Only roots and the runtime exist.
    Private,
    /// The host's tree, read-only; Landlock decides what of it opens.
    Host,
}

/// What is done when the denials of a sandbox exceed the budget of their records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverBudget {
    /// They are counted.
    #[default]
    Count,
    /// The sandbox is frozen, too.
    Quarantine,
}

/// What client and server speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The Model Context Protocol: every message is checked.
    #[default]
    Mcp,
    /// Something else: bytes pass as they are, and the sandbox alone holds.
    None,
}

/// How long one sandbox of a session lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Isolation {
    /// As long as the session.
    #[default]
    Session,
    /// For one call: the session is a plan, of which the gateway asks for one sandbox after the other.
    Call {
        /// The longest a call may take.
        limit_ms: u64,
    },
}

/// A group of rights that layers enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Facet {
    Fs,
    Net,
    Exec,
    Ipc,
    Resources,
}

/// Who the child runs as. Never uid 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum User {
    /// An account of this machine.
    Account {
        name: String,
        uid: u32,
        gid: u32,
        groups: Vec<u32>,
        home: Octets,
    },
    /// An unprivileged uid that no account has; the warden picks one that no live sandbox has.
    Dynamic,
}

/// A directory or file the child may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Absolute, lexically clean. Symbolic links among its ancestors are resolved once by the warden.
    pub path: Octets,
    pub rights: Rights,
}

/// Ceilings of the sandbox's cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory, swap included.
    pub memory: u64,
    /// Per cent of one processor.
    pub cpu_percent: u32,
    pub pids: u32,
    /// Size of the sandbox's own /tmp (and of its other private trees), bytes.
    pub tmp: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 512 << 20,
            cpu_percent: 100,
            pids: 64,
            tmp: 64 << 20,
        }
    }
}

/// Everything the warden needs to build one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// Name for records and log lines.
    pub server: String,
    pub runtime: Runtime,
    /// What `--runtime` said.
    pub runtime_asked: RuntimeKind,
    /// The child's whole environment.
    pub environment: Vec<(Octets, Octets)>,
    /// The child's working directory: used when it exists in the view, else the first root, else `/`.
    pub directory: Octets,
    pub roots: Vec<Root>,
    /// Protected names (such as `.git/hooks`) that the policy frees.
    pub free_names: Vec<String>,
    pub user: User,
    pub view: View,
    /// Whether somebody asked for that view: then there is no other.
    pub view_asked: bool,
    pub limits: Limits,
    /// Facets that must be enforced, else no launch.
    pub require: Vec<Facet>,
    /// Launch even when a required facet is not enforced; recorded.
    pub allow_unenforced: bool,
    /// The audit directory, absolute.
    pub audit: Octets,
    /// `sha256:` of the policy file's bytes, or of the resolved command line.
    pub policy_hash: String,
    /// Whether calls on files, programs and processes are observed.
    pub observe: bool,
    pub over_budget: OverBudget,
    /// The tier that was insisted on: that one, or no launch.
    pub tier: Option<Tier>,
    pub isolation: Isolation,
    /// With MCP the gateway tells of calls, if there is one sandbox. Otherwise it is for the record.
    pub protocol: Protocol,
    /// Tools have rights of their own, which only tier T1 enforces.
    pub tool_rights: bool,
}

/// Gateway (or `run`) → warden. One message a datagram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum ToWarden {
    Hello {
        link: u32,
        build: String,
    },
    /// Once a connection: a compromised gateway cannot ask for another plan. With `Isolation::Session` it is the launch
    /// of the one sandbox.
    Launch(Box<LaunchRequest>),
    /// With `Isolation::Call`: a sandbox of the plan for this call. Its number is higher than all before it in this session;
    /// it is all the gateway can say.
    Call {
        call: u64,
    },
    /// SIGTERM to the child. With `Isolation::Call` it is meant for the call that runs; when none does it comes too late.
    Terminate,
    /// End the sandbox now. The same.
    Kill,
    /// The answer to `Ending`: the end of what the server wrote to stderr. Recorded as what it is, a claim.
    LastWords {
        stderr: Octets,
    },
}

/// Warden → gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum FromWarden {
    Welcome {
        link: u32,
        build: String,
        /// Device and inode of the warden's mount namespace.
        files: (u64, u64),
    },
    Refused(Refusal),
    /// The child runs. With it come descriptors: its stdin (write), stdout and stderr (read); with `tells_calls` the
    /// socket for that; and where eBPF programs are in force its call stamp, to be mapped.
    Launched(Launched),
    /// With `Isolation::Call`: what a launch needs is held, and calls may come.
    Planned(Planned),
    /// As `Launched`, for one call.
    Called {
        call: u64,
        launched: Launched,
    },
    /// There is no sandbox for this call; the session goes on.
    CallRefused {
        call: u64,
        refusal: Refusal,
    },
    /// Nothing of this call's sandbox is left, and its end is on record.
    CallEnded {
        call: u64,
        exited: Exited,
    },
    /// The sandbox is dead; its end is about to be recorded.
    Ending,
    /// The sandbox is frozen: nothing in it runs any more until it is killed.
    Quarantined {
        /// In words for the operator.
        why: String,
    },
    Exited(Exited),
}

/// A session whose sandboxes are launched call by call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub session: String,
    /// As in [`Launched`].
    pub gateway_uid: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    pub session: String,
    pub tier: String,
    /// What is not enforced, a line each, to be shown to the operator.
    pub not_enforced: Vec<String>,
    /// Why files, programs and processes are not observed, when they are not.
    pub not_observed: Option<String>,
    /// What else the operator should know, a line each.
    pub notes: Vec<String>,
    /// The uid (and gid) the gateway must take before it reads a byte of the client; without root it has none. A gateway
    /// that has taken one keeps it.
    pub gateway_uid: Option<u32>,
    /// Each call is to be told, see [`super::told`].
    pub tells_calls: bool,
}

/// How the child ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// `exited`, `signaled`, `out-of-memory`, `killed`, `init-died`, …
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Who ended it and why, when it was one of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Of a server that failed: the last paths it was refused, the latest at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedPath>,
}

/// Bytes of a server's stderr that are kept for its end.
pub const STDERR_TAIL: usize = 4 << 10;

/// A path that a server was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedPath {
    pub path: Octets,
    /// As records name it.
    pub op: String,
    pub errno: Option<String>,
    /// What it would have needed.
    pub rights: Rights,
    /// What of it is there outside of the sandbox: the object itself, its links followed, or, when it is to be made,
    /// the ancestor it would lie in. `None`: not known.
    pub exists: Option<Octets>,
    /// It is not there; `exists` is an ancestor.
    pub absent: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the form of the messages cannot express is found here and not in a session.
    #[test]
    fn the_end_of_a_session_survives_the_link() {
        let refused = RefusedPath {
            path: Octets(b"/srv/\xff".to_vec()),
            op: "open".into(),
            errno: Some("ENOENT".into()),
            rights: Rights::RW,
            exists: Some("/srv".into()),
            absent: true,
        };
        let exited = FromWarden::Exited(Exited {
            reason: "exited".into(),
            code: Some(1),
            signal: None,
            cause: None,
            refused: vec![refused],
        });
        for message in [FromWarden::Ending, exited] {
            let text = serde_json::to_string(&message).unwrap();
            assert_eq!(serde_json::from_str::<FromWarden>(&text).unwrap(), message);
        }
        let words = ToWarden::LastWords {
            stderr: Octets(b"a\xff".to_vec()),
        };
        let text = serde_json::to_string(&words).unwrap();
        assert_eq!(serde_json::from_str::<ToWarden>(&text).unwrap(), words);
    }
}
