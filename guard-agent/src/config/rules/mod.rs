//! The operator's rules for tools, roles, identities and approvals: raw (as typed) → resolved (as meant).
//!
//! Who may call what, and rights of tools, are in use ([`in_force`]); the rest is read and checked here and refused by
//! [`built`], since a rule that nothing enforces would be a lie. `config/raw.rs` reads the keys of the launch out of the
//! same file.
//!
//! What evaluates them is `gateway/gates/scope`. Whatever can be known to be wrong is refused here, with its line.

pub mod amount;
pub mod approval;
mod built;
mod fault;
mod hints;
pub mod id;
pub mod identity;
mod near;
pub mod param;
pub mod pattern;
pub mod pointer;
pub mod raw;
pub mod role;
pub mod server;
pub mod tool;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path};

use self::{
    approval::Approval,
    fault::Fault,
    identity::{Identities, Identity},
    role::{Allowed, Object, Role},
    server::Server,
    tool::{Quadrant, Tool},
};
use crate::refusal::Refusal;

/// All rules of a policy, each with a meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub servers: BTreeMap<String, Server>,
    pub roles: BTreeMap<String, Role>,
    pub identities: Identities,
    pub approval: Approval,
    /// What an operator should look at, though nothing is wrong with it. One line each.
    pub hints: Vec<String>,
    /// Of the bytes that were read.
    pub hash: String,
}

impl Policy {
    /// The rules for tools that an entry of `allow` could be about.
    fn tools_of(&self, entry: &Allowed) -> impl Iterator<Item = &Tool> {
        let server = self
            .servers
            .get(&entry.server)
            .filter(|_| entry.object == Object::Tool);
        let tools = server.into_iter().flat_map(|server| &server.tools);
        tools.filter(|tool| {
            let pattern = tool.pattern.as_ref();
            pattern.is_some_and(|pattern| pattern.shared(&entry.pattern).is_some())
        })
    }
}

/// Reads the rules of a policy file.
pub fn load(path: &Path) -> Result<Policy, Refusal> {
    let (text, hash) = super::raw::text(path)?;
    parse(path, &text, hash)
}

/// The same of a text that was read from `path`.
pub fn parse(path: &Path, text: &str, hash: String) -> Result<Policy, Refusal> {
    let raw: raw::Policy = toml::from_str(text).map_err(|error| not_read(path, text, &error))?;
    let mut policy = resolve(&raw).map_err(|fault| fault.refusal(path, text))?;
    policy.hash = hash;
    Ok(policy)
}

/// The same, of a policy that is to be obeyed: without rules that this release does not enforce.
pub fn in_force(path: &Path, text: &str, hash: String) -> Result<Policy, Refusal> {
    let raw: raw::Policy = toml::from_str(text).map_err(|error| not_read(path, text, &error))?;
    built::check(&raw).map_err(|fault| fault.refusal(path, text))?;
    let mut policy = resolve(&raw).map_err(|fault| fault.refusal(path, text))?;
    policy.hash = hash;
    Ok(policy)
}

fn resolve(raw: &raw::Policy) -> Result<Policy, Fault> {
    let mut servers = BTreeMap::new();
    for (name, server) in &raw.server {
        servers.insert(name.as_ref().clone(), server::resolve(name, server)?);
    }
    let mut roles = BTreeMap::new();
    for (name, role) in &raw.role {
        roles.insert(name.as_ref().clone(), role::resolve(name, role, &servers)?);
    }
    let identities = identity::resolve(raw.identity.as_ref(), &roles)?;
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    let approval = approval::resolve(raw.approval.as_ref(), &names, &identities)?;
    let mut policy = Policy {
        servers,
        roles,
        identities,
        approval,
        hints: Vec::new(),
        hash: String::new(),
    };
    somebody_may_something(&policy)?;
    policy.hints = hints::of(&policy);
    Ok(policy)
}

/// Where every call waits for an approval that nobody can give, nothing is allowed.
fn somebody_may_something(policy: &Policy) -> Result<(), Fault> {
    let may = |who: &Identity| {
        let roles = who.roles.iter().filter_map(|name| policy.roles.get(name));
        let mut allowed = roles.flat_map(|role| &role.allow);
        allowed.any(|entry| {
            entry.object != Object::Tool
                || policy.approval.possible(&entry.server, who.tenant.as_deref())
                || policy
                    .tools_of(entry)
                    .any(|tool| tool.quadrant != Quadrant::Approve)
        })
    };
    if policy.identities.by_uid.values().any(may) {
        return Ok(());
    }
    Err(Fault::of_all(
        "it locks out everybody: each tool that a role allows needs an approval, and no operator can give it",
        "say of a tool that its `impact` is low or that it is `reversible`, or add to `operators` of `[approval]`",
    ))
}

/// What the parser says, with the key that was probably meant.
fn not_read(path: &Path, text: &str, error: &toml::de::Error) -> Refusal {
    let mut refusal = super::raw::wrong(path, text, error);
    let mut told = error.message().split('`').skip(1).step_by(2);
    "correct that line; `docs/rules.md` has an example".clone_into(&mut refusal.hint);
    if error.message().starts_with("unknown ")
        && let Some(typed) = told.next()
    {
        refusal.hint = match near::nearest(typed, told) {
            Some(name) => format!("did you mean `{name}`? `docs/rules.md` explains each"),
            None => "remove or correct it; `docs/rules.md` explains each".to_owned(),
        };
    }
    refusal
}
