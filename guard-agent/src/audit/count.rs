//! How often: records, the attempts they stand for, and what was lost, in groups.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
};

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{record::Kind, text::escape};
use crate::octets::Octets;

/// Groups kept apart; what comes after is one group, so that a hostile server's names do not fill our memory.
const MAX_GROUPS: usize = 100_000;

/// What records are grouped by: a field, or a part of the time (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    Kind,
    Server,
    Session,
    Call,
    Tool,
    Status,
    Op,
    Decision,
    Layer,
    Reason,
    Errno,
    Path,
    Address,
    Port,
    Family,
    Pid,
    Exe,
    Day,
    Hour,
}

impl By {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Server => "server",
            Self::Session => "session",
            Self::Call => "call",
            Self::Tool => "tool",
            Self::Status => "status",
            Self::Op => "op",
            Self::Decision => "decision",
            Self::Layer => "layer",
            Self::Reason => "reason",
            Self::Errno => "errno",
            Self::Path => "path",
            Self::Address => "address",
            Self::Port => "port",
            Self::Family => "family",
            Self::Pid => "pid",
            Self::Exe => "exe",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    /// `None`: the record has no such field.
    fn of(self, record: &Value) -> Option<Value> {
        let time = |digits: usize| Some(record.get("time")?.as_str()?.get(..digits)?.into());
        match self {
            Self::Day => time("2026-11-30".len()),
            Self::Hour => time("2026-11-30T10".len()),
            _ => record.get(self.name()).cloned(),
        }
    }
}

/// What one group, or everything, amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    pub records: u64,
    /// Operations: a record that says `repeat` stands for so many, every other `kernel` record for one.
    pub attempts: u64,
    /// What gaps say is not on record, where they know how much.
    pub lost: u64,
}

impl Counts {
    pub fn add(&mut self, record: &Value) {
        let number = |value: Option<&Value>| {
            let value = value?;
            // Above 2^53 the contract writes digits.
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        };
        self.records += 1;
        let kind = record.get("kind").and_then(Value::as_str);
        if kind == Some(Kind::Kernel.name()) {
            self.attempts = self
                .attempts
                .saturating_add(number(record.get("repeat")).unwrap_or(1));
        } else if let Some(lost) = number(record.pointer("/gap/lost")) {
            self.lost = self.lost.saturating_add(lost);
        }
    }
}

/// One line of the answer. `by` is missing for what there was no room for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    #[serde(serialize_with = "members")]
    pub by: Option<Vec<(&'static str, Value)>>,
    #[serde(flatten)]
    pub counts: Counts,
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts {
            records,
            attempts,
            lost,
        } = self.counts;
        write!(f, "{records:>9} records {attempts:>9} attempts")?;
        if lost > 0 {
            write!(f, " {lost:>9} lost")?;
        }
        let Some(by) = &self.by else {
            return f.write_str("  (more groups than are kept apart)");
        };
        for (index, (name, value)) in by.iter().enumerate() {
            let gap = if index == 0 { "  " } else { " " };
            write!(f, "{gap}{name}={}", plain(value))?;
        }
        Ok(())
    }
}

fn members<S: Serializer>(by: &Option<Vec<(&'static str, Value)>>, serializer: S) -> Result<S::Ok, S::Error> {
    match by {
        Some(by) => serializer.collect_map(by.iter().map(|(name, value)| (name, value))),
        None => serializer.serialize_none(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => escape(text),
        Value::Null => "-".into(),
        Value::Object(_) => serde_json::from_value::<Octets>(value.clone())
            .map_or_else(|_| escape(&value.to_string()), |octets| octets.to_string()),
        other => escape(&other.to_string()),
    }
}

/// Groups as they are found.
#[derive(Debug)]
pub struct Groups {
    by: Vec<By>,
    groups: HashMap<Vec<Value>, Counts>,
    others: Option<Counts>,
    max: usize,
}

impl Groups {
    pub fn new(by: Vec<By>) -> Self {
        Self {
            by,
            groups: HashMap::new(),
            others: None,
            max: MAX_GROUPS,
        }
    }

    #[cfg(test)]
    pub(super) fn limit(&mut self, groups: usize) {
        self.max = groups;
    }

    pub fn add(&mut self, record: &Value) {
        let key: Vec<Value> = (self.by.iter())
            .map(|by| by.of(record).unwrap_or_default())
            .collect();
        let room = self.groups.len() < self.max;
        let counts = match self.groups.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) if room => new.insert(Counts::default()),
            Entry::Vacant(_) => self.others.get_or_insert_default(),
        };
        counts.add(record);
    }

    /// The most attempts first. Without a field to group by there is one group, also of nothing.
    pub fn finish(mut self) -> Vec<Group> {
        if self.by.is_empty() {
            self.groups.entry(Vec::new()).or_default();
        }
        let names = |values: Vec<Value>| self.by.iter().map(|by| by.name()).zip(values).collect();
        let mut groups: Vec<Group> = (self.groups.into_iter())
            .map(|(values, counts)| Group {
                by: Some(names(values)),
                counts,
            })
            .collect();
        groups.sort_by_cached_key(|group| {
            let Counts {
                records,
                attempts,
                lost,
            } = group.counts;
            (Reverse((attempts, lost, records)), format!("{:?}", group.by))
        });
        groups.extend(self.others.map(|counts| Group { by: None, counts }));
        groups
    }
}
