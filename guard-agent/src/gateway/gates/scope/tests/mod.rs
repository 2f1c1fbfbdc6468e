//! Who may what, by example and against a naive evaluator.

mod naive;

use std::{path::Path, time::Duration};

use super::{limits::Limit, *};
use crate::config::rules;

const POLICY: &str = r#"
[server.files]
roots = [{ path = "/srv/docs", rights = "rw" }]
[server.files.tool.read_secret]
[server.files.tool."read_*"]
impact = "low"
reversible = true
[server.files.tool."read_image_*"]
reversible = true
[server.mail]
[role.reader]
allow = ["files/read_*", "resource:files/file:///srv/docs/**", "prompt:files/sum*"]
budget = { calls = 50, output_tokens = 4000, window = "1h" }
rate = { per_tool = "10/1m", per_user = "60/1m" }
[role.writer]
allow = ["files/write_file"]
budget = { calls = 20, window = "1h" }
rate = { per_tool = "20/1m", per_user = "100/1h" }
[role.mail]
allow = ["mail/*"]
rate = { per_user = "5/1m" }
[identity]
tenant_param = "/tenant_id"
peer.uid.1000 = { user = "ann", tenant = "acme", roles = ["reader"] }
peer.uid.1001 = { user = "bob", roles = ["reader", "writer", "mail"] }
"#;

fn policy(text: &str) -> Policy {
    rules::parse(Path::new("p.toml"), text, String::new())
        .unwrap_or_else(|refusal| panic!("{refusal}\n{text}"))
}

fn files() -> Rules {
    Rules::of_policy(&policy(POLICY), "files").unwrap()
}

#[test]
fn who_is_not_named_is_nobody() {
    let rules = files();
    assert_eq!(rules.identity(1000).unwrap().user, "ann");
    assert_eq!(rules.identity(1002), None);
    assert_eq!(rules.identity(0), None);
}

#[test]
fn only_what_a_role_allows() {
    let rules = files();
    let (ann, bob) = (rules.identity(1000).unwrap(), rules.identity(1001).unwrap());
    assert!(rules.admits(ann, Selector::Tool("read_a")));
    assert!(!rules.admits(ann, Selector::Tool("write_file")));
    assert!(rules.admits(bob, Selector::Tool("read_a")));
    assert!(rules.admits(bob, Selector::Tool("write_file")));
    // The name says nothing of another kind, of another server, or beyond a `/`.
    assert!(!rules.admits(ann, Selector::Prompt("read_a")));
    assert!(!rules.admits(bob, Selector::Tool("send")));
    assert!(!rules.admits(ann, Selector::Tool("read_a/b")));
    assert!(!rules.admits(ann, Selector::Tool("Read_a")));
    assert!(rules.admits(ann, Selector::Prompt("summary")));
    assert!(rules.admits(ann, Selector::Resource("file:///srv/docs/a/b")));
    assert!(!rules.admits(ann, Selector::Resource("file:///srv/other")));
    // Names and addresses that rules do not speak of.
    assert!(!rules.admits(ann, Selector::Tool("read_\u{435}")));
    assert!(!rules.admits(ann, Selector::Tool("read_ ")));
    assert!(!rules.admits(ann, Selector::Prompt("sum\n")));
    assert!(!rules.admits(ann, Selector::Resource("file:///srv/docs/../other")));
    assert!(!rules.admits(ann, Selector::Resource("file:///srv/docs/%2e%2e/other")));
}

/// An identity that was made elsewhere brings no role of its own.
#[test]
fn an_unknown_role_allows_nothing() {
    let rules = files();
    let forged = Identity {
        user: "eve".into(),
        tenant: None,
        roles: vec!["admin".into()],
    };
    assert!(!rules.admits(&forged, Selector::Tool("read_a")));
    assert_eq!(rules.limits(&forged), Limits::default());
}

#[test]
fn the_rule_that_counts() {
    let rules = files();
    let of = |name: &str| {
        let tool = rules.tool(name);
        (tool.pattern.as_ref().map(ToString::to_string), tool.quadrant)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of("read_secret"), (some("read_secret"), Quadrant::Approve));
    assert_eq!(of("read_a"), (some("read_*"), Quadrant::Run));
    assert_eq!(of("read_image_a"), (some("read_image_*"), Quadrant::Notify));
    assert_eq!(of("write_file"), (None, Quadrant::Approve));
    assert_eq!(of("read_a/b"), (None, Quadrant::Approve));
    assert_eq!(of("read_\u{435}"), (None, Quadrant::Approve));
}

#[test]
fn by_flags() {
    for (writable, quadrant) in [(false, Quadrant::Run), (true, Quadrant::Notify)] {
        let rules = Rules::of_flags("s", 1000, "ann", writable);
        let ann = rules.identity(1000).unwrap();
        assert_eq!((ann.user.as_str(), ann.tenant.as_deref()), ("ann", None));
        assert_eq!(rules.identity(1001), None);
        assert!(rules.admits(ann, Selector::Tool("any name")));
        assert!(rules.admits(ann, Selector::Resource("file:///a/../b")));
        assert_eq!(rules.tool("x").quadrant, quadrant);
        assert_eq!(rules.limits(ann), Limits::default());
        assert_eq!(rules.tenant(ann, true, Named::Nothing), Ok(()));
    }
}

#[test]
fn each_limit_of_each_role_holds() {
    let rules = files();
    let limit = |most, seconds| Limit {
        most,
        window: Duration::from_secs(seconds),
    };
    let limits = rules.limits(rules.identity(1001).unwrap());
    assert_eq!(limits.calls, [limit(20, 3600)]);
    // The other role says nothing of tokens, and loosens nothing.
    assert_eq!(limits.output_tokens, [limit(4000, 3600)]);
    assert_eq!(limits.per_tool, [limit(10, 60)]);
    // A role of another server counts too; 60 a minute is implied by 5.
    assert_eq!(limits.per_user, [limit(5, 60), limit(100, 3600)]);
}

#[test]
fn tenants() {
    let rules = files();
    let (ann, bob) = (rules.identity(1000).unwrap(), rules.identity(1001).unwrap());
    let at = rules.tenant_param().unwrap().clone();
    assert_eq!(rules.tenant(ann, true, Named::Text("acme")), Ok(()));
    assert_eq!(rules.tenant(ann, false, Named::Nothing), Ok(()));
    let cases = [
        (ann, true, Named::Nothing, WrongTenant::Missing(at.clone())),
        (ann, true, Named::Text("Acme"), WrongTenant::Other(at.clone())),
        (ann, true, Named::Text("acme "), WrongTenant::Other(at.clone())),
        (ann, true, Named::Other, WrongTenant::Other(at.clone())),
        (ann, false, Named::Text("other"), WrongTenant::Other(at.clone())),
        (ann, false, Named::Other, WrongTenant::Other(at.clone())),
        (bob, true, Named::Nothing, WrongTenant::Without(at.clone())),
        (bob, true, Named::Text(""), WrongTenant::Without(at.clone())),
        (bob, false, Named::Text("acme"), WrongTenant::Without(at.clone())),
    ];
    for (who, declared, named, wrong) in cases {
        assert_eq!(
            rules.tenant(who, declared, named),
            Err(wrong),
            "{} {declared} {named:?}",
            who.user
        );
    }
    let told: Vec<String> = [
        WrongTenant::Missing(at.clone()),
        WrongTenant::Other(at.clone()),
        WrongTenant::Without(at),
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    assert_eq!(
        told,
        [
            "`/tenant_id` is missing: your tenant has to be there as text",
            "`/tenant_id` is not your tenant, which has to be there as text",
            "`/tenant_id` names a tenant, and you belong to none",
        ]
    );
}

#[test]
fn servers_that_cannot_be_served() {
    let refused = |text: &str, server: &str| Rules::of_policy(&policy(text), server).unwrap_err();
    let refusal = refused(POLICY, "gone");
    assert_eq!(refusal.what, "cannot serve `gone`");
    assert_eq!(refusal.why, "the policy has no such server");
    assert_eq!(refusal.hint, "name one of its servers: files, mail");
    // A role that nobody has lets nobody in.
    let text = POLICY.replace(", \"mail\"] }", "] }");
    let refusal = refused(&text, "mail");
    assert_eq!(refusal.why, "no identity has a role that allows anything of it");
    assert_eq!(
        refusal.hint,
        "add `mail/…` to the `allow` of a role that somebody has"
    );
}

#[test]
fn rules_for_tools_that_are_not_there() {
    let rules = files();
    let told = |names: &[&str]| {
        let mut dead: Vec<String> = rules
            .without_tool(names)
            .iter()
            .map(|tool| tool.pattern.as_ref().unwrap().to_string())
            .collect();
        dead.sort();
        dead
    };
    assert_eq!(
        told(&["read_secret", "read_a", "read_image_b"]),
        Vec::<String>::new()
    );
    // `read_secret` has a rule of its own, so nothing is left for `read_*`.
    assert_eq!(told(&["read_secret", "write_file"]), ["read_*", "read_image_*"]);
}

/// A rule's id stays when its limits change, and tells rules apart.
#[test]
fn ids() {
    let ids = |text: &str| {
        let rules = Rules::of_policy(&policy(text), "files").unwrap();
        let names = ["read_secret", "read_a", "read_image_a", "else"];
        let mut ids: Vec<String> = names.iter().map(|name| rules.tool(name).id.to_string()).collect();
        ids.push(rules.tenant_rule().to_string());
        ids
    };
    let before = ids(POLICY);
    let told: std::collections::BTreeSet<&String> = before.iter().collect();
    assert_eq!(told.len(), before.len());
    assert_eq!(
        ids(&POLICY.replace("impact = \"low\"", "impact = \"high\"")),
        before
    );
    assert!(
        before
            .iter()
            .all(|id| id.len() == 10 && id.starts_with("r-") && !id.contains("read"))
    );
}
