//! Who may see and call what, and the one rule that counts for a tool.
//!
//! Pure: the rules come resolved from `config/rules`, names and values from the message.

mod limits;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

pub use self::limits::Limits;
use crate::{
    config::rules::{
        Policy,
        id::RuleId,
        identity::{Identities, Identity},
        pattern::{Pattern, is_name, is_uri},
        pointer::Pointer,
        role::{Object, Role},
        tool::{Quadrant, Tool},
    },
    refusal::Refusal,
};

/// What is asked for, by the name that the message gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector<'a> {
    Tool(&'a str),
    Resource(&'a str),
    Prompt(&'a str),
}

/// What stands where a call names its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    Nothing,
    Text(&'a str),
    /// A number, a list: nobody's tenant.
    Other,
}

/// All rules of one server, ready to be asked.
#[derive(Debug)]
pub struct Rules {
    identities: Identities,
    /// None: a run by flags, where who started it may everything.
    roles: Option<BTreeMap<String, Allowed>>,
    exact: HashMap<String, Tool>,
    /// The longest before its first `*` comes first, so that the first that matches counts.
    wild: Vec<(Pattern, Tool)>,
    unlisted: Tool,
    tenant_rule: RuleId,
}

/// A role, as far as this server goes.
#[derive(Debug)]
struct Allowed {
    patterns: Vec<(Object, Pattern)>,
    /// They count for every server.
    role: Role,
}

/// Why a call's tenant is not the caller's. The text is for the model: it tells nothing of other tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrongTenant {
    Missing(Pointer),
    Other(Pointer),
    /// The caller has none.
    Without(Pointer),
}

impl fmt::Display for WrongTenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(at) => write!(f, "`{at}` is missing: your tenant has to be there as text"),
            Self::Other(at) => write!(f, "`{at}` is not your tenant, which has to be there as text"),
            Self::Without(at) => write!(f, "`{at}` names a tenant, and you belong to none"),
        }
    }
}

impl Rules {
    /// For a run without a policy: who started it is the operator of it.
    pub fn of_flags(server: &str, uid: u32, user: &str, roots_writable: bool) -> Self {
        let invoker = Identity {
            user: user.to_owned(),
            tenant: None,
            roles: Vec::new(),
        };
        let quadrant = if roots_writable {
            Quadrant::Notify
        } else {
            Quadrant::Run
        };
        Self {
            identities: Identities {
                by_uid: BTreeMap::from([(uid, invoker)]),
                tenant_param: None,
            },
            roles: None,
            exact: HashMap::new(),
            wild: Vec::new(),
            unlisted: Tool::unlisted(server, quadrant),
            tenant_rule: RuleId::of("tenant", server, ""),
        }
    }

    /// Those of one server of a policy.
    pub fn of_policy(policy: &Policy, server: &str) -> Result<Self, Refusal> {
        let refuse =
            |why: &str, hint: String| Err(Refusal::usage(format!("cannot serve `{server}`"), why, hint));
        let Some(rules) = policy.servers.get(server) else {
            let names: Vec<&str> = policy.servers.keys().map(String::as_str).collect();
            return refuse(
                "the policy has no such server",
                format!("name one of its servers: {}", names.join(", ")),
            );
        };
        let roles = policy.roles.iter().map(|(name, role)| {
            let here = role.allow.iter().filter(|entry| entry.server == server);
            let patterns = here.map(|entry| (entry.object, entry.pattern.clone())).collect();
            let role = role.clone();
            (name.clone(), Allowed { patterns, role })
        });
        let roles: BTreeMap<String, Allowed> = roles.collect();
        let mut in_use = policy.identities.by_uid.values().flat_map(|who| &who.roles);
        if !in_use.any(|name| roles.get(name).is_some_and(|role| !role.patterns.is_empty())) {
            return refuse(
                "no identity has a role that allows anything of it",
                format!("add `{server}/…` to the `allow` of a role that somebody has"),
            );
        }
        let (mut exact, mut wild) = (HashMap::new(), Vec::new());
        for tool in &rules.tools {
            match &tool.pattern {
                Some(pattern) if pattern.is_exact() => {
                    exact.insert(pattern.to_string(), tool.clone());
                }
                Some(pattern) => wild.push((pattern.clone(), tool.clone())),
                None => {}
            }
        }
        wild.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.prefix().len()));
        Ok(Self {
            identities: policy.identities.clone(),
            roles: Some(roles),
            exact,
            wild,
            unlisted: Tool::unlisted(server, Quadrant::Approve),
            tenant_rule: RuleId::of("tenant", server, ""),
        })
    }

    /// Who calls from this uid. None: nothing is allowed.
    pub fn identity(&self, uid: u32) -> Option<&Identity> {
        self.identities.by_uid.get(&uid)
    }

    /// Whether one of the caller's roles allows it: for lists and calls alike.
    pub fn admits(&self, who: &Identity, what: Selector<'_>) -> bool {
        let Some(roles) = &self.roles else { return true };
        let (object, name, fit) = match what {
            Selector::Tool(name) => (Object::Tool, name, is_name(name)),
            Selector::Prompt(name) => (Object::Prompt, name, is_name(name)),
            Selector::Resource(uri) => (Object::Resource, uri, is_uri(uri)),
        };
        let mut patterns = who
            .roles
            .iter()
            .filter_map(|role| roles.get(role))
            .flat_map(|role| &role.patterns);
        fit && patterns.any(|(of, pattern)| *of == object && pattern.matches(name))
    }

    /// The one rule that counts: an exact name, else the longest before its first `*`, else that of unlisted tools.
    pub fn tool(&self, name: &str) -> &Tool {
        if let Some(tool) = self.exact.get(name) {
            return tool;
        }
        // A name that no rule can speak of is no match of `*` either.
        if !is_name(name) {
            return &self.unlisted;
        }
        let mut wild = self.wild.iter();
        wild.find(|(pattern, _)| pattern.matches(name))
            .map_or(&self.unlisted, |(_, tool)| tool)
    }

    /// Every limit of the caller's roles; each must hold.
    pub fn limits(&self, who: &Identity) -> Limits {
        let roles = who.roles.iter().filter_map(|name| self.roles.as_ref()?.get(name));
        Limits::of(roles.map(|allowed| &allowed.role))
    }

    /// Where a call names its tenant.
    pub fn tenant_param(&self) -> Option<&Pointer> {
        self.identities.tenant_param.as_ref()
    }

    /// What a denial names when [`Rules::tenant`] refuses.
    pub fn tenant_rule(&self) -> &RuleId {
        &self.tenant_rule
    }

    /// Whether the call is for the caller's tenant. `declared`: the tool has the parameter.
    pub fn tenant(&self, who: &Identity, declared: bool, named: Named<'_>) -> Result<(), WrongTenant> {
        let Some(at) = self.tenant_param() else {
            return Ok(());
        };
        match (named, &who.tenant) {
            (Named::Nothing, _) if !declared => Ok(()),
            (_, None) => Err(WrongTenant::Without(at.clone())),
            (Named::Nothing, Some(_)) => Err(WrongTenant::Missing(at.clone())),
            (Named::Text(named), Some(own)) if named == own => Ok(()),
            (Named::Text(_) | Named::Other, Some(_)) => Err(WrongTenant::Other(at.clone())),
        }
    }

    /// Rules that count for none of the tools a server has: their names are mistakes, or the server changed.
    pub fn without_tool<'a>(&'a self, names: &[&str]) -> Vec<&'a Tool> {
        let wild = self.wild.iter().map(|(_, tool)| tool);
        let all = self.exact.values().chain(wild);
        let mut dead: Vec<&Tool> = all
            .filter(|tool| {
                let counts = |name: &&str| std::ptr::eq(self.tool(name), *tool);
                !names.iter().any(counts)
            })
            .collect();
        dead.sort_by_key(|tool| &tool.id);
        dead
    }
}
