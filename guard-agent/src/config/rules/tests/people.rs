//! Identities and approvals that are refused.

use super::{BASE, all_refused, refused};

/// [`BASE`] with another identity; its line is 10.
fn identity(line: &str) -> String {
    let kept: Vec<&str> = BASE.lines().filter(|line| !line.starts_with("peer")).collect();
    format!("{}\n{line}\n", kept.join("\n"))
}

#[test]
fn nobody_is_known() {
    const FIX: &str =
        "add a role, and who has it: `[identity] peer.uid.1000 = { user = \"ann\", roles = [\"clerk\"] }`";
    all_refused(
        "[server.a]\ncommand = [\"x\"]\n",
        0,
        "it locks out everybody: without `[identity]` nobody has a role, and without a role nothing is allowed",
        FIX,
    );
    all_refused(
        "[server.a]\n[identity]\ntenant_param = \"/t\"\n",
        2,
        "it locks out everybody: `peer.uid` names nobody",
        FIX,
    );
}

#[test]
fn uids() {
    for (uid, why) in [
        ("ann", "it is no uid"),
        ("01000", "it is no uid"),
        ("-1", "it is no uid"),
        ("4294967296", "it is no uid"),
        ("4294967295", "uid 4294967295 is no user"),
        ("65534", "uid 65534 stands for nobody in particular"),
    ] {
        all_refused(
            &identity(&format!(
                "peer.uid.{uid} = {{ user = \"u\", roles = [\"clerk\"] }}"
            )),
            10,
            &format!("identity `{uid}`: {why}"),
            "give the number that `id -u` says",
        );
    }
}

#[test]
fn roles_of_people() {
    let with = |rest: &str| identity(&format!("peer.uid.1000 = {{ user = \"ann\"{rest} }}"));
    for rest in ["", ", roles = []"] {
        all_refused(
            &with(rest),
            10,
            "user `ann` has no role, so nothing is allowed",
            "add `roles = [\"…\"]`, or remove the user",
        );
    }
    all_refused(
        &with(", roles = [\"clark\"]"),
        10,
        "user `ann`: there is no `[role.clark]`",
        "name a role of this file; did you mean `clerk`?",
    );
    all_refused(
        &with(", roles = [\"clerk\", \"clerk\"]"),
        10,
        "user `ann` has role `clerk` twice",
        "remove one of the two",
    );
}

#[test]
fn labels() {
    let with = |user: &str, tenant: &str| {
        identity(&format!(
            "peer.uid.1000 = {{ user = \"{user}\", tenant = \"{tenant}\", roles = [\"clerk\"] }}"
        ))
    };
    let fix = "use ASCII without spaces: other letters can look like these";
    all_refused(
        &with("ann b", "t"),
        10,
        "user `ann b`: ` ` (U+0020) is no visible ASCII character",
        fix,
    );
    all_refused(
        &with("ann", "\u{430}cme"),
        10,
        "tenant `\u{430}cme`: `\u{430}` (U+0430) is no visible ASCII character",
        fix,
    );
    all_refused(
        &with("", "t"),
        10,
        "user ``: a name has 1 to 128 characters",
        "choose another name",
    );
}

#[test]
fn where_the_tenant_stands() {
    let with = |param: &str, who: &str| identity(&format!("{who}\ntenant_param = \"{param}\""));
    let ann = "peer.uid.1000 = { user = \"ann\", tenant = \"acme\", roles = [\"clerk\"] }";
    let fix = "write it as `/tenant_id`";
    all_refused(
        &with("tenant", ann),
        11,
        "`tenant_param` `tenant`: a JSON Pointer begins with `/`",
        fix,
    );
    all_refused(
        &with("/t/*", ann),
        11,
        "`tenant_param` `/t/*`: a call has one tenant, not a list of them",
        fix,
    );
    all_refused(
        &with("/t", "peer.uid.1000 = { user = \"ann\", roles = [\"clerk\"] }"),
        11,
        "no identity has a `tenant` (uid 1000 for one), so no call that names one is allowed",
        "give identities a `tenant`, or remove `tenant_param`",
    );
}

const KEY: &str = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
const OTHER: &str = "ed25519:PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";

fn operators(list: &[(&str, &str, &str, &str)]) -> String {
    let entries: Vec<String> = list
        .iter()
        .map(|(name, key, servers, tenants)| {
            format!("{{ name = \"{name}\", key = \"{key}\", servers = [{servers}], tenants = [{tenants}] }}")
        })
        .collect();
    format!("[approval]\noperators = [{}]\n", entries.join(", "))
}

#[test]
fn operators_are_told_apart() {
    let one = ("bob", KEY, "\"files\"", "\"acme\"");
    super::added(&operators(&[one, ("eve", OTHER, "\"files\"", "")]));
    refused(
        &operators(&[one, ("bob", OTHER, "\"files\"", "")]),
        2,
        "there are two operators `bob`",
        "give each a name of its own",
    );
    refused(
        &operators(&[one, ("eve", KEY, "\"files\"", "")]),
        2,
        "operators `bob` and `eve` have one key",
        "give each a key of its own, or a record could not say who approved",
    );
}

#[test]
fn keys() {
    // A point of small order, as short, and without its kind.
    for key in [
        "ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "ed25519:AAAA",
        "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        "ed25519:…",
    ] {
        refused(
            &operators(&[("bob", key, "\"files\"", "")]),
            2,
            "operator `bob`: `key` is no Ed25519 public key",
            "write `ed25519:` and the 32 bytes of the public key in base64",
        );
    }
}

#[test]
fn what_operators_may_approve() {
    refused(
        &operators(&[("bob", KEY, "", "")]),
        2,
        "operator `bob` may approve nothing: `servers` is empty",
        "name a server, or remove the operator",
    );
    refused(
        &operators(&[("bob", KEY, "\"file\"", "")]),
        2,
        "operator `bob`: `file` is no `[server.…]` of this file",
        "correct the server; did you mean `files`?",
    );
    refused(
        &operators(&[("bob", KEY, "\"files\"", "\"Acme\"")]),
        2,
        "operator `bob`: `Acme` is the tenant of no identity",
        "correct the tenant; did you mean `acme`?",
    );
}

#[test]
fn how_long_an_approval_lives() {
    let shorter = "give a shorter time";
    refused(
        "[approval]\npending_ttl = \"2d\"\n",
        2,
        "`pending_ttl` is longer than a day",
        shorter,
    );
    refused(
        "[approval]\nredeem_ttl = \"11m\"\n",
        2,
        "`redeem_ttl` is longer than 10 minutes",
        shorter,
    );
}
