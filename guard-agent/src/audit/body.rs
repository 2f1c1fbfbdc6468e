//! The bodies of the records: field names are a contract, `docs/audit.md` lists them.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::number::Number;
use crate::{
    config::rights::Rights,
    link::message::{Facet, Limits, OverBudget, Protocol, View},
    octets::Octets,
};

/// A server was started (written before its first instruction).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub session: String,
    /// The one call this sandbox is for, by the name that `calls` of its kernel records has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    pub server: String,
    /// The whole argument vector.
    pub command: Vec<Octets>,
    pub user: LaunchUser,
    pub tier: String,
    pub enforcement: BTreeMap<Facet, Enforcement>,
    /// Facets without which there would have been no launch.
    pub require: Vec<Facet>,
    /// The operator let it start although a required facet is not enforced.
    pub allow_unenforced: bool,
    pub policy_hash: String,
    pub roots: Vec<LaunchRoot>,
    /// Names inside writable roots that stay read-only.
    pub protected: Vec<Octets>,
    /// Names of the variables the child has. Values are never recorded.
    pub environment: Vec<Octets>,
    pub view: View,
    pub limits: LaunchLimits,
    pub resources: ResourcesReport,
    /// What reports kernel events: `none`, `tracepoints`, `cgroup-bpf`, `seccomp`, joined by `+`.
    pub observation: String,
    /// Why files, programs and processes are not observed, when they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation_missing: Option<String>,
    /// What is done when the denials of this server exceed their budget.
    #[serde(default)]
    pub over_budget: OverBudget,
    /// Whether messages are checked.
    #[serde(default)]
    pub protocol: Protocol,
    /// Where tools have rights of their own: whether they are enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_rights: Option<bool>,
    pub kernel_release: String,
    /// 0: the kernel has no Landlock.
    pub landlock_abi: u32,
    /// How many files and trees the runtime was given beside the roots.
    pub grants: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchUser {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub uid: u32,
    pub gid: u32,
    /// A uid no account has, used by this session alone.
    pub dynamic: bool,
}

/// One mechanism that enforces a facet.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    BpfLsm,
    Landlock,
    Seccomp,
    CgroupBpf,
    View,
    Namespaces,
    CgroupLimits,
    Rlimits,
    Unknown,
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Self::BpfLsm => "bpf-lsm",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::CgroupBpf => "cgroup-bpf",
            Self::View => "view",
            Self::Namespaces => "namespaces",
            Self::CgroupLimits => "cgroup-limits",
            Self::Rlimits => "rlimits",
            Self::Unknown => "unknown",
        }
    }
}
impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What holds a facet in this launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// In force, verified from outside.
    pub layers: Vec<Layer>,
    /// Not in force, and why.
    pub missing: Vec<Missing>,
    /// `passed`, or what an attack on the facet got through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_test: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub layer: Layer,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRoot {
    /// As it was asked for.
    pub path: Octets,
    /// As it is after symbolic links among its ancestors, when that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Octets>,
    pub rights: Rights,
    pub dev: Number,
    pub ino: Number,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchLimits {
    pub memory: Number,
    pub cpu_percent: u32,
    pub pids: u32,
    pub tmp: Number,
}

impl From<&Limits> for LaunchLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            memory: limits.memory.into(),
            cpu_percent: limits.cpu_percent,
            pids: limits.pids,
            tmp: limits.tmp.into(),
        }
    }
}

/// Which of the limits hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourcesReport {
    pub enforced: Vec<String>,
    pub not_enforced: Vec<NotEnforced>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotEnforced {
    pub limit: String,
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Allow,
    Deny,
}

impl Decision {
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// Where the text of `path` comes from: user memory can change under the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathSource {
    Kernel,
    UserMemory,
}

/// How surely an event belongs to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribution {
    Exact,
    /// One call was in flight.
    Sole,
    /// Several were.
    OneOf,
    /// None was.
    Idle,
    /// Which calls were in flight is not known.
    Unknown,
}

/// A value of `detail`. No fractions: see `docs/audit.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Field {
    Flag(bool),
    Signed(i32),
    Number(Number),
    Text(Octets),
}

/// The kernel allowed or denied something a sandboxed process tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    pub session: String,
    pub server: String,
    /// `connect`, `bind`, `open`, `exec`, or the system call's name.
    pub op: String,
    pub decision: Decision,
    pub layer: Layer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Octets>,
    /// The other path of a call that has two: where a rename or link goes, what a symbolic link says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path2: Option<Octets>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_source: Option<PathSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_complete: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ino: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nlink: Option<u32>,
    /// The rights that were wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Arguments of the system call that tell what it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<BTreeMap<String, Field>>,
    pub pid: u32,
    pub tid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exe: Option<Octets>,
    /// What the process got: `EPERM`, `EACCES`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    pub calls: Vec<String>,
    pub attribution: Attribution,
    /// How many more like it came since the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Number>,
}

/// How records name a call.
pub fn call_name(call: u64) -> String {
    call.to_string()
}

/// The name of an error number, as `errno` has it.
pub fn errno_name(errno: i32) -> String {
    match nix::errno::Errno::from_raw(errno.abs()) {
        nix::errno::Errno::UnknownErrno => format!("E{}", errno.abs()),
        known => format!("{known:?}"),
    }
}

/// A server ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    pub server: String,
    /// `exited`, `signaled`, `out-of-memory`, `killed`, `init-died`, …
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub duration_us: Number,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceUse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<Octets>,
    /// Who ended it and why, when it was one of ours: `gateway: the client closed its end`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What of the launch record's claim did not hold all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
}

/// The counters of the sandbox's cgroup, as the kernel names them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceUse {
    pub memory_events: BTreeMap<String, Number>,
    pub pids_events: BTreeMap<String, Number>,
    pub cpu_stat: BTreeMap<String, Number>,
}

/// Something happened here that the trail cannot tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Its `kind` would meet the envelope's, so it stands in a field.
    pub gap: Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    pub kind: GapKind,
    /// How many records or events; `null` when that is unknown.
    pub lost: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Number>,
    /// Files of the audit directory that hold what was cut out of the chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved: Vec<String>,
    /// What was done because of it: `quarantined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapKind {
    /// The last line of the chain was incomplete; it was cut out and saved.
    TornTail,
    /// The writer before this one ended without closing the chain.
    UncleanClose,
    /// Events the kernel's rings had no room for.
    RingFull,
    /// Denials over the sandbox's byte budget, counted only.
    OverBudget,
    /// What was allowed, over the budget for that or without room in the kernel, counted only.
    AllowedLost,
    /// Events that the kernel reported and that could not be read or told whose they are.
    Unread,
    /// The warden died; what its sandboxes did until they were killed is unknown.
    WardenDied,
    /// The gateway died; what it had not yet said of its calls is unknown.
    GatewayDied,
    /// Records that could not be written when they were due.
    WriteFailed,
    /// Runs of programs that tell, skipped by the kernel: what they would have told is missing.
    ProgramsSkipped,
    /// Runs of programs on security hooks, skipped by the kernel: the hook did not decide.
    HooksSkipped,
}

impl GapKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::TornTail => "torn-tail",
            Self::UncleanClose => "unclean-close",
            Self::RingFull => "ring-full",
            Self::OverBudget => "over-budget",
            Self::AllowedLost => "allowed-lost",
            Self::Unread => "unread",
            Self::WardenDied => "warden-died",
            Self::GatewayDied => "gateway-died",
            Self::WriteFailed => "write-failed",
            Self::ProgramsSkipped => "programs-skipped",
            Self::HooksSkipped => "hooks-skipped",
        }
    }
}

impl Gap {
    /// A gap about which only its kind is known.
    pub fn unknown(session: Option<String>, kind: GapKind) -> Self {
        Self {
            session,
            call: None,
            gap: Lost {
                cpu: None,
                kind,
                lost: None,
                bytes: None,
                saved: Vec::new(),
                done: None,
            },
        }
    }

    /// A gap with a count.
    pub fn counted(session: Option<String>, kind: GapKind, lost: u64) -> Self {
        let mut gap = Self::unknown(session, kind);
        gap.gap.lost = Some(lost.into());
        gap
    }

    /// In the sandbox of one call.
    #[must_use]
    pub fn of_call(mut self, call: Option<u64>) -> Self {
        self.call = call.map(call_name);
        self
    }
}
