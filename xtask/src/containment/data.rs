//! What the runs reported, and the words for each probe.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use walkdir::WalkDir;

const WORDS: &str = "tests/probes.toml";

/// A line of `GUARD_TEST_REPORT`; see `tests/src/report.rs`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub(super) probe: String,
    pub(super) view: String,
    pub(super) leg: String,
    pub(super) tier: String,
    pub(super) kernel: String,
    pub(super) verdict: Verdict,
    pub(super) outcome: String,
    pub(super) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    Refused,
    NotApplicable,
    ByDesign,
    Failed,
}

/// A section of `tests/probes.toml`.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) title: String,
    /// Probe and what it tries, in the order of the file.
    pub(super) probes: Vec<(String, String)>,
}

pub(super) fn families(root: &Path) -> Result<Vec<Family>> {
    let text = fs::read_to_string(root.join(WORDS)).with_context(|| format!("read `{WORDS}`"))?;
    parse(&text).with_context(|| format!("use `{WORDS}`"))
}

/// Read line by line: the order of sections and words is that of the page, which a table of TOML would not keep.
fn parse(text: &str) -> Result<Vec<Family>> {
    let table: toml::Table = toml::from_str(text).context("parse")?;
    let mut families: Vec<Family> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let title = table[name]["title"]
                .as_str()
                .with_context(|| format!("section `{name}` has no title"))?;
            families.push(Family {
                title: title.to_owned(),
                probes: Vec::new(),
            });
        } else if let Some(rest) = line.strip_prefix("words.") {
            let family = families.last_mut().context("words before the first section")?;
            let (name, words) = rest.split_once(" = ").context("words without text")?;
            family
                .probes
                .push((name.to_owned(), words.trim_matches('"').to_owned()));
        }
    }
    ensure!(
        families.iter().all(|family| !family.probes.is_empty()),
        "a section without probes"
    );
    Ok(families)
}

pub(super) fn words(families: &[Family]) -> BTreeSet<String> {
    families
        .iter()
        .flat_map(|family| family.probes.iter().map(|(name, _)| name.clone()))
        .collect()
}

/// Every line of every report below a directory.
pub(super) fn rows(dir: &Path) -> Result<Vec<Row>> {
    let mut files: Vec<_> = WalkDir::new(dir)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("list `{}`", dir.display()))?
        .into_iter()
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .collect();
    files.sort();
    let mut rows = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("read `{}`", file.display()))?;
        for line in text.lines() {
            rows.push(serde_json::from_str(line).with_context(|| format!("read `{}`", file.display()))?);
        }
    }
    ensure!(!rows.is_empty(), "no report below `{}`", dir.display());
    Ok(rows)
}

/// Fails with what one has and the other lacks.
pub(super) fn same(place: &str, has: &BTreeSet<String>, probes: &BTreeSet<String>) -> Result<()> {
    let missing: Vec<_> = probes.difference(has).collect();
    let unknown: Vec<_> = has.difference(probes).collect();
    ensure!(
        missing.is_empty() && unknown.is_empty(),
        "`{place}` lacks the probes {missing:?} and has {unknown:?}, which do not exist"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_order() {
        let text = "[b]\ntitle = \"B\"\nwords.z = \"last letter\"\nwords.a = \"first\"\n[a]\ntitle = \"A\"\nwords.c = \"c\"\n";
        let families = parse(text).unwrap();
        assert_eq!(families[0].title, "B");
        assert_eq!(families[0].probes[0], ("z".to_owned(), "last letter".to_owned()));
        assert!(parse("[a]\ntitle = \"A\"\n").is_err());
    }

    #[test]
    fn differences_are_named_both_ways() {
        let set = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        same("p", &set(&["a"]), &set(&["a"])).unwrap();
        let error = same("p", &set(&["a", "x"]), &set(&["a", "b"]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("[\"b\"]") && error.contains("[\"x\"]"), "{error}");
    }
}
