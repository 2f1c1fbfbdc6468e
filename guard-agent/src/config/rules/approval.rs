//! Who may approve, and how long an approval lives.

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ed25519_dalek::VerifyingKey;
use toml::Spanned;

use super::{
    fault::Fault,
    identity::{Identities, label},
    near, raw,
    server::{at_most, check_name},
};

const PENDING: Duration = Duration::from_secs(15 * 60);
const PENDING_MOST: Duration = Duration::from_secs(24 * 3600);
const REDEEM: Duration = Duration::from_secs(120);
/// What was approved should still be what the person saw.
const REDEEM_MOST: Duration = Duration::from_secs(10 * 60);

/// `[approval]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// For the person.
    pub pending_ttl: Duration,
    /// From the approval to its use.
    pub redeem_ttl: Duration,
    pub self_approval: bool,
    pub operators: Vec<Operator>,
}

/// Who may approve what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    pub name: String,
    pub key: VerifyingKey,
    /// Each exists; not empty.
    pub servers: Vec<String>,
    /// Empty: calls of identities without a tenant only.
    pub tenants: Vec<String>,
}

impl Operator {
    /// Whether a call of that server by somebody of that tenant is for this operator to decide.
    pub fn may_approve(&self, server: &str, tenant: Option<&str>) -> bool {
        let for_tenant = match tenant {
            Some(tenant) => self.tenants.iter().any(|own| own == tenant),
            None => self.tenants.is_empty(),
        };
        for_tenant && self.servers.iter().any(|own| own == server)
    }
}

impl Approval {
    /// Whether anybody can approve it.
    pub fn possible(&self, server: &str, tenant: Option<&str>) -> bool {
        self.operators
            .iter()
            .any(|operator| operator.may_approve(server, tenant))
    }
}

pub(super) fn resolve(
    raw: Option<&raw::Approval>,
    servers: &[&str],
    identities: &Identities,
) -> Result<Approval, Fault> {
    let default = raw::Approval::default();
    let raw = raw.unwrap_or(&default);
    let pending = at_most("pending_ttl", raw.pending_ttl.as_ref(), PENDING_MOST, "a day")?;
    let redeem = at_most("redeem_ttl", raw.redeem_ttl.as_ref(), REDEEM_MOST, "10 minutes")?;
    let tenants: BTreeSet<&str> = identities
        .by_uid
        .values()
        .filter_map(|who| who.tenant.as_deref())
        .collect();
    let mut operators: Vec<Operator> = Vec::new();
    for raw in &raw.operators {
        check_name(&raw.name, "operator")?;
        let name = raw.name.as_ref();
        let key = key(name, &raw.key)?;
        if operators.iter().any(|other| other.name == *name) {
            return Err(Fault::at(
                &raw.name,
                format!("there are two operators `{name}`"),
                "give each a name of its own",
            ));
        }
        if let Some(other) = operators.iter().find(|other| other.key == key) {
            return Err(Fault::at(
                &raw.key,
                format!("operators `{}` and `{name}` have one key", other.name),
                "give each a key of its own, or a record could not say who approved",
            ));
        }
        if raw.servers.is_empty() {
            return Err(Fault::at(
                &raw.name,
                format!("operator `{name}` may approve nothing: `servers` is empty"),
                "name a server, or remove the operator",
            ));
        }
        known(name, "server", &raw.servers, servers)?;
        known(
            name,
            "tenant",
            &raw.tenants,
            &tenants.iter().copied().collect::<Vec<_>>(),
        )?;
        operators.push(Operator {
            name: name.clone(),
            key,
            servers: raw.servers.iter().map(|one| one.as_ref().clone()).collect(),
            tenants: raw.tenants.iter().map(|one| one.as_ref().clone()).collect(),
        });
    }
    Ok(Approval {
        pending_ttl: pending.unwrap_or(PENDING),
        redeem_ttl: redeem.unwrap_or(REDEEM),
        self_approval: raw.self_approval,
        operators,
    })
}

fn known(operator: &str, of: &str, names: &[Spanned<String>], there: &[&str]) -> Result<(), Fault> {
    for name in names {
        label(name, of)?;
        if !there.contains(&name.as_ref().as_str()) {
            let where_from = if of == "server" {
                "is no `[server.…]` of this file"
            } else {
                "is the tenant of no identity"
            };
            return Err(Fault::at(
                name,
                format!("operator `{operator}`: `{}` {where_from}", name.as_ref()),
                format!(
                    "correct the {of}{}",
                    near::meant(name.as_ref(), there.iter().copied())
                ),
            ));
        }
    }
    Ok(())
}

fn key(name: &str, text: &Spanned<String>) -> Result<VerifyingKey, Fault> {
    let bytes = text
        .as_ref()
        .strip_prefix("ed25519:")
        .and_then(|body| STANDARD.decode(body).ok())
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    bytes
        .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())
        // Under a weak key one signature fits many texts.
        .filter(|key| !key.is_weak())
        .ok_or_else(|| {
            Fault::at(
                text,
                format!("operator `{name}`: `key` is no Ed25519 public key"),
                "write `ed25519:` and the 32 bytes of the public key in base64",
            )
        })
}
