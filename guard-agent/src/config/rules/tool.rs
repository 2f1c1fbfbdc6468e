//! Rules for tools: raw → resolved.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{
    amount::Daily,
    fault::Fault,
    id::RuleId,
    param::{self, Param},
    pattern::Pattern,
    pointer::Pointer,
    raw,
};
use crate::config::rights::Rights;

/// How much a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Impact {
    Low,
    High,
}

/// What becomes of a call that every other rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quadrant {
    /// It runs.
    Run,
    /// It runs and operators are told, while it can still be undone.
    Notify,
    /// It runs within amounts a day, which bound what can never be undone.
    Quota,
    /// A person decides, each time.
    Approve,
}

impl Quadrant {
    pub fn of(impact: Impact, reversible: bool) -> Self {
        match (impact, reversible) {
            (Impact::Low, true) => Self::Run,
            (Impact::High, true) => Self::Notify,
            (Impact::Low, false) => Self::Quota,
            (Impact::High, false) => Self::Approve,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Notify => "notify",
            Self::Quota => "quota",
            Self::Approve => "approve",
        }
    }
}

/// The one rule that counts for a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub id: RuleId,
    /// None: the rule for tools that no rule names.
    pub pattern: Option<Pattern>,
    pub quadrant: Quadrant,
    /// Of the files while a call of it runs. None: those of the launch.
    pub rights: Option<Rights>,
    /// Only these parameters exist. None: those that the tool declares.
    pub params: Option<BTreeMap<Pointer, Param>>,
    /// There is one exactly where `quadrant` is [`Quadrant::Quota`].
    pub quota: Option<Quota>,
    /// Needs an approval once its flow has read something untrusted.
    pub sensitive: bool,
    /// What it returns is untrusted.
    pub untrusted: bool,
}

/// Amounts a UTC day. One of the two is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    pub calls: Option<u64>,
    /// Of an argument's values.
    pub sum: BTreeMap<Pointer, u64>,
}

impl Tool {
    /// For a tool without a rule.
    pub fn unlisted(server: &str, quadrant: Quadrant) -> Self {
        Self {
            id: RuleId::of("unlisted", server, ""),
            pattern: None,
            quadrant,
            rights: None,
            params: None,
            quota: None,
            sensitive: false,
            untrusted: false,
        }
    }
}

/// The tools of a server whose roots have `most` rights together, and each those of `each`.
pub(super) fn resolve(
    server: &str,
    tools: &raw::Named<raw::Tool>,
    most: Rights,
    each: &[Rights],
) -> Result<Vec<Tool>, Fault> {
    let mut resolved = Vec::new();
    for (name, raw) in tools {
        let text = name.as_ref();
        let pattern = Pattern::name(text)
            .map_err(|dead| Fault::at(name, format!("tool `{text}`: {}", dead.why), dead.fix))?;
        if let Some(rights) = &raw.rights
            && !most.contains(*rights.as_ref())
        {
            return Err(Fault::at(
                rights,
                format!(
                    "tool `{text}`: rights `{}` are wider than the roots of server `{server}`, which have `{most}`",
                    rights.as_ref()
                ),
                "narrow the rights, or give a root more",
            ));
        }
        let rights = raw.rights.as_ref().map(|rights| *rights.as_ref());
        let params = raw
            .params
            .as_ref()
            .map(|params| all_params(text, params, rights, each))
            .transpose()?;
        let quadrant = Quadrant::of(
            raw.impact.unwrap_or(Impact::High),
            raw.reversible.unwrap_or(false),
        );
        let quota = quota(name, raw, quadrant, params.as_ref())?;
        resolved.push(Tool {
            id: RuleId::of("tool", server, text),
            pattern: Some(pattern),
            quadrant,
            rights,
            params,
            quota,
            sensitive: raw.sensitive,
            untrusted: raw.untrusted,
        });
    }
    ties(tools, &resolved)?;
    Ok(resolved)
}

fn all_params(
    tool: &str,
    raw: &raw::Named<Spanned<param::raw::Param>>,
    rights: Option<Rights>,
    each: &[Rights],
) -> Result<BTreeMap<Pointer, Param>, Fault> {
    let mut params: BTreeMap<Pointer, Param> = BTreeMap::new();
    for (name, asked) in raw {
        let at = pointer(name)?;
        let param = param::resolve(&at, asked)?;
        if let Some(wanted) = param.roots {
            if !each.iter().any(|root| root.contains(wanted)) {
                return Err(Fault::at(
                    asked,
                    format!("parameter `{at}`: no root has the rights `{wanted}`, so no path is allowed"),
                    "narrow `roots`, or give a root more",
                ));
            }
            if let Some(rights) = rights.filter(|rights| !rights.contains(wanted)) {
                return Err(Fault::at(
                    asked,
                    format!(
                        "parameter `{at}`: it wants a root with `{wanted}`, and tool `{tool}` has rights `{rights}`"
                    ),
                    "make the two agree",
                ));
            }
        }
        params.insert(at, param);
    }
    for name in raw.keys() {
        let at = pointer(name)?;
        let outer = params
            .iter()
            .find(|(outer, param)| outer.holds(&at) && param.leaf_key().is_some());
        if let Some((outer, param)) = outer {
            return Err(Fault::at(
                name,
                format!(
                    "parameter `{at}` lies in `{outer}`, whose `{}` is for a single value",
                    param.leaf_key().unwrap_or_default()
                ),
                "remove one of the two",
            ));
        }
    }
    Ok(params)
}

fn pointer(name: &Spanned<String>) -> Result<Pointer, Fault> {
    Pointer::parse(name.as_ref()).map_err(|why| {
        Fault::at(
            name,
            format!("parameter `{}`: {why}", name.as_ref()),
            "write it as `/name`, `/outer/inner`, or `/list/*` for each item",
        )
    })
}

fn quota(
    name: &Spanned<String>,
    raw: &raw::Tool,
    quadrant: Quadrant,
    params: Option<&BTreeMap<Pointer, Param>>,
) -> Result<Option<Quota>, Fault> {
    let text = name.as_ref();
    let Some(asked) = &raw.quota else {
        if quadrant == Quadrant::Quota {
            return Err(Fault::at(
                name,
                format!("tool `{text}`: low impact and not reversible runs within a quota, and it has none"),
                "add `quota = { calls = \"20/day\" }`, or correct `impact` or `reversible`",
            ));
        }
        return Ok(None);
    };
    if quadrant != Quadrant::Quota {
        let impact = match (quadrant, raw.impact) {
            (Quadrant::Run, _) => "low impact",
            (_, Some(_)) => "high impact",
            (_, None) => "high impact (nothing says otherwise)",
        };
        let reversible = match (quadrant, raw.reversible) {
            (Quadrant::Approve, Some(_)) => "not reversible",
            (Quadrant::Approve, None) => "not reversible (nothing says otherwise)",
            _ => "reversible",
        };
        let word = quadrant.word();
        return Err(Fault::at(
            asked,
            format!("tool `{text}`: {impact} and {reversible} means `{word}`, which no quota changes"),
            "remove `quota`, or say `impact = \"low\"` and `reversible = false`, which means `quota`",
        ));
    }
    let mut sum = BTreeMap::new();
    for (key, Daily(most)) in &asked.as_ref().sum {
        let at = pointer(key)?;
        if let Some(params) = params {
            match params.get(&at) {
                None => {
                    return Err(Fault::at(
                        key,
                        format!("tool `{text}`: `sum` counts `{at}`, and `params` does not have it"),
                        "add it to `params`, or correct the pointer",
                    ));
                }
                Some(param) if param.is_text() || param.max_items.is_some() => {
                    return Err(Fault::at(
                        key,
                        format!("tool `{text}`: `sum` counts `{at}`, and by `params` it is no number"),
                        "count a number, or correct `params`",
                    ));
                }
                Some(_) => {}
            }
        }
        sum.insert(at, *most);
    }
    let calls = asked.as_ref().calls.map(|Daily(most)| most);
    if calls.is_none() && sum.is_empty() {
        return Err(Fault::at(
            asked,
            format!("tool `{text}`: its quota limits nothing"),
            "add `calls = \"20/day\"`, or `sum = { \"/amount\" = \"1000/day\" }`",
        ));
    }
    Ok(Some(Quota { calls, sum }))
}

/// Two patterns of which neither is more exact, for one name.
fn ties(raw: &raw::Named<raw::Tool>, tools: &[Tool]) -> Result<(), Fault> {
    let all: Vec<(&Spanned<String>, &Pattern)> = raw
        .keys()
        .zip(tools)
        .filter_map(|(name, tool)| Some((name, tool.pattern.as_ref()?)))
        .filter(|(_, pattern)| !pattern.is_exact())
        .collect();
    for (number, (one, first)) in all.iter().enumerate() {
        for (two, second) in all.iter().skip(number + 1) {
            if first.prefix() != second.prefix() {
                continue;
            }
            if let Some(name) = first.shared(second) {
                let (early, late) = if one.span().start < two.span().start {
                    (one, two)
                } else {
                    (two, one)
                };
                return Err(Fault::at(
                    late,
                    format!(
                        "tools `{}` and `{}` tie: both match `{name}`, and the same stands before their first `*`",
                        early.as_ref(),
                        late.as_ref()
                    ),
                    "make one longer before its `*`, or name the tool itself: an exact name wins",
                ));
            }
        }
    }
    Ok(())
}
