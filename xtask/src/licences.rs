//! `cargo xtask licences`: what we are made of may be shipped, comes from one place, and each part has a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::cargo;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Both workspaces, and what each is built for.
const WORKSPACES: &[(&str, &str)] = &[
    ("Cargo.toml", cargo::PLATFORM),
    ("guard-ebpf/Cargo.toml", "bpfel-unknown-none"),
];

/// `xtask/licences.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    /// SPDX identifiers that suit a permissively licensed program.
    allow: Vec<String>,
    /// Crates of which one version is enough: two mean that one of them is not the one that was reviewed.
    single: Vec<String>,
}

/// A package as cargo tells of it.
#[derive(Debug, Clone, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    id: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, Deserialize)]
struct Dependency {
    name: String,
    path: Option<String>,
}

/// Packages of one workspace that are part of something we build.
struct Found {
    ours: Vec<Package>,
    others: Vec<Package>,
}

pub(crate) fn run() -> Result<()> {
    let root = crate::workspace();
    let path = root.join("xtask/licences.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
    let rules: Rules = toml::from_str(&text).with_context(|| format!("parse `{}`", path.display()))?;
    let mut problems = Vec::new();
    let mut direct = BTreeMap::<String, BTreeSet<String>>::new();
    let mut count = 0;
    for (manifest, platform) in WORKSPACES {
        let found = sort_out(&cargo::metadata(manifest, platform)?)?;
        count += found.others.len();
        problems.extend(found.others.iter().filter_map(|package| offence(package, &rules)));
        for line in twice(&found.others, &rules) {
            println!("warning: {manifest}: {line}");
        }
        for package in &found.ours {
            for dependency in package
                .dependencies
                .iter()
                .filter(|dependency| dependency.path.is_none())
            {
                direct
                    .entry(dependency.name.clone())
                    .or_default()
                    .insert(package.name.clone());
            }
        }
    }
    let page = root.join("docs/dependencies.md");
    let text = fs::read_to_string(&page).with_context(|| format!("read `{}`", page.display()))?;
    problems.extend(undocumented(&text, &direct));
    ensure!(count > 50, "cargo told of only {count} dependencies");
    problems.iter().for_each(|line| println!("{line}"));
    ensure!(problems.is_empty(), "licences: {} problems", problems.len());
    println!("licences: {count} packages, {} direct dependencies", direct.len());
    Ok(())
}

fn sort_out(metadata: &Value) -> Result<Found> {
    let strings = |value: &Value| -> BTreeSet<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let members = strings(&metadata["workspace_members"]);
    // Packages that are locked but for other platforms are not in the resolved graph.
    let used: BTreeSet<String> = metadata["resolve"]["nodes"]
        .as_array()
        .context("cargo resolved nothing")?
        .iter()
        .filter_map(|node| node["id"].as_str().map(str::to_owned))
        .collect();
    let packages: Vec<Package> =
        serde_json::from_value(metadata["packages"].clone()).context("read cargo's packages")?;
    let (ours, others) = packages
        .into_iter()
        .filter(|package| used.contains(&package.id))
        .partition(|package| members.contains(&package.id));
    Ok(Found { ours, others })
}

/// What keeps a package from being part of ours.
fn offence(package: &Package, rules: &Rules) -> Option<String> {
    let name = format!("{} {}", package.name, package.version);
    match package.source.as_deref() {
        // A package of our own that the other workspace uses.
        None if package.name.starts_with("guard-") => return None,
        Some(CRATES_IO) => {}
        other => {
            return Some(format!(
                "{name}: comes from {}",
                other.unwrap_or("a path outside the workspace")
            ));
        }
    }
    let Some(text) = &package.license else {
        return Some(format!("{name}: names no licence"));
    };
    match permitted(text, &rules.allow) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name}: licence `{text}` is not among those allowed")),
        Err(error) => Some(format!("{name}: {error:#}")),
    }
}

fn permitted(text: &str, allow: &[String]) -> Result<bool> {
    // Old packages write `MIT/Apache-2.0`.
    let parsed = spdx::Expression::parse_mode(text, spdx::ParseMode::LAX);
    let expression = match parsed {
        Ok(expression) => expression,
        Err(error) => bail!("licence `{text}` is no SPDX expression: {}", error.reason),
    };
    Ok(expression.evaluate(|wanted| allow.iter().any(|allowed| *allowed == wanted.to_string())))
}

fn twice(packages: &[Package], rules: &Rules) -> Vec<String> {
    let mut versions = BTreeMap::<&str, BTreeSet<&str>>::new();
    for package in packages
        .iter()
        .filter(|package| rules.single.contains(&package.name))
    {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
    }
    versions
        .into_iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| {
            format!(
                "{name} is there as {}",
                versions.into_iter().collect::<Vec<_>>().join(" and ")
            )
        })
        .collect()
}

/// Compares the page's rows `| name | used by | why |` with the direct dependencies.
fn undocumented(page: &str, direct: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut rows = BTreeMap::<String, (BTreeSet<String>, bool)>::new();
    let mut problems = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, users, why] = cells.as_slice() else {
            problems.push(format!("docs/dependencies.md: `{line}` has not three cells"));
            continue;
        };
        let users = users.split(',').map(|user| user.trim().to_owned()).collect();
        if rows
            .insert(name.trim_matches('`').to_owned(), (users, why.len() > 10))
            .is_some()
        {
            problems.push(format!("docs/dependencies.md: two rows for {name}"));
        }
    }
    for (name, users) in direct {
        let list = users.iter().cloned().collect::<Vec<_>>().join(", ");
        match rows.remove(name) {
            None => problems.push(format!("docs/dependencies.md: no row for `{name}` ({list})")),
            Some((_, false)) => problems.push(format!("docs/dependencies.md: no reason for `{name}`")),
            Some((told, true)) if told != *users => {
                problems.push(format!("docs/dependencies.md: `{name}` is used by {list}"));
            }
            Some(_) => {}
        }
    }
    problems.extend(
        rows.into_keys()
            .map(|name| format!("docs/dependencies.md: `{name}` is no direct dependency")),
    );
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules {
            allow: ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
                .map(str::to_owned)
                .to_vec(),
            single: vec!["ring".to_owned()],
        }
    }

    fn package(name: &str, version: &str, license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
            id: String::new(),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn licences_are_judged() {
        let allow = rules().allow;
        for (text, good) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-2.0-only OR MIT", true),
            ("GPL-2.0-only AND MIT", false),
            ("LGPL-2.1-or-later", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0-only", false),
        ] {
            assert_eq!(permitted(text, &allow).unwrap(), good, "{text}");
        }
        assert!(permitted("what I like", &allow).is_err());
    }

    #[test]
    fn offenders_are_named() {
        let of = |license, source| offence(&package("x", "1.0.0", license, source), &rules());
        assert_eq!(of(Some("MIT"), Some(CRATES_IO)), None);
        assert!(of(None, Some(CRATES_IO)).unwrap().contains("names no licence"));
        assert!(
            of(Some("MIT"), Some("git+https://example.org/x"))
                .unwrap()
                .contains("comes from git")
        );
        assert!(of(Some("MIT"), None).unwrap().contains("a path outside"));
        assert!(
            of(Some("GPL-3.0-only"), Some(CRATES_IO))
                .unwrap()
                .contains("not among")
        );
    }

    #[test]
    fn two_versions_of_a_critical_crate_are_told() {
        let at = |name, version| package(name, version, None, None);
        let list = [
            at("ring", "1.0.0"),
            at("ring", "2.0.0"),
            at("syn", "1.0.0"),
            at("syn", "2.0.0"),
        ];
        assert_eq!(twice(&list, &rules()), ["ring is there as 1.0.0 and 2.0.0"]);
    }

    #[test]
    fn the_page_and_the_manifests_agree() {
        let users = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let direct = BTreeMap::from([
            ("a".to_owned(), users(&["x", "y"])),
            ("b".to_owned(), users(&["x"])),
        ]);
        let good = "| crate | used by | why |\n|---|---|---|\n| `a` | x, y | because of this |\n| `b` | x | because of that |\n";
        assert_eq!(undocumented(good, &direct), Vec::<String>::new());
        for (page, part) in [
            ("| `a` | x, y | because of this |", "no row for `b`"),
            (
                "| `a` | x | because of this |\n| `b` | x | because of that |",
                "used by x, y",
            ),
            (
                "| `a` | x, y | |\n| `b` | x | because of that |",
                "no reason for `a`",
            ),
            (
                &format!("{good}| `c` | x | because of that |"),
                "no direct dependency",
            ),
            (&format!("{good}| `b` | x | because of that |"), "two rows"),
        ] {
            let found = undocumented(page, &direct);
            assert!(found.iter().any(|line| line.contains(part)), "{part}: {found:?}");
        }
    }
}
