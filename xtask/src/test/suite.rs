//! `tests/suite.toml`: which legs there are. What is not declared there fails, so nothing is left out in silence.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// What a leg runs when its row does not say otherwise.
const MINUTES: u64 = 10;

/// One row of the file: exactly one of `unit`, `test` and `vm`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Row {
    /// Package whose unit tests run.
    unit: Option<String>,
    /// `[[test]]` of guard-tests, on this machine.
    test: Option<String>,
    /// Case of `cargo xtask vm`.
    vm: Option<String>,
    /// What tells this leg from another of the same test.
    variant: Option<String>,
    /// Kernels of a `vm` row; a leg each.
    kernels: Vec<String>,
    features: Vec<String>,
    /// Cargo's target selection of a `unit` row.
    targets: Vec<String>,
    /// Further arguments: of `cargo xtask vm` before the case, of the test program after it.
    args: Vec<String>,
    /// What a `vm` row gives the test program itself.
    after: Vec<String>,
    env: BTreeMap<String, String>,
    /// What `--full` adds to `env`.
    env_full: BTreeMap<String, String>,
    /// Only with `--full`.
    full: bool,
    threads: Option<u32>,
    minutes: Option<u64>,
    /// How many tests are marked as ignored; more or fewer fail the leg.
    ignored: u64,
    /// There are no tests, only what the compiler checks; a test that appears fails the leg until this is gone.
    empty: bool,
    /// The agent beside the tests is one that fails on request.
    faults: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    leg: Vec<Row>,
}

/// What a leg starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// Cargo with these arguments.
    Cargo(Vec<String>),
    /// This program, as `cargo xtask` does, with these.
    Xtask(Vec<String>),
}

#[derive(Debug, Clone)]
pub(crate) struct Leg {
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) minutes: u64,
    pub(crate) ignored: u64,
    pub(crate) empty: bool,
    pub(crate) full: bool,
    /// Whether the agent has to lie beside it, and of which kind.
    pub(crate) agent: Option<&'static [&'static str]>,
}

impl Leg {
    /// The test program that the leg runs in a virtual machine, and whether its agent fails on request.
    pub(crate) fn guest_test(&self) -> Option<(&str, bool)> {
        let Program::Xtask(args) = &self.program else {
            return None;
        };
        let test = args.iter().find_map(|arg| arg.strip_prefix("test:"))?;
        Some((test, args.iter().any(|arg| arg == "--faults")))
    }
}

/// Every leg of the file, in its order.
pub(crate) fn load(root: &Path, full: bool) -> Result<Vec<Leg>> {
    let path = root.join("tests/suite.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
    parse(&text, full).with_context(|| format!("use `{}`", path.display()))
}

fn parse(text: &str, full: bool) -> Result<Vec<Leg>> {
    let file: File = toml::from_str(text).context("parse")?;
    let mut legs = Vec::new();
    for row in file.leg {
        legs.extend(expand(&row, full)?);
    }
    let mut seen = BTreeSet::new();
    for leg in &legs {
        ensure!(seen.insert(&leg.name), "two legs are called `{}`", leg.name);
    }
    Ok(legs)
}

fn expand(row: &Row, full: bool) -> Result<Vec<Leg>> {
    let named = (row.unit.clone(), row.test.clone(), row.vm.clone());
    let programs = match named {
        (Some(package), None, None) => vec![unit(row, &package)],
        (None, Some(test), None) => vec![host(row, &test)],
        (None, None, Some(case)) => {
            ensure!(!row.kernels.is_empty(), "`vm = \"{case}\"` names no kernels");
            row.kernels
                .iter()
                .map(|kernel| guest(row, &case, kernel, full))
                .collect()
        }
        _ => bail!("a leg has exactly one of `unit`, `test` and `vm`: {row:?}"),
    };
    let mut env = row.env.clone();
    if full {
        env.extend(row.env_full.clone());
    }
    let agent: Option<&'static [&'static str]> = match (&row.test, row.faults) {
        (None, _) => None,
        (Some(_), true) => Some(&["faults"]),
        (Some(_), false) => Some(&[]),
    };
    // A guest gets its environment through the runner's arguments.
    if row.vm.is_some() {
        env.clear();
    } else if let Some(threads) = row.threads {
        env.insert("RUST_TEST_THREADS".to_owned(), threads.to_string());
    }
    Ok(programs
        .into_iter()
        .map(|(name, program)| Leg {
            name: match &row.variant {
                Some(variant) => format!("{name}+{variant}"),
                None => name,
            },
            program,
            env: env.clone(),
            minutes: row.minutes.unwrap_or(MINUTES),
            ignored: row.ignored,
            empty: row.empty,
            full: row.full,
            agent,
        })
        .collect())
}

fn unit(row: &Row, package: &str) -> (String, Program) {
    let mut name = format!("unit:{package}");
    let mut args: Vec<String> = ["test", "--package", package].map(str::to_owned).to_vec();
    args.extend(row.targets.iter().cloned());
    if !row.features.is_empty() {
        let features = row.features.join(",");
        name = format!("{name}+{features}");
        args.extend(["--features".to_owned(), features]);
    }
    (name, Program::Cargo(with_test_args(args, &row.args)))
}

fn host(row: &Row, test: &str) -> (String, Program) {
    let args = ["test", "--package", "guard-tests", "--test", test].map(str::to_owned);
    (
        format!("host:{test}"),
        Program::Cargo(with_test_args(args.to_vec(), &row.args)),
    )
}

fn with_test_args(mut args: Vec<String>, further: &[String]) -> Vec<String> {
    if !further.is_empty() {
        args.push("--".to_owned());
        args.extend_from_slice(further);
    }
    args
}

fn guest(row: &Row, case: &str, kernel: &str, full: bool) -> (String, Program) {
    let mut args: Vec<String> = ["vm", "--kernel", kernel].map(str::to_owned).to_vec();
    let mut env = row.env.clone();
    if full {
        env.extend(row.env_full.clone());
    }
    if let Some(threads) = row.threads {
        env.insert("RUST_TEST_THREADS".to_owned(), threads.to_string());
    }
    for (name, value) in env {
        args.extend(["--env".to_owned(), format!("{name}={value}")]);
    }
    args.extend(row.args.iter().cloned());
    args.push(case.to_owned());
    args.extend(row.after.iter().cloned());
    let short = case.strip_prefix("test:").unwrap_or(case);
    (format!("vm-{kernel}:{short}"), Program::Xtask(args))
}

/// Compares the file with what cargo knows: every test of guard-tests and every package's unit tests have a leg.
pub(crate) fn complete(legs: &[Leg], metadata: &Value) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let members: BTreeSet<String> = metadata["workspace_members"]
        .as_array()
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    let packages = metadata["packages"]
        .as_array()
        .context("cargo named no packages")?;
    let mut wanted = BTreeSet::new();
    let mut tests = BTreeSet::new();
    for package in packages
        .iter()
        .filter(|package| members.contains(&text(&package["id"])))
    {
        wanted.insert(format!("unit:{}", text(&package["name"])));
        if package["name"] == "guard-tests" {
            let targets = package["targets"].as_array().into_iter().flatten();
            let kind = |target: &Value| {
                target["kind"]
                    .as_array()
                    .is_some_and(|k| k.iter().any(|k| k == "test"))
            };
            tests.extend(
                targets
                    .filter(|target| kind(target))
                    .map(|target| text(&target["name"])),
            );
        }
    }
    let unit = |name: &str| legs.iter().any(|leg| leg.name.split('+').next() == Some(name));
    let has = |test: &str| {
        legs.iter().any(|leg| {
            leg.name
                .split_once(':')
                .is_some_and(|(_, name)| name.split('+').next() == Some(test))
        })
    };
    let mut missing: Vec<String> = wanted.into_iter().filter(|name| !unit(name)).collect();
    missing.extend(tests.into_iter().filter(|test| !has(test)));
    ensure!(
        missing.is_empty(),
        "`tests/suite.toml` has no leg for {}: every test is declared there, so that none is left out",
        missing.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = r#"
        [[leg]]
        unit = "a"
        features = ["faults"]
        [[leg]]
        test = "escape"
        threads = 1
        env = { LEG = "host" }
        env_full = { ROUNDS = "100" }
        [[leg]]
        test = "escape"
        variant = "t3"
        [[leg]]
        vm = "test:limits"
        kernels = ["6.1", "6.12"]
        env = { LEG = "vm" }
    "#;

    fn names(legs: &[Leg]) -> Vec<&str> {
        legs.iter().map(|leg| leg.name.as_str()).collect()
    }

    #[test]
    fn rows_become_legs() {
        let legs = parse(FILE, true).unwrap();
        assert_eq!(
            names(&legs),
            [
                "unit:a+faults",
                "host:escape",
                "host:escape+t3",
                "vm-6.1:limits",
                "vm-6.12:limits"
            ]
        );
        let env: Vec<&str> = legs[1].env.values().map(String::as_str).collect();
        assert_eq!(env, ["host", "100", "1"]);
        let Program::Xtask(args) = &legs[3].program else {
            panic!("{:?}", legs[3])
        };
        assert_eq!(args, &["vm", "--kernel", "6.1", "--env", "LEG=vm", "test:limits"]);
        assert_eq!(parse(FILE, false).unwrap()[1].env.len(), 2);
    }

    #[test]
    fn bad_rows_are_refused() {
        for bad in [
            "[[leg]]\nthreads = 1",
            "[[leg]]\nunit = 'a'\ntest = 'b'",
            "[[leg]]\nunit = 'a'\nthread = 1",
            "[[leg]]\nvm = 'selftest'",
            "[[leg]]\ntest = 'a'\n[[leg]]\ntest = 'a'",
            "[[leg]]\ntest = 'a'\nvariant = 'v'\n[[leg]]\ntest = 'a'\nvariant = 'v'",
        ] {
            assert!(parse(bad, false).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_test_without_a_leg_is_found() {
        let target = |name: &str, kind: &str| json!({ "name": name, "kind": [kind] });
        let metadata = json!({
            "workspace_members": ["t"],
            "packages": [
                { "id": "t", "name": "guard-tests", "targets": [target("escape", "test"), target("probe", "bin")] },
                { "id": "x", "name": "serde", "targets": [target("other", "test")] },
            ],
        });
        let legs = |text: &str| parse(text, false).unwrap();
        let all = "[[leg]]\nunit = 'guard-tests'\n[[leg]]\ntest = 'escape'";
        complete(&legs(all), &metadata).unwrap();
        let error = complete(&legs("[[leg]]\ntest = 'other'"), &metadata)
            .unwrap_err()
            .to_string();
        assert!(error.contains("unit:guard-tests, escape"), "{error}");
    }
}
