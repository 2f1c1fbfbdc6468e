//! Which of the rules are enforced in this release. A policy with others is refused: a rule that nothing enforces
//! would be a lie.

use toml::Spanned;

use super::{fault::Fault, raw, tool::Impact};

fn fault<T>(place: &Spanned<T>, what: &str) -> Fault {
    Fault::at(
        place,
        format!("{what} is not built yet, and a rule that nothing enforces is not taken"),
        "leave it out; `docs/policy.md` has the keys that are in use",
    )
}

pub(super) fn check(raw: &raw::Policy) -> Result<(), Fault> {
    for server in raw.server.values() {
        for (name, tool) in &server.tool {
            check_tool(name, tool)?;
        }
    }
    for role in raw.role.values() {
        if let Some(budget) = &role.budget {
            return Err(fault(budget, "`budget`"));
        }
        if let Some(rate) = &role.rate {
            return Err(fault(rate, "`rate`"));
        }
    }
    if let Some(param) = raw
        .identity
        .as_ref()
        .and_then(|identity| identity.as_ref().tenant_param.as_ref())
    {
        return Err(fault(param, "`tenant_param`"));
    }
    if raw.approval.is_some() {
        return Err(Fault::of_all(
            "`[approval]` is not built yet: calls that would need one are denied",
            "leave it out; say of tools that may run that their `impact` is \"low\" and that they are `reversible`",
        ));
    }
    Ok(())
}

fn check_tool(name: &Spanned<String>, tool: &raw::Tool) -> Result<(), Fault> {
    if let Some(quota) = &tool.quota {
        return Err(fault(quota, "`quota`"));
    }
    let tool_is = |what: &str| fault(name, &format!("tool `{}`: {what}", name.as_ref()));
    for (given, key) in [
        (tool.params.is_some(), "`params`"),
        (tool.sensitive, "`sensitive`"),
        (tool.untrusted, "`untrusted`"),
    ] {
        if given {
            return Err(tool_is(key));
        }
    }
    match (
        tool.impact.unwrap_or(Impact::High),
        tool.reversible.unwrap_or(false),
    ) {
        (Impact::High, true) => Err(tool_is("telling operators of a call (high impact, reversible)")),
        (Impact::Low, false) => Err(tool_is("a quota (low impact, not reversible)")),
        _ => Ok(()),
    }
}
