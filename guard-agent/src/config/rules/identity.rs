//! Who may ask: people, how they are known, and where a call names its tenant.

use std::collections::BTreeMap;

use toml::Spanned;

use super::{
    fault::Fault,
    near,
    pointer::{Pointer, Step},
    raw,
    role::Role,
};
use crate::config::printable;

/// Files and peers of nobody in particular, such as those of a foreign user namespace.
const OVERFLOW_UID: u32 = 65534;
const INVALID_UID: u32 = u32::MAX;
const NAME_MOST: usize = 128;

/// One person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub tenant: Option<String>,
    /// Each exists, and none twice.
    pub roles: Vec<String>,
}

/// Who may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identities {
    pub by_uid: BTreeMap<u32, Identity>,
    pub tenant_param: Option<Pointer>,
}

pub(super) fn resolve(
    raw: Option<&Spanned<raw::Identity>>,
    roles: &BTreeMap<String, Role>,
) -> Result<Identities, Fault> {
    const FIX: &str =
        "add a role, and who has it: `[identity] peer.uid.1000 = { user = \"ann\", roles = [\"clerk\"] }`";
    let Some(place) = raw else {
        return Err(Fault::of_all(
            "it locks out everybody: without `[identity]` nobody has a role, and without a role nothing is allowed",
            FIX,
        ));
    };
    let asked = place.as_ref();
    if asked.peer.uid.is_empty() {
        return Err(Fault::at(
            place,
            "it locks out everybody: `peer.uid` names nobody",
            FIX,
        ));
    }
    let mut by_uid = BTreeMap::new();
    for (key, person) in &asked.peer.uid {
        let uid = uid(key)?;
        by_uid.insert(uid, identity(key, person, roles)?);
    }
    let tenant_param = asked.tenant_param.as_ref().map(tenant_param).transpose()?;
    if let (Some(param), Some((uid, _))) = (
        &asked.tenant_param,
        by_uid.iter().find(|(_, who)| who.tenant.is_none()),
    ) && by_uid.values().all(|who| who.tenant.is_none())
    {
        return Err(Fault::at(
            param,
            format!("no identity has a `tenant` (uid {uid} for one), so no call that names one is allowed"),
            "give identities a `tenant`, or remove `tenant_param`",
        ));
    }
    Ok(Identities { by_uid, tenant_param })
}

fn uid(key: &Spanned<String>) -> Result<u32, Fault> {
    let text = key.as_ref();
    let wrong = |why: &str| {
        Err(Fault::at(
            key,
            format!("identity `{text}`: {why}"),
            "give the number that `id -u` says",
        ))
    };
    // In one spelling, or one person could stand there twice.
    match text.parse::<u32>() {
        Ok(INVALID_UID) => wrong("uid 4294967295 is no user"),
        Ok(OVERFLOW_UID) => wrong("uid 65534 stands for nobody in particular"),
        Ok(uid) if uid.to_string() == *text => Ok(uid),
        _ => wrong("it is no uid"),
    }
}

fn identity(
    key: &Spanned<String>,
    raw: &raw::Person,
    roles: &BTreeMap<String, Role>,
) -> Result<Identity, Fault> {
    label(&raw.user, "user")?;
    if let Some(tenant) = &raw.tenant {
        label(tenant, "tenant")?;
    }
    let user = raw.user.as_ref();
    if raw.roles.is_empty() {
        return Err(Fault::at(
            key,
            format!("user `{user}` has no role, so nothing is allowed"),
            "add `roles = [\"…\"]`, or remove the user",
        ));
    }
    let mut names = Vec::new();
    for role in &raw.roles {
        let name = role.as_ref();
        if !roles.contains_key(name) {
            let known = roles.keys().map(String::as_str);
            return Err(Fault::at(
                role,
                format!("user `{user}`: there is no `[role.{name}]`"),
                format!("name a role of this file{}", near::meant(name, known)),
            ));
        }
        if names.contains(name) {
            return Err(Fault::at(
                role,
                format!("user `{user}` has role `{name}` twice"),
                "remove one of the two",
            ));
        }
        names.push(name.clone());
    }
    Ok(Identity {
        user: user.clone(),
        tenant: raw.tenant.as_ref().map(|tenant| tenant.as_ref().clone()),
        roles: names,
    })
}

/// Users and tenants are compared byte by byte, so that each has to be what it looks like.
pub(super) fn label(name: &Spanned<String>, of: &str) -> Result<(), Fault> {
    let text = name.as_ref();
    if let Some(other) = text.chars().find(|one| !one.is_ascii_graphic()) {
        return Err(Fault::at(
            name,
            format!(
                "{of} `{text}`: `{}` (U+{:04X}) is no visible ASCII character",
                printable(&other.to_string()),
                u32::from(other)
            ),
            "use ASCII without spaces: other letters can look like these",
        ));
    }
    if !(1..=NAME_MOST).contains(&text.len()) {
        return Err(Fault::at(
            name,
            format!("{of} `{text}`: a name has 1 to {NAME_MOST} characters"),
            "choose another name",
        ));
    }
    Ok(())
}

fn tenant_param(text: &Spanned<String>) -> Result<Pointer, Fault> {
    let wrong = |why: String| {
        Fault::at(
            text,
            format!("`tenant_param` `{}`: {why}", text.as_ref()),
            "write it as `/tenant_id`",
        )
    };
    let pointer = Pointer::parse(text.as_ref()).map_err(wrong)?;
    if pointer.steps().contains(&Step::Each) {
        return Err(wrong("a call has one tenant, not a list of them".to_owned()));
    }
    Ok(pointer)
}
