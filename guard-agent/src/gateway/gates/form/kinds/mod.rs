//! What a parameter names: a path, a word of a command, a host. Each has a form that nobody can read two ways.
//!
//! A kind accepts the plain form alone. What a program behind us might expand, decode or normalise into something else
//! is refused, also where some of them would take it literally. Each says for the model what would be valid.

mod email;
mod host;
pub(super) mod path;
mod word;

use super::flaw::excerpt;

/// What the operator says a parameter is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamKind {
    /// A path in one of the roots that have these rights.
    Path { rights: Rights },
    /// One word of a command line, of which no shell makes anything else and no program an option.
    ShellWord,
    /// A name of a host: `example.org`, or any below `*.example.org`. Empty: any name, but no address and no name without a
    /// dot, which are valid only where they are listed.
    Host { allowed: Vec<String> },
    /// An address with a host like that. Without schemes: `http` and `https`.
    Url {
        schemes: Vec<String>,
        hosts: Vec<String>,
    },
    /// E-mail addresses, separated by commas, each in one of these domains.
    EmailDomain { allowed: Vec<String> },
    /// Letters, digits, `_`, `-` and `.`, beginning with a letter or digit.
    Identifier,
}

/// What a call does to what a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    Read,
    Write,
}

/// A tree that the sandbox gives the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Absolute.
    pub path: String,
    pub write: bool,
}

impl ParamKind {
    /// As the policy and the denial call it.
    pub(super) fn rule(&self) -> &'static str {
        match self {
            ParamKind::Path { .. } => "path",
            ParamKind::ShellWord => "shell-word",
            ParamKind::Host { .. } => "host",
            ParamKind::Url { .. } => "url",
            ParamKind::EmailDomain { .. } => "email-domain",
            ParamKind::Identifier => "identifier",
        }
    }

    /// Why a text is none of these.
    pub(super) fn check(&self, text: &str, roots: &[Root], base: Option<&str>) -> Result<(), String> {
        let checked = match self {
            ParamKind::Path { rights } => path::check(text, *rights, roots, base),
            ParamKind::ShellWord => word::shell(text),
            ParamKind::Host { allowed } => host::check(text, allowed),
            ParamKind::Url { schemes, hosts } => host::url(text, schemes, hosts),
            ParamKind::EmailDomain { allowed } => email::check(text, allowed),
            ParamKind::Identifier => word::identifier(text),
        };
        checked.map_err(|why| format!("{} {why}", excerpt(text)))
    }
}
