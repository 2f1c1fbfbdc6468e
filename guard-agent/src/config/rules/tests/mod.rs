//! Every refusal of a rule by its exact text, and what rules mean that stand.

mod fuzz;
mod meaning;
mod page;
mod patterns;
mod people;
mod roles;
mod tools;

use std::path::Path;

use super::{Policy, parse};
use crate::{exit::ExitStatus, refusal::Refusal};

/// A policy with which nothing is wrong; what a test is about is added below it.
const BASE: &str = r#"[server.files]
command = ["x"]
roots = [{ path = "/srv/docs", rights = "rw" }, { path = "/srv/ref", rights = "rx" }]
[server.files.tool."read_*"]
impact = "low"
reversible = true
[role.clerk]
allow = ["files/*"]
[identity]
peer.uid.1000 = { user = "ann", tenant = "acme", roles = ["clerk"] }
"#;

fn read(text: &str) -> Result<Policy, Refusal> {
    parse(Path::new("p.toml"), text, "sha256:0".to_owned())
}

fn added(text: &str) -> Policy {
    read(&format!("{BASE}{text}")).unwrap_or_else(|refusal| panic!("{text}\n{refusal}"))
}

/// `text` below [`BASE`] is refused at its line `line`.
#[track_caller]
fn refused(text: &str, line: usize, why: &str, fix: &str) {
    let refusal = read(&format!("{BASE}{text}")).expect_err(text);
    let line = BASE.lines().count() + line;
    assert_eq!(
        refusal.what,
        format!("cannot use policy `p.toml`, line {line}"),
        "{text}\n{refusal}"
    );
    assert_eq!(
        (refusal.why.as_str(), refusal.hint.as_str()),
        (why, fix),
        "{text}"
    );
    assert_eq!(refusal.exit, ExitStatus::Usage);
}

/// The whole of `text` is refused; line 0: no line is named.
#[track_caller]
fn all_refused(text: &str, line: usize, why: &str, fix: &str) {
    let refusal = read(text).expect_err(text);
    let place = if line == 0 {
        String::new()
    } else {
        format!(", line {line}")
    };
    assert_eq!(
        refusal.what,
        format!("cannot use policy `p.toml`{place}"),
        "{text}\n{refusal}"
    );
    assert_eq!(
        (refusal.why.as_str(), refusal.hint.as_str()),
        (why, fix),
        "{text}"
    );
}
