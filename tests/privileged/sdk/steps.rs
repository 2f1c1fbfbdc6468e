//! What a client asks of a server, one thing after the other.

use serde_json::{Value, json};

/// One thing, and how it must end: what fails both times has shown little.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// As the clients of `servers/clients` read it.
    pub said: Value,
    pub end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A result that is no error.
    Done,
    /// An error, or a result that says `isError`.
    Failed,
    /// The client gave it up.
    Cancelled,
    /// SDKs differ in what they make of it.
    Either,
}

/// All pages of `tools`, `resources`, `templates` or `prompts`.
pub(crate) fn list(what: &str) -> Step {
    done(json!({"list": what}))
}

pub(crate) fn call(name: &str, arguments: &Value) -> Step {
    done(json!({"call": {"name": name, "arguments": arguments}}))
}

pub(crate) fn read(uri: &str) -> Step {
    done(json!({"read": uri}))
}

pub(crate) fn get(name: &str, arguments: &Value) -> Step {
    done(json!({"get": {"name": name, "arguments": arguments}}))
}

fn done(said: Value) -> Step {
    Step { said, end: End::Done }
}

impl Step {
    pub(crate) fn ends(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// With a token for progress.
    pub(crate) fn progress(mut self) -> Self {
        self.said["progress"] = true.into();
        self
    }

    /// Given up while the server is at it.
    pub(crate) fn cancelled(mut self) -> Self {
        self.said["cancel_after_ms"] = 200.into();
        self.ends(End::Cancelled)
    }
}
