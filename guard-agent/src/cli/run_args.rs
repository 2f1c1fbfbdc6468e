//! The flags of `guard-agent run`.

use std::{ffi::OsString, path::PathBuf};

use clap::ValueEnum;

use crate::{
    link::message::{Protocol, View},
    runtime::RuntimeKind,
};

/// `--tier`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    #[value(name = "T1")]
    T1,
    #[value(name = "T2")]
    T2,
    #[value(name = "T3")]
    T3,
}

impl From<Tier> for crate::proof::Tier {
    fn from(asked: Tier) -> Self {
        match asked {
            Tier::T1 => Self::T1,
            Tier::T2 => Self::T2,
            Tier::T3 => Self::T3,
        }
    }
}

/// `--observe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// Run one MCP server in a sandbox, its client on stdin and stdout.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RunArgs {
    /// Policy file that says what to run and how; nothing else of the server can then be given here
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,

    /// Name of the server for records and logs; with --policy, which [server.NAME] to run
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Directory or file the server may use, with rights r (default), rw, rx or rwx; repeatable
    #[arg(long = "root", value_name = "PATH[:RIGHTS]")]
    pub roots: Vec<OsString>,

    /// Which runtime's own files to add [default: auto]
    #[arg(long, value_name = "KIND")]
    pub runtime: Option<RuntimeKind>,

    /// Pass variable NAME of the environment to the server, or set it with NAME=VALUE; repeatable
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,

    /// Working directory of the server [default: this one]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Who the server runs as: an account's name or uid, `caller` (default) or `dynamic`
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// What of the host's files the server sees [default: private, where the machine lets it be made]
    #[arg(long, value_name = "VIEW")]
    pub view: Option<View>,

    /// Whether what the server tries on files, programs and processes is observed and recorded [default: on]
    #[arg(long, value_name = "on|off")]
    pub observe: Option<Switch>,

    /// What client and server speak; with `none` bytes pass unchecked, and only the sandbox holds [default: mcp]
    #[arg(long, value_name = "mcp|none")]
    pub protocol: Option<Protocol>,

    /// Audit directory [default: /var/log/guard-agent, without root $XDG_STATE_HOME/guard-agent]
    #[arg(long, value_name = "DIR")]
    pub audit: Option<PathBuf>,

    /// State directory, one warden each [default: /run/guard-agent, without root $XDG_RUNTIME_DIR/guard-agent]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// Enforcement tier to insist on
    #[arg(long, value_name = "TIER")]
    pub tier: Option<Tier>,

    /// Launch even when a required facet cannot be enforced; the record says so
    #[arg(long)]
    pub allow_unenforced: bool,

    /// The server's command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
