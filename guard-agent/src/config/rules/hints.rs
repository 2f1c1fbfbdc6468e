//! What an operator should look at, though a policy may say it.

use std::collections::BTreeSet;

use super::{Policy, near, role::Object, tool::Quadrant};

pub(super) fn of(policy: &Policy) -> Vec<String> {
    let mut hints = Vec::new();
    look_alikes(policy, &mut hints);
    without_use(policy, &mut hints);
    approvals(policy, &mut hints);
    if policy.identities.by_uid.contains_key(&0) {
        hints.push("uid 0 has an identity: every program that runs as root can call as it".to_owned());
    }
    hints
}

fn look_alikes(policy: &Policy, hints: &mut Vec<String>) {
    let mut tell = |of: &str, names: Vec<&str>| {
        for (one, two) in near::alike(names) {
            hints.push(format!("{of} `{one}` and `{two}` look alike and are two"));
        }
    };
    tell("servers", policy.servers.keys().map(String::as_str).collect());
    tell("roles", policy.roles.keys().map(String::as_str).collect());
    let people = policy.identities.by_uid.values();
    tell("users", people.clone().map(|who| who.user.as_str()).collect());
    tell(
        "tenants",
        people.filter_map(|who| who.tenant.as_deref()).collect(),
    );
    for (name, server) in &policy.servers {
        let exact = server.tools.iter().filter_map(|tool| tool.pattern.as_ref());
        let names: Vec<String> = exact
            .filter(|pattern| pattern.is_exact())
            .map(ToString::to_string)
            .collect();
        tell(
            &format!("tools of server `{name}`"),
            names.iter().map(String::as_str).collect(),
        );
    }
}

/// Roles that nobody has, and rules for tools that no role allows.
fn without_use(policy: &Policy, hints: &mut Vec<String>) {
    let used: BTreeSet<&str> = policy
        .identities
        .by_uid
        .values()
        .flat_map(|who| who.roles.iter().map(String::as_str))
        .collect();
    for name in policy.roles.keys().filter(|name| !used.contains(name.as_str())) {
        hints.push(format!("nobody has role `{name}`"));
    }
    for (name, server) in &policy.servers {
        let entries = policy.roles.values().flat_map(|role| &role.allow);
        let here: Vec<_> = entries.filter(|entry| entry.server == *name).collect();
        if here.is_empty() {
            hints.push(format!("no role allows anything of server `{name}`"));
            continue;
        }
        for pattern in server.tools.iter().filter_map(|tool| tool.pattern.as_ref()) {
            let mut tools = here.iter().filter(|entry| entry.object == Object::Tool);
            if !tools.any(|entry| entry.pattern.shared(pattern).is_some()) {
                hints.push(format!(
                    "no role allows tool `{pattern}` of server `{name}`, so its rule is never asked"
                ));
            }
        }
    }
}

/// Tools that somebody may call and nobody can approve for them.
fn approvals(policy: &Policy, hints: &mut Vec<String>) {
    let mut told = BTreeSet::new();
    for who in policy.identities.by_uid.values() {
        let roles = who.roles.iter().filter_map(|name| policy.roles.get(name));
        for entry in roles.flat_map(|role| &role.allow) {
            if policy.approval.possible(&entry.server, who.tenant.as_deref()) {
                continue;
            }
            for tool in policy.tools_of(entry) {
                let when = match (tool.quadrant, tool.sensitive) {
                    (Quadrant::Approve, _) => "needs approval",
                    (_, true) => "needs approval once something untrusted was read",
                    (_, false) => continue,
                };
                if let Some(pattern) = &tool.pattern {
                    let (server, user) = (&entry.server, &who.user);
                    told.insert(format!(
                        "tool `{pattern}` of server `{server}` {when}, and no operator can give it to user `{user}`"
                    ));
                }
            }
        }
    }
    hints.extend(told);
}
