//! What of the caller's environment reaches the server.

use std::collections::BTreeMap;

use super::{super::environment, *};
use crate::{
    link::message::User,
    runtime::{Runtime, RuntimeKind},
};

fn built(plan: &RunPlan, client: &[(&str, &str)]) -> BTreeMap<String, String> {
    let runtime = Runtime {
        kind: RuntimeKind::Python,
        program: "/usr/bin/python3".into(),
        argv: Vec::new(),
        grants: Vec::new(),
        links: Vec::new(),
        environment: vec!["VIRTUAL_ENV".into(), "HOME".into(), "GUARD_AGENT_FAULT".into()],
        notes: Vec::new(),
    };
    let from = client
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let pairs = environment::build(plan, &runtime, &plan.user, from);
    let names: Vec<_> = pairs.iter().map(|(name, _)| name.clone()).collect();
    assert!(names.is_sorted());
    let map: BTreeMap<_, _> = pairs
        .into_iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    assert_eq!(map.len(), names.len(), "a name twice");
    map
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn only_what_is_allowed_and_asked_for() {
    let case = Case::new();
    let plan = case.accepted(&[
        "--env", "TOKEN", "--env", "ABSENT", "--env", "MODE=a=b", "--", "x",
    ]);
    let client = [
        ("PATH", "/bin"),
        ("PATH", "/second"),
        ("LC_ALL", "C"),
        ("LC", "no"),
        ("TZ", "UTC"),
        ("TOKEN", "secret"),
        ("AWS_SECRET_ACCESS_KEY", "other"),
        ("LD_PRELOAD", "/x.so"),
        ("NODE_OPTIONS", "--require /x"),
        ("SSH_AUTH_SOCK", "/s"),
        ("GUARD_AGENT_FAULT", "launch=kill"),
        ("VIRTUAL_ENV", "/venv"),
        ("HOME", "/elsewhere"),
        ("USER", "somebody"),
        ("MODE", "z"),
    ];
    let home = case.at("home/ann").display().to_string();
    let expected = [
        ("HOME", home.as_str()),
        ("LC_ALL", "C"),
        ("LOGNAME", "ann"),
        ("MODE", "a=b"),
        ("PATH", "/bin"),
        ("TOKEN", "secret"),
        ("TZ", "UTC"),
        ("USER", "ann"),
        ("VIRTUAL_ENV", "/venv"),
    ];
    assert_eq!(built(&plan, &client), map(&expected));
}

#[test]
fn a_dynamic_user_and_an_empty_client() {
    let case = Case::root();
    let plan = case.accepted(&["--", "x"]);
    assert_eq!(plan.user, User::Dynamic);
    let expected = [
        ("HOME", "/tmp"),
        ("LOGNAME", "sandbox"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("USER", "sandbox"),
    ];
    assert_eq!(built(&plan, &[]), map(&expected));
    let set = case.accepted(&["--env", "HOME=/srv/x", "--", "x"]);
    assert_eq!(built(&set, &[("HOME", "/root")])["HOME"], "/srv/x");
}

#[test]
fn names_that_are_none() {
    let case = Case::new();
    for bad in ["", "=secret", "1A", "A B", "A-B=secret", "ä"] {
        let name = bad.split('=').next().unwrap();
        case.refused(
            &["--env", bad, "--", "x"],
            &format!("cannot give the server variable `{name}`"),
            "a name has letters, digits and `_`, and does not begin with a digit",
            "write `NAME` to pass it on or `NAME=VALUE` to set it",
        );
    }
    case.refused(
        &["--env", "GUARD_AGENT_FAULT=x", "--", "x"],
        "cannot give the server variable `GUARD_AGENT_FAULT`",
        "names that begin with `GUARD_AGENT_` are guard-agent's own",
        "remove it",
    );
}
