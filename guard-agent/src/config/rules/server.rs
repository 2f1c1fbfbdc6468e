//! Servers: names, rights, tools and limits of their calls.

use std::time::Duration;

use toml::Spanned;

use super::{
    amount::Period,
    fault::Fault,
    raw,
    tool::{self, Tool},
};
use crate::config::{described, quantity::Size, rights::Rights};

const CALL_MOST: Duration = Duration::from_secs(24 * 3600);
const START_MOST: Duration = Duration::from_secs(3600);
/// An error must fit.
const OUTPUT_LEAST: u64 = 4 << 10;
/// An answer is held in memory while it is judged.
const OUTPUT_MOST: u64 = 1 << 30;

/// What the rules say of one server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub tools: Vec<Tool>,
    /// With no call in flight. None: those of the launch.
    pub idle_rights: Option<Rights>,
    pub call_timeout: Option<Duration>,
    pub start_timeout: Option<Duration>,
    /// Bytes of one answer.
    pub output: Option<u64>,
}

pub(super) fn resolve(name: &Spanned<String>, raw: &raw::Server) -> Result<Server, Fault> {
    check_name(name, "server")?;
    let each: Vec<Rights> = raw.roots.iter().map(|root| root.rights).collect();
    let most = Rights {
        write: each.iter().any(|root| root.write),
        exec: each.iter().any(|root| root.exec),
    };
    let tools = tool::resolve(name.as_ref(), &raw.tool, most, &each)?;
    if let Some(rights) = &raw.idle_rights
        && !most.contains(*rights.as_ref())
    {
        return Err(Fault::at(
            rights,
            format!(
                "`idle_rights` `{}` are wider than the roots of server `{}`, which have `{most}`",
                rights.as_ref(),
                name.as_ref()
            ),
            "narrow them, or give a root more",
        ));
    }
    // Rights of a tool would mean little if between calls there were more.
    let narrowed = tools.iter().any(|tool| tool.rights.is_some());
    let idle_rights = match &raw.idle_rights {
        Some(rights) => Some(*rights.as_ref()),
        None => narrowed.then_some(Rights::R),
    };
    let limits = &raw.limits;
    Ok(Server {
        tools,
        idle_rights,
        call_timeout: at_most("call_timeout", limits.call_timeout.as_ref(), CALL_MOST, "a day")?,
        start_timeout: at_most(
            "start_timeout",
            limits.start_timeout.as_ref(),
            START_MOST,
            "an hour",
        )?,
        output: output(limits.output.as_ref())?,
    })
}

/// A time with a ceiling.
pub(super) fn at_most(
    key: &str,
    given: Option<&Spanned<Period>>,
    most: Duration,
    told: &str,
) -> Result<Option<Duration>, Fault> {
    match given {
        Some(period) if period.as_ref().0 > most => Err(Fault::at(
            period,
            format!("`{key}` is longer than {told}"),
            "give a shorter time",
        )),
        Some(period) => Ok(Some(period.as_ref().0)),
        None => Ok(None),
    }
}

fn output(given: Option<&Spanned<Size>>) -> Result<Option<u64>, Fault> {
    match given {
        Some(size) if !(OUTPUT_LEAST..=OUTPUT_MOST).contains(&size.as_ref().0) => Err(Fault::at(
            size,
            "`output` is not between \"4K\" and \"1G\"",
            "give another size",
        )),
        Some(size) => Ok(Some(size.as_ref().0)),
        None => Ok(None),
    }
}

/// Names stand in records, log lines and selectors.
pub(super) fn check_name(name: &Spanned<String>, of: &str) -> Result<(), Fault> {
    let text = name.as_ref();
    if let Some(other) = text.chars().find(|one| !described::is_name(*one)) {
        return Err(Fault::at(
            name,
            format!("{of} `{text}`: {}", super::pattern::cannot_have(other)),
            "use ASCII letters, digits, `_`, `-` and `.`",
        ));
    }
    if !(1..=described::MAX_NAME).contains(&text.len()) {
        return Err(Fault::at(
            name,
            format!(
                "{of} `{text}`: a name has 1 to {} characters",
                described::MAX_NAME
            ),
            "choose another name",
        ));
    }
    Ok(())
}
