//! What becomes of a tool: its definition against what was accepted of it.
//!
//! A tool that is new is trusted and told, unless something is wrong with it. One that is held stays held, whatever
//! its server says next, until a person accepts exactly what was shown. Only what was accepted comes back by itself.

use std::time::SystemTime;

use super::{
    definition::{Definition, Definitions, Limits},
    diff::Diff,
    looks::{self, Look, Names},
};
use crate::audit::Digest;

/// A definition as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub pin: Digest,
    pub raw: Vec<u8>,
    pub seen: SystemTime,
}

/// Who accepted a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// Nobody: it was the first, and nothing was wrong with it.
    FirstSight,
    Operator(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub version: Version,
    pub by: By,
    pub at: SystemTime,
}

/// What is kept of a tool. It is kept when the tool goes: it may come back as another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub tool: String,
    pub first_seen: SystemTime,
    pub accepted: Option<Accepted>,
    /// The last version that was held, for a person to look at.
    pub held: Option<Version>,
}

/// Where pins are kept, by server and tool.
pub trait Store {
    type Error: std::error::Error + 'static;

    fn get(&self, server: &str, tool: &str) -> Result<Option<Entry>, Self::Error>;
    fn put(&mut self, server: &str, entry: Entry) -> Result<(), Self::Error>;
    fn list(&self, server: &str) -> Result<Vec<Entry>, Self::Error>;
}

/// What a tool is for this session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody saw it before. It is accepted, and told.
    First,
    /// It is what was accepted.
    Same,
    /// It is not what was accepted: held.
    Changed {
        diff: Diff,
        looks: Vec<Look>,
    },
    /// It is known and no longer listed.
    Gone,
    Held(Why),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It is new, and new tools wait for a person.
    Strict,
    Looks(Vec<Look>),
    /// It was held before, and nobody accepted it since.
    Waiting,
}

/// A tool by name and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub tool: String,
    /// What was judged; `None` of a tool that is gone.
    pub pin: Option<Digest>,
    pub verdict: Verdict,
}

impl Verdict {
    /// It may be listed and called. All others answer like a tool that is unknown.
    pub fn allows(&self) -> bool {
        matches!(self, Self::First | Self::Same)
    }
}

/// Judges a whole list, all its pages, and keeps what came of it. `foreign`: names of tools accepted of other servers.
///
/// An error leaves no verdict: without what was accepted nothing is known, and no tool may be listed.
pub fn judge<S: Store>(
    store: &mut S,
    server: &str,
    list: &Definitions,
    foreign: &[&str],
    strict: bool,
    now: SystemTime,
) -> Result<Vec<Judged>, S::Error> {
    let known = store.list(server)?;
    let own = list
        .tools()
        .iter()
        .map(Definition::name)
        .chain(known.iter().map(|entry| entry.tool.as_str()));
    let names = Names::new(own, foreign.iter().copied());
    let mut judged = Vec::with_capacity(list.tools().len());
    for tool in list.tools() {
        let before = store.get(server, tool.name())?;
        let verdict = verdict(tool, before.as_ref(), list, &names, strict);
        let after = keep(tool, before.clone(), &verdict, now);
        if before.as_ref() != Some(&after) {
            store.put(server, after)?;
        }
        judged.push(Judged {
            tool: tool.name().to_owned(),
            pin: Some(tool.pin()),
            verdict,
        });
    }
    let gone = known.into_iter().filter(|entry| !list.has(&entry.tool));
    judged.extend(gone.map(|entry| Judged {
        tool: entry.tool,
        pin: None,
        verdict: Verdict::Gone,
    }));
    Ok(judged)
}

fn verdict(
    tool: &Definition,
    entry: Option<&Entry>,
    list: &Definitions,
    names: &Names,
    strict: bool,
) -> Verdict {
    let texts = looks::texts(tool, names);
    let Some(accepted) = entry.and_then(|entry| entry.accepted.as_ref()) else {
        let looks = [texts, looks::name(tool.name(), names)].concat();
        return match entry {
            _ if !looks.is_empty() => Verdict::Held(Why::Looks(looks)),
            _ if strict => Verdict::Held(Why::Strict),
            Some(_) => Verdict::Held(Why::Waiting),
            None => Verdict::First,
        };
    };
    // What was accepted is read again under today's volatile members: to declare one moves no pin, and to take one
    // back shows what it hid.
    let old = match Definition::read(&accepted.version.raw, list.volatile(), &Limits::UNBOUNDED) {
        Ok(old) => old,
        // It cannot be read any more: all is shown as new.
        Err(_) => {
            let diff = Diff::added(tool);
            return Verdict::Changed { diff, looks: texts };
        }
    };
    if old.pin() != tool.pin() {
        let diff = Diff::of(&old, tool, list.volatile());
        return Verdict::Changed { diff, looks: texts };
    }
    // A person saw what is found in the accepted version, if one did; nobody saw what a volatile member says since. The
    // name is not judged again: it was there before the other one, and a newcomer must not take it away.
    let read = match accepted.by {
        By::FirstSight => Vec::new(),
        By::Operator(_) => looks::texts(&old, names),
    };
    let looks: Vec<Look> = texts.into_iter().filter(|look| !read.contains(look)).collect();
    if looks.is_empty() {
        Verdict::Same
    } else {
        Verdict::Held(Why::Looks(looks))
    }
}

/// What is known of a tool after a verdict.
fn keep(tool: &Definition, entry: Option<Entry>, verdict: &Verdict, now: SystemTime) -> Entry {
    let mut entry = entry.unwrap_or_else(|| Entry {
        tool: tool.name().to_owned(),
        first_seen: now,
        accepted: None,
        held: None,
    });
    let version = Version {
        pin: tool.pin(),
        raw: tool.raw().to_vec(),
        seen: now,
    };
    match verdict {
        Verdict::First => {
            entry.accepted = Some(Accepted {
                version,
                by: By::FirstSight,
                at: now,
            });
        }
        // Nobody is to accept what is no longer served.
        Verdict::Same | Verdict::Gone => {
            entry.held = None;
            if let Some(accepted) = &mut entry.accepted {
                accepted.version.pin = tool.pin();
            }
        }
        Verdict::Changed { .. } | Verdict::Held(_) => {
            if entry.held.as_ref().is_none_or(|held| held.pin != version.pin) {
                entry.held = Some(version);
            }
        }
    }
    entry
}

/// Why a version was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted<E: std::error::Error + 'static> {
    #[error("cannot accept tool `{0}`: nothing of it is held; list the tools again")]
    NothingHeld(String),
    #[error("cannot accept tool `{tool}` as {asked}: what is held now is {held}; look at it again")]
    AnotherOne {
        tool: String,
        asked: Digest,
        held: Digest,
    },
    #[error("cannot accept tool `{tool}`: the store of pins failed")]
    Store {
        tool: String,
        #[source]
        source: E,
    },
}

/// A person accepts what is held of a tool: exactly the version that they saw.
pub fn accept<S: Store>(
    store: &mut S,
    server: &str,
    tool: &str,
    pin: Digest,
    by: &str,
    now: SystemTime,
) -> Result<(), NotAccepted<S::Error>> {
    let shown = || crate::config::printable(tool);
    let failed = |source| NotAccepted::Store {
        tool: shown(),
        source,
    };
    let nothing = || NotAccepted::NothingHeld(shown());
    let mut entry = store.get(server, tool).map_err(failed)?.ok_or_else(nothing)?;
    let version = entry.held.take().ok_or_else(nothing)?;
    if version.pin != pin {
        return Err(NotAccepted::AnotherOne {
            tool: shown(),
            asked: pin,
            held: version.pin,
        });
    }
    entry.accepted = Some(Accepted {
        version,
        by: By::Operator(by.to_owned()),
        at: now,
    });
    store.put(server, entry).map_err(failed)
}
