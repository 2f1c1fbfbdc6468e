//! The server's environment: an allow-list, what the runtime needs, and what the operator names. Nothing else.

use std::{collections::BTreeMap, ffi::OsString, os::unix::ffi::OsStrExt as _};

use super::{env::OUR_PREFIX, resolved::RunPlan, shown, user::NO_HOME};
use crate::{link::message::User, octets::Octets, refusal::Refusal, runtime::Runtime};

/// Passed on when they are set: they describe the terminal and the language, not the person.
const PASSED: &[&str] = &["PATH", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ"];
/// The same for every name that begins so.
const PASSED_PREFIX: &str = "LC_";
/// When the client has no PATH.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Who a uid without an account is to programs that ask for a name.
const NO_NAME: &str = "sandbox";

/// One `--env` or one name of `env = […]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub name: String,
    /// `None`: the client's value, if it has one.
    pub value: Option<Octets>,
}

impl Asked {
    /// `NAME` or `NAME=VALUE`.
    pub fn parse(text: &OsString) -> Result<Self, Refusal> {
        let bytes = text.as_bytes();
        let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) => (&bytes[..at], Some(Octets(bytes[at + 1..].to_vec()))),
            None => (bytes, None),
        };
        // Only the name in the message: the value may be a secret.
        let shown_name = shown(std::ffi::OsStr::from_bytes(name));
        let what = format!("cannot give the server variable `{shown_name}`");
        let wellformed = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        match std::str::from_utf8(name) {
            Ok(name) if name.starts_with(OUR_PREFIX) => Err(Refusal::usage(
                what,
                format!("names that begin with `{OUR_PREFIX}` are guard-agent's own"),
                "remove it",
            )),
            Ok(name) if wellformed(name) => Ok(Self {
                name: name.to_owned(),
                value,
            }),
            _ => Err(Refusal::usage(
                what,
                "a name has letters, digits and `_`, and does not begin with a digit",
                "write `NAME` to pass it on or `NAME=VALUE` to set it",
            )),
        }
    }
}

/// The child's whole environment, sorted by name. `from` is the client's.
pub fn build(
    plan: &RunPlan,
    runtime: &Runtime,
    user: &User,
    from: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(Octets, Octets)> {
    let mut environment: BTreeMap<String, Octets> = BTreeMap::new();
    let wanted = |name: &str| {
        !name.starts_with(OUR_PREFIX)
            && (PASSED.contains(&name)
                || name.starts_with(PASSED_PREFIX)
                || runtime.environment.iter().any(|needed| needed == name)
                || plan.environment.iter().any(|asked| asked.name == name))
    };
    let (name, home) = match user {
        User::Account { name, home, .. } => (name.as_str(), home.clone()),
        User::Dynamic => (NO_NAME, NO_HOME.into()),
    };
    for (key, value) in from {
        let Some(key) = key.to_str() else { continue };
        // The first of two counts, as for `getenv`.
        if wanted(key) && !environment.contains_key(key) {
            environment.insert(key.to_owned(), value.into());
        }
    }
    environment
        .entry("PATH".to_owned())
        .or_insert_with(|| DEFAULT_PATH.into());
    // The client's are another person's when the server runs as another user; a runtime may not ask for them.
    for (key, value) in [("HOME", home), ("USER", name.into()), ("LOGNAME", name.into())] {
        environment.insert(key.to_owned(), value);
    }
    for asked in &plan.environment {
        if let Some(value) = &asked.value {
            environment.insert(asked.name.clone(), value.clone());
        }
    }
    environment
        .into_iter()
        .map(|(name, value)| (name.into(), value))
        .collect()
}
