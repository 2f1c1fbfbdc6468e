//! Roles: what they allow, and how much of it.

use std::{collections::BTreeMap, time::Duration};

use toml::Spanned;

use super::{
    amount::Rate,
    fault::Fault,
    near,
    pattern::Pattern,
    raw,
    server::{Server, check_name},
};

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    Tool,
    Resource,
    Prompt,
}

/// One entry of `allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    pub object: Object,
    pub server: String,
    pub pattern: Pattern,
}

/// `[role.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Not empty; none says what another says already.
    pub allow: Vec<Allowed>,
    pub budget: Option<Budget>,
    pub per_tool: Option<Rate>,
    pub per_user: Option<Rate>,
}

/// So much in any window of that length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub calls: Option<u64>,
    pub output_tokens: Option<u64>,
    pub window: Duration,
}

impl Allowed {
    /// Whether all that `other` allows is allowed here.
    fn covers(&self, other: &Self) -> bool {
        self.object == other.object && self.server == other.server && self.pattern.covers(&other.pattern)
    }
}

pub(super) fn resolve(
    name: &Spanned<String>,
    raw: &raw::Role,
    servers: &BTreeMap<String, Server>,
) -> Result<Role, Fault> {
    check_name(name, "role")?;
    let role = name.as_ref();
    if raw.allow.is_empty() {
        return Err(Fault::at(
            name,
            format!("role `{role}` allows nothing"),
            "add `allow = [\"SERVER/TOOL\"]`, or remove the role",
        ));
    }
    let allow = raw
        .allow
        .iter()
        .map(|text| allowed(role, text, servers))
        .collect::<Result<Vec<_>, _>>()?;
    for (number, (text, entry)) in raw.allow.iter().zip(&allow).enumerate() {
        let others = raw.allow.iter().zip(&allow).enumerate();
        // Of two that say the same, the later one is too much.
        let wider = others
            .filter(|(at, _)| *at != number)
            .find(|(at, (_, other))| other.covers(entry) && (*at < number || !entry.covers(other)));
        if let Some((_, (wider, _))) = wider {
            return Err(Fault::at(
                text,
                format!(
                    "role `{role}`: `{}` adds nothing, `{}` allows it already",
                    text.as_ref(),
                    wider.as_ref()
                ),
                "remove one of the two",
            ));
        }
    }
    let (per_tool, per_user) = rates(role, raw)?;
    Ok(Role {
        allow,
        budget: raw.budget.as_ref().map(|raw| budget(role, raw)).transpose()?,
        per_tool,
        per_user,
    })
}

fn allowed(role: &str, text: &Spanned<String>, servers: &BTreeMap<String, Server>) -> Result<Allowed, Fault> {
    let typed = text.as_ref();
    let wrong = |why: String, fix: String| Fault::at(text, format!("role `{role}`: {why}"), fix);
    let (object, rest) = match typed.split_once(':') {
        Some(("tool", rest)) => (Object::Tool, rest),
        Some(("resource", rest)) => (Object::Resource, rest),
        Some(("prompt", rest)) => (Object::Prompt, rest),
        Some((word, _)) if !word.contains('/') => {
            return Err(wrong(
                format!("`{word}:` is not one of `tool:`, `resource:`, `prompt:`"),
                format!(
                    "correct the word, or leave it out for a tool{}",
                    near::meant(word, ["tool", "resource", "prompt"])
                ),
            ));
        }
        _ => (Object::Tool, typed.as_str()),
    };
    let Some((server, pattern)) = rest.split_once('/') else {
        return Err(wrong(
            format!("`{typed}` does not say of which server"),
            format!("write `SERVER/{}`", if rest.is_empty() { "*" } else { rest }),
        ));
    };
    if !servers.contains_key(server) {
        let why = if server.contains('*') {
            format!("`{typed}`: `*` does not stand for servers")
        } else {
            format!("there is no `[server.{server}]`")
        };
        let known = servers.keys().map(String::as_str);
        return Err(wrong(
            why,
            format!("name a server of this file{}", near::meant(server, known)),
        ));
    }
    let pattern = match object {
        Object::Tool | Object::Prompt => Pattern::name(pattern),
        Object::Resource => Pattern::uri(pattern),
    };
    Ok(Allowed {
        object,
        server: server.to_owned(),
        pattern: pattern.map_err(|dead| wrong(format!("`{typed}`: {}", dead.why), dead.fix))?,
    })
}

fn budget(role: &str, raw: &Spanned<raw::Budget>) -> Result<Budget, Fault> {
    let asked = raw.as_ref();
    if asked.calls.is_none() && asked.output_tokens.is_none() {
        return Err(Fault::at(
            raw,
            format!("role `{role}`: its budget limits nothing"),
            "add `calls` or `output_tokens`, or remove `budget`",
        ));
    }
    for (key, most) in [("calls", asked.calls), ("output_tokens", asked.output_tokens)] {
        if most == Some(0) {
            return Err(Fault::at(
                raw,
                format!("role `{role}`: a budget of 0 `{key}` allows nothing"),
                "give a larger number, or remove the key",
            ));
        }
    }
    Ok(Budget {
        calls: asked.calls,
        output_tokens: asked.output_tokens,
        window: asked.window.0,
    })
}

fn rates(role: &str, raw: &raw::Role) -> Result<(Option<Rate>, Option<Rate>), Fault> {
    match &raw.rate {
        None => Ok((None, None)),
        Some(rate) if rate.as_ref().per_tool.is_none() && rate.as_ref().per_user.is_none() => Err(Fault::at(
            rate,
            format!("role `{role}`: its rate limits nothing"),
            "add `per_tool` or `per_user`, or remove `rate`",
        )),
        Some(rate) => Ok((rate.as_ref().per_tool, rate.as_ref().per_user)),
    }
}
