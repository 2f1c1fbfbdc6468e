//! Every package keeps the shared lints: the workspace's by inheritance, the eBPF half by an equal list.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use toml::Table;

/// Lints of the workspace that mean nothing in the kernel, where all is unsafe and nothing prints or allocates.
const NOT_IN_KERNEL: &[&str] = &[
    "rust::unsafe_code",
    "clippy::print_stdout",
    "clippy::needless_pass_by_value",
    "clippy::implicit_clone",
    "clippy::redundant_closure_for_method_calls",
    "clippy::uninlined_format_args",
    "clippy::rc_mutex",
    "clippy::mem_forget",
];

pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let workspace = read(root, "Cargo.toml")?;
    let members = workspace
        .get("workspace")
        .and_then(|table| table.get("members")?.as_array())
        .context("`Cargo.toml` has no members")?;
    let mut problems = Vec::new();
    for member in members.iter().filter_map(toml::Value::as_str) {
        let path = format!("{member}/Cargo.toml");
        if !inherits(&read(root, &path)?) {
            problems.push(format!("{path}: without `[lints] workspace = true`"));
        }
    }
    let shared = lints(workspace.get("workspace").and_then(|table| table.get("lints")));
    let kernel = lints(read(root, "guard-ebpf/Cargo.toml")?.get("lints"));
    problems.extend(compare(&shared, &kernel));
    Ok(problems)
}

fn read(root: &Path, path: &str) -> Result<Table> {
    let text = fs::read_to_string(root.join(path)).with_context(|| format!("read `{path}`"))?;
    text.parse().with_context(|| format!("parse `{path}`"))
}

fn inherits(manifest: &Table) -> bool {
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    lints.and_then(toml::Value::as_bool) == Some(true)
}

/// `tool::lint` → level.
fn lints(table: Option<&toml::Value>) -> BTreeMap<String, String> {
    let tools = table.and_then(toml::Value::as_table).into_iter().flatten();
    tools
        .flat_map(|(tool, lints)| {
            let lints = lints.as_table().into_iter().flatten();
            lints.filter_map(move |(name, value)| {
                let level = value.as_str().or_else(|| value.get("level")?.as_str())?;
                Some((format!("{tool}::{name}"), level.to_owned()))
            })
        })
        .collect()
}

fn compare(shared: &BTreeMap<String, String>, kernel: &BTreeMap<String, String>) -> Vec<String> {
    let strict = |level: &str| {
        ["allow", "warn", "deny", "forbid"]
            .iter()
            .position(|known| *known == level)
    };
    let mut problems = Vec::new();
    for (lint, level) in shared
        .iter()
        .filter(|(lint, _)| !NOT_IN_KERNEL.contains(&lint.as_str()))
    {
        match kernel.get(lint) {
            None => problems.push(format!(
                "guard-ebpf/Cargo.toml: lint `{lint}` of the workspace is missing"
            )),
            Some(own) if strict(own) < strict(level) => {
                problems.push(format!(
                    "guard-ebpf/Cargo.toml: `{lint}` is `{own}`, the workspace has `{level}`"
                ));
            }
            Some(_) => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weaker_and_missing_lints_are_found() {
        let list = |text: &str| lints(text.parse::<Table>().unwrap().get("lints"));
        let shared =
            list("[lints.rust]\na = 'deny'\nb = { level = 'warn', priority = -1 }\nunsafe_code = 'deny'");
        assert_eq!(
            compare(&shared, &list("[lints.rust]\na = 'forbid'\nb = 'warn'")),
            Vec::<String>::new()
        );
        let problems = compare(&shared, &list("[lints.rust]\na = 'warn'"));
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn inheritance_is_seen() {
        assert!(inherits(&"[lints]\nworkspace = true".parse().unwrap()));
        assert!(!inherits(&"[lints.rust]\na = 'warn'".parse().unwrap()));
        assert!(!inherits(&"[package]\nname = 'x'".parse().unwrap()));
    }
}
