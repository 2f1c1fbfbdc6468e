//! The policy file as it is written. An unknown key is an error: a rule that nothing enforces would be a lie.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::IgnoredAny};
use sha2::{Digest as _, Sha256};

use super::{
    printable,
    quantity::{Percent, Size, Span},
    rights::Rights,
    rules, shown,
};
use crate::{
    link::message::{Facet, OverBudget, Protocol, View},
    refusal::Refusal,
    runtime::RuntimeKind,
};

/// Far above any policy a person writes; keeps a wrong path (a disk, a log) from filling memory.
const MAX_BYTES: u64 = 1 << 20;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    pub server: BTreeMap<String, Server>,
    /// These three, and `tool` and `idle_rights` of servers, are read by `config/rules`.
    pub role: Option<IgnoredAny>,
    pub identity: Option<IgnoredAny>,
    pub approval: Option<IgnoredAny>,
}

impl Policy {
    /// Whether it says who may call what.
    fn has_rules(&self) -> bool {
        let of_server = |server: &Server| server.tool.is_some() || server.idle_rights.is_some();
        self.role.is_some()
            || self.identity.is_some()
            || self.approval.is_some()
            || self.server.values().any(of_server)
    }
}

/// `[server.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    pub command: Vec<String>,
    pub runtime: Option<RuntimeKind>,
    pub user: Option<String>,
    pub roots: Vec<Root>,
    pub network: Network,
    pub limits: Limits,
    pub require: Option<Vec<Facet>>,
    pub view: Option<View>,
    pub isolation: Isolation,
    pub env: Vec<String>,
    pub directory: Option<PathBuf>,
    pub free_names: Vec<String>,
    pub observe: Option<bool>,
    pub over_budget: OverBudget,
    pub protocol: Protocol,
    pub tool: Option<IgnoredAny>,
    pub idle_rights: Option<IgnoredAny>,
}

/// One of `roots`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    pub path: PathBuf,
    #[serde(default = "read_only")]
    pub rights: Rights,
}

fn read_only() -> Rights {
    Rights::R
}

/// `limits`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub memory: Option<Size>,
    pub cpu: Option<Percent>,
    pub pids: Option<u32>,
    pub tmp: Option<Size>,
    pub call_timeout: Option<Span>,
    pub start_timeout: Option<Span>,
}

/// `network`: there is one value so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Network {
    #[default]
    None,
}

impl TryFrom<String> for Network {
    type Error = String;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            "none" => Ok(Self::None),
            other => Err(format!(
                "network `{other}` is not built: \"none\" is the only value"
            )),
        }
    }
}

/// `isolation`: how long one sandbox lasts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    #[default]
    Session,
    Call,
}

/// A policy that was read, and the hash of the very bytes that were parsed.
#[derive(Debug)]
pub struct Loaded {
    pub policy: Policy,
    /// Who may call what, where it says so.
    pub rules: Option<rules::Policy>,
    pub hash: String,
}

/// Reads and parses a policy file.
pub fn load(path: &Path) -> Result<Loaded, Refusal> {
    let (text, hash) = text(path)?;
    let policy: Policy = toml::from_str(&text).map_err(|error| wrong(path, &text, &error))?;
    let rules = policy
        .has_rules()
        .then(|| rules::in_force(path, &text, hash.clone()))
        .transpose()?;
    Ok(Loaded { policy, rules, hash })
}

/// What the file says, and the hash of it.
pub(super) fn text(path: &Path) -> Result<(String, String), Refusal> {
    let bytes = read(path)?;
    let hash = sha256(&bytes);
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, hash)),
        Err(_) => Err(unreadable(
            path,
            "it is not UTF-8 text",
            "write the policy as TOML",
        )),
    }
}

/// The form hashes have in records.
pub fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "correct the path after `--policy`",
            io::ErrorKind::PermissionDenied => "let the user who runs guard-agent read it",
            _ => "name a regular file that can be read",
        };
        unreadable(path, reason(&error), hint)
    };
    // Without O_NONBLOCK, a pipe without a writer would hold us here.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(unreadable(path, "it is not a regular file", "name a policy file"));
    }
    if metadata.permissions().mode() & 0o002 != 0 {
        return Err(Refusal::usage(
            format!("cannot use policy `{}`", shown(path)),
            "everybody on this machine may change it",
            format!("check what it says, then `chmod o-w {}`", shown(path)),
        ));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(path, "it is larger than 1 MiB", "name a policy file"));
    }
    Ok(bytes)
}

/// The system's text without its number.
pub(super) fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_lowercase(),
        None => error.to_string(),
    }
}

fn unreadable(path: &Path, why: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::usage(format!("cannot read policy `{}`", shown(path)), why, hint)
}

/// File, line, key and cause, in an operator's words.
pub(super) fn wrong(path: &Path, text: &str, error: &toml::de::Error) -> Refusal {
    let mut what = format!("cannot use policy `{}`", shown(path));
    let mut why = printable(&error.message().trim().replace('\n', ", "));
    for (serde, ours) in [
        ("unknown field ", "unknown key "),
        ("missing field ", "missing key "),
        ("unknown variant ", "unknown value "),
        ("expected a sequence", "expected a list"),
        ("expected u32", "expected a whole number"),
        ("invalid type: map", "invalid type: table"),
        ("invalid type: sequence", "invalid type: list"),
    ] {
        why = why.replacen(serde, ours, 1);
    }
    let unknown_key = error.message().starts_with("unknown field ");
    if let Some(span) = error.span() {
        let before = text.get(..span.start).unwrap_or(text);
        what = format!("{what}, line {}", line(text, span.start));
        if why == "duplicate key" {
            why = format!(
                "duplicate key `{}`",
                printable(text.get(span).unwrap_or_default())
            );
        } else if let Some(key) = key_before(before).filter(|_| !unknown_key) {
            why = format!("key `{}`: {why}", printable(key));
        }
    }
    let hint = if unknown_key {
        "remove or correct the key; `docs/policy.md` explains each, and none is accepted that nothing enforces"
    } else {
        "correct that line; `docs/policy.md` has an example"
    };
    Refusal::usage(what, why, hint)
}

/// The number of the line on which the byte `at` stands.
pub(super) fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The key whose value stands at the end of `text`, when both are on one line.
fn key_before(text: &str) -> Option<&str> {
    let line = text.rsplit('\n').next()?;
    let (before, _) = line.rsplit_once('=')?;
    // An odd number of quotes: that `=` stands in a string.
    if before.matches('"').count() % 2 == 1 {
        return None;
    }
    let key = before.trim_end().rsplit([' ', '\t', ',', '{', '.']).next()?;
    (!key.is_empty()).then_some(key)
}
