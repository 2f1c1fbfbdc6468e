//! A call of a client: who asked for what, what each gate said, what came of it and what the server did meanwhile.
//! All but `session`, `server`, `call` and `kernel` is the gateway's word.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::number::Number;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub session: String,
    pub server: String,
    /// Its number in the session. None for a message that was refused before it was a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    pub phase: Phase,
    pub flow: String,
    pub identity: Identity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// The JSON text as it was sent, redacted: a number keeps its spelling, which an approval may hang on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Of what was sent. Without `arguments` beside it: it was too long to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_bytes: Option<Number>,
    pub gates: Vec<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<Number>,
    /// The JSON text of the result, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The same of the server's error, or of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<Number>,
    /// How often each rule of redaction matched, in what stands here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redacted: BTreeMap<String, Number>,
    /// What the server did while the call was in flight, as far as it is observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Activity>,
    /// Of messages refused alike: how many more since the record before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Number>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Written before a byte of it is passed on.
    Begin,
    End,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::End => "end",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    Denied,
    Pending,
    Error,
    Timeout,
    Cancelled,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Pending => "pending",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Who asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    pub roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// How that is known: `run`, the user who started it; `sudo`, who called it through sudo.
    pub via: String,
}

/// What one gate said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub gate: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub verdict: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Verdict {
    pub fn allow(gate: &str) -> Self {
        Self {
            gate: gate.to_owned(),
            rule: None,
            verdict: "allow".to_owned(),
            reason: None,
        }
    }

    pub fn deny(gate: &str, rule: &str, reason: &str) -> Self {
        Self {
            gate: gate.to_owned(),
            rule: Some(rule.to_owned()),
            verdict: "deny".to_owned(),
            reason: Some(reason.to_owned()),
        }
    }
}

/// Attempts of the server, each counted whether or not it has a record of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub allowed: Number,
    pub denied: Number,
    pub by_op: BTreeMap<String, OpCounts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpCounts {
    pub allowed: Number,
    pub denied: Number,
}

impl Activity {
    pub fn note(&mut self, op: &str, allowed: bool) {
        // Looked up before it is made: most attempts repeat an operation.
        if !self.by_op.contains_key(op) {
            self.by_op.insert(op.to_owned(), OpCounts::default());
        }
        let Some(counts) = self.by_op.get_mut(op) else {
            return;
        };
        if allowed {
            counts.allowed.0 += 1;
            self.allowed.0 += 1;
        } else {
            counts.denied.0 += 1;
            self.denied.0 += 1;
        }
    }
}
