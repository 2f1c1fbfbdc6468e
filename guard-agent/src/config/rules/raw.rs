//! The rules as they are written. An unknown key is an error.
//!
//! `Server` and `Limits` repeat the keys of `config/raw.rs`, with its types; what they have beyond those is what is
//! to move there.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::{
    amount::{Daily, Period, Rate},
    param::raw::Param,
    tool::Impact,
};
use crate::{
    config::{
        quantity::{Percent, Size},
        raw::{Isolation, Network, Root},
        rights::Rights,
    },
    link::message::{Facet, OverBudget, Protocol, View},
    runtime::RuntimeKind,
};

/// Tables under names of the operator's, each with its place.
pub type Named<T> = BTreeMap<Spanned<String>, T>;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    pub server: Named<Server>,
    pub role: Named<Role>,
    pub identity: Option<Spanned<Identity>>,
    pub approval: Option<Approval>,
}

/// `[server.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    pub command: Vec<String>,
    pub runtime: Option<RuntimeKind>,
    pub user: Option<String>,
    pub roots: Vec<Root>,
    pub network: Network,
    pub limits: Limits,
    pub require: Option<Vec<Facet>>,
    pub view: Option<View>,
    pub isolation: Isolation,
    pub env: Vec<String>,
    pub directory: Option<PathBuf>,
    pub free_names: Vec<String>,
    pub observe: Option<bool>,
    pub over_budget: OverBudget,
    pub protocol: Protocol,

    pub tool: Named<Tool>,
    pub idle_rights: Option<Spanned<Rights>>,
}

/// `limits`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub memory: Option<Size>,
    pub cpu: Option<Percent>,
    pub pids: Option<u32>,
    pub tmp: Option<Size>,

    pub call_timeout: Option<Spanned<Period>>,
    pub start_timeout: Option<Spanned<Period>>,
    pub output: Option<Spanned<Size>>,
}

/// `[server.NAME.tool.PATTERN]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tool {
    pub impact: Option<Impact>,
    pub reversible: Option<bool>,
    pub quota: Option<Spanned<Quota>>,
    pub params: Option<Named<Spanned<Param>>>,
    pub rights: Option<Spanned<Rights>>,
    pub sensitive: bool,
    pub untrusted: bool,
}

/// `quota`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    pub calls: Option<Daily>,
    pub sum: Named<Daily>,
}

/// `[role.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    #[serde(default)]
    pub allow: Vec<Spanned<String>>,
    pub budget: Option<Spanned<Budget>>,
    pub rate: Option<Spanned<Rates>>,
}

/// `budget`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    pub calls: Option<u64>,
    pub output_tokens: Option<u64>,
    pub window: Period,
}

/// `rate`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    pub per_tool: Option<Rate>,
    pub per_user: Option<Rate>,
}

/// `[identity]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    pub peer: Peer,
    pub tenant_param: Option<Spanned<String>>,
}

/// `peer`: how a person is known.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Peer {
    pub uid: Named<Person>,
}

/// One of `peer.uid`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    pub user: Spanned<String>,
    pub tenant: Option<Spanned<String>>,
    #[serde(default)]
    pub roles: Vec<Spanned<String>>,
}

/// `[approval]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Approval {
    pub pending_ttl: Option<Spanned<Period>>,
    pub redeem_ttl: Option<Spanned<Period>>,
    pub self_approval: bool,
    pub operators: Vec<Operator>,
}

/// One of `operators`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    pub name: Spanned<String>,
    pub key: Spanned<String>,
    pub servers: Vec<Spanned<String>>,
    #[serde(default)]
    pub tenants: Vec<Spanned<String>>,
}
