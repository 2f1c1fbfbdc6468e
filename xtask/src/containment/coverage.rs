//! `tests/coverage.toml`: which probes and tests cover the cases that users of comparable tools reported, and the
//! ways into the network.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    apt, cargo,
    test::suite::{Leg, Program},
};

const FILE: &str = "tests/coverage.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) what: String,
    /// `probe NAME`, or a leg and a test of it.
    pub(super) by: Vec<String>,
    /// What is still without a test.
    pub(super) open: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

pub(super) fn load(root: &Path) -> Result<Vec<Case>> {
    let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("read `{FILE}`"))?;
    let file: File = toml::from_str(&text).with_context(|| format!("parse `{FILE}`"))?;
    let mut ids = BTreeSet::new();
    for case in &file.case {
        ensure!(
            ids.insert(&case.id),
            "`{FILE}`: two cases are called `{}`",
            case.id
        );
        ensure!(
            !case.by.is_empty() || case.open.is_some(),
            "`{FILE}`: case `{}` is covered by nothing and does not say so",
            case.id
        );
    }
    Ok(file.case)
}

/// Every name that covers something exists.
pub(super) fn check(cases: &[Case], probes: &BTreeSet<String>, legs: &[Leg]) -> Result<()> {
    let mut lists = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in cases {
        for by in &case.by {
            let (place, name) = by.split_once(' ').with_context(|| format!("`{by}` is no name"))?;
            let there = if place == "probe" {
                probes.contains(name)
            } else {
                if !lists.contains_key(place) {
                    lists.insert(place.to_owned(), tests(place, legs)?);
                }
                lists
                    .get(place)
                    .is_some_and(|list: &BTreeSet<String>| list.contains(name))
            };
            if !there {
                wrong.push(format!("case `{}`: `{by}` does not exist", case.id));
            }
        }
    }
    ensure!(wrong.is_empty(), "`{FILE}`:\n{}", wrong.join("\n"));
    Ok(())
}

/// The tests of a leg, as its program lists them. What runs in a virtual machine is the same program.
fn tests(leg: &str, legs: &[Leg]) -> Result<BTreeSet<String>> {
    let leg = legs
        .iter()
        .find(|known| known.name == leg)
        .with_context(|| format!("`{FILE}`: no leg `{leg}`"))?;
    let mut args: Vec<String> = match &leg.program {
        Program::Cargo(args) => args.clone(),
        Program::Xtask(args) => {
            let Some(test) = args.iter().find_map(|arg| arg.strip_prefix("test:")) else {
                bail!("leg `{}` has no tests by name", leg.name);
            };
            ["test", "--package", "guard-tests", "--test", test]
                .map(str::to_owned)
                .to_vec()
        }
    };
    if !args.iter().any(|arg| arg == "--") {
        args.push("--".to_owned());
    }
    args.push("--list".to_owned());
    let list = apt::output(cargo::command().args(["--quiet"]).args(&args))
        .with_context(|| format!("list the tests of `{}`", leg.name))?;
    let names: BTreeSet<String> = list
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        // What has a kind has it in brackets before the name.
        .map(|name| name.split_once("] ").map_or(name, |(_, name)| name).to_owned())
        .collect();
    ensure!(!names.is_empty(), "leg `{}` lists no tests", leg.name);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_exist_is_found() {
        let case = |by: &str| Case {
            id: "T".into(),
            what: "w".into(),
            by: vec![by.into()],
            open: None,
        };
        let probes = BTreeSet::from(["tcp4".to_owned()]);
        check(&[case("probe tcp4")], &probes, &[]).unwrap();
        let error = check(&[case("probe tcp5")], &probes, &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("`probe tcp5` does not exist"), "{error}");
        assert!(check(&[case("host:none a")], &probes, &[]).is_err());
    }

    #[test]
    fn the_committed_file_is_readable() {
        assert!(load(&crate::workspace()).unwrap().len() > 30);
    }
}
