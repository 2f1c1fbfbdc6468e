//! The envelope of every record, and the kinds there are.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    body::{Decision, Exit, Gap, Kernel, Launch},
    call::{Call, Status},
    chain::Digest,
    checkpoint::Checkpoint,
};

/// The number of a record in its chain, from 1.
pub type Seq = u64;

/// When a record was written: ISO 8601, UTC, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(Timestamp);

impl Stamp {
    pub fn now() -> Self {
        Self::from_micros(Timestamp::now().as_microsecond())
    }

    /// Out of range, which no clock of a running kernel is, gives the epoch.
    pub fn from_micros(micros: i64) -> Self {
        Self(Timestamp::from_microsecond(micros).unwrap_or_default())
    }

    /// That much later, or as late as a time can be.
    pub fn plus(self, duration: SignedDuration) -> Self {
        Self(self.0.saturating_add(duration).unwrap_or(self.0))
    }

    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for Stamp {
    fn from(time: Timestamp) -> Self {
        Self(time)
    }
}
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl Serialize for Stamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// Whose word a record is. The gateway handles untrusted bytes: what it says of a call is its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Warden,
    Gateway,
}

/// When a record must be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Within 100 ms.
    Soon,
    /// Before the append returns.
    Sync,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Launch,
    Call,
    Kernel,
    Exit,
    Gap,
    Checkpoint,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Call => "call",
            Self::Kernel => "kernel",
            Self::Exit => "exit",
            Self::Gap => "gap",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// What a record tells, beside the envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Body {
    Launch(Box<Launch>),
    Call(Box<Call>),
    Kernel(Box<Kernel>),
    Exit(Box<Exit>),
    Gap(Gap),
    Checkpoint(Signed),
}

/// A checkpoint has a `seq` of its own, so it stands in a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    pub checkpoint: Checkpoint,
}

impl Body {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Launch(_) => Kind::Launch,
            Self::Call(_) => Kind::Call,
            Self::Kernel(_) => Kind::Kernel,
            Self::Exit(_) => Kind::Exit,
            Self::Gap(_) => Kind::Gap,
            Self::Checkpoint(_) => Kind::Checkpoint,
        }
    }

    /// The least a writer must give: everything but what was permitted is on the disk before it is acted on.
    pub fn durability(&self) -> Durability {
        match self {
            Self::Call(call) if call.status != Some(Status::Denied) => Durability::Soon,
            Self::Kernel(kernel) if kernel.decision == Decision::Allow => Durability::Soon,
            _ => Durability::Sync,
        }
    }
}

/// One line of a segment, read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub v: u32,
    pub seq: Seq,
    pub time: Stamp,
    pub origin: Origin,
    pub prev: Digest,
    pub hash: Digest,
    #[serde(flatten)]
    pub body: Body,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_always_has_six_digits() {
        assert_eq!(Stamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            Stamp::from_micros(1_764_457_801_000_010).to_string(),
            "2025-11-29T23:10:01.000010Z"
        );
        let now = Stamp::now();
        let json = serde_json::to_string(&now).unwrap();
        assert_eq!(serde_json::from_str::<Stamp>(&json).unwrap(), now);
    }
}
