//! `tests/mutants.toml`: what is taken away, and the test that must notice.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::test::suite::{Leg, Program};

const FILE: &str = "tests/mutants.toml";

/// One change of one file, and what must become of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// Relative to the checkout.
    pub(super) file: String,
    /// Stands in the file exactly once.
    pub(super) find: String,
    /// What stands there instead; nothing when left out.
    #[serde(default)]
    pub(super) put: String,
    /// `LEG NAME`: a leg of `tests/suite.toml` and one test of it.
    pub(super) test: String,
    /// What the failing test must say, lest it fail for another reason.
    pub(super) says: Option<String>,
    /// What the removal would mean.
    pub(super) why: String,
    /// In the sample that CI runs.
    #[serde(default)]
    pub(super) sample: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutant: Vec<Mutant>,
}

impl Mutant {
    pub(super) fn leg(&self) -> &str {
        self.test.split_once(' ').map_or("", |(leg, _)| leg)
    }
    pub(super) fn test(&self) -> &str {
        self.test.split_once(' ').map_or("", |(_, test)| test)
    }

    /// What it changes is in the eBPF object, which then has to be made anew.
    pub(super) fn is_kernel_half(&self) -> bool {
        self.file.starts_with("guard-ebpf/")
    }

    /// The file with the change in it.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let count = text.matches(&self.find).count();
        ensure!(
            count == 1,
            "mutant `{}`: its text stands {count} times in `{}`, not once: the list is stale",
            self.name,
            self.file
        );
        Ok(text.replacen(&self.find, &self.put, 1))
    }
}

/// The list, each of its texts found in its file.
pub(super) fn load(root: &Path) -> Result<Vec<Mutant>> {
    let path = root.join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
    let list = parse(&text).with_context(|| format!("use `{FILE}`"))?;
    let stale: Vec<String> = list
        .iter()
        .filter_map(|mutant| current(root, mutant).err())
        .map(|error| format!("{error:#}"))
        .collect();
    ensure!(stale.is_empty(), "`{FILE}`:\n  {}", stale.join("\n  "));
    Ok(list)
}

fn current(root: &Path, mutant: &Mutant) -> Result<()> {
    let text = fs::read_to_string(root.join(&mutant.file))
        .with_context(|| format!("mutant `{}`: read `{}`", mutant.name, mutant.file))?;
    let changed = mutant.apply(&text)?;
    ensure!(changed != text, "mutant `{}` changes nothing", mutant.name);
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let file: File = toml::from_str(text).context("parse")?;
    let mut names = BTreeSet::new();
    for mutant in &file.mutant {
        ensure!(
            names.insert(&mutant.name),
            "two mutants are called `{}`",
            mutant.name
        );
        ensure!(
            !mutant.leg().is_empty() && !mutant.test().trim().is_empty(),
            "mutant `{}`: `test` is a leg and the name of a test, as in `host:escape private::tcp4`",
            mutant.name
        );
        ensure!(
            !mutant.find.trim().is_empty(),
            "mutant `{}` finds nothing",
            mutant.name
        );
        ensure!(
            !mutant.why.trim().is_empty(),
            "mutant `{}` has no reason",
            mutant.name
        );
    }
    Ok(file.mutant)
}

/// The leg of each mutant: a leg that is not there would never turn red.
pub(super) fn leg_of<'a>(mutant: &Mutant, legs: &'a [Leg]) -> Result<&'a Leg> {
    let leg = legs
        .iter()
        .find(|leg| leg.name == mutant.leg())
        .with_context(|| format!("mutant `{}`: no leg `{}`", mutant.name, mutant.leg()))?;
    // Not every case of the virtual machines is a test program that takes a name.
    let guest = matches!(leg.program, Program::Xtask(_));
    ensure!(
        !guest || leg.guest_test().is_some(),
        "mutant `{}`: leg `{}` has no tests by name",
        mutant.name,
        leg.name
    );
    Ok(leg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(change: &str) -> String {
        format!("[[mutant]]\nname = 'a'\nfile = 'f'\nfind = 'x'\ntest = 'host:t one'\nwhy = 'w'\n{change}")
    }

    #[test]
    fn rows_are_read_and_checked() {
        let list = parse(&one("put = 'y'\nsays = 'z'")).unwrap();
        assert_eq!((list[0].leg(), list[0].test()), ("host:t", "one"));
        assert_eq!(list[0].apply("axb").unwrap(), "ayb");
        for bad in [
            one("colour = 'red'"),
            one("").replace("host:t one", "host:t"),
            one("").replace("'x'", "' '"),
            one("").replace("'w'", "''"),
            one(&one("")),
        ] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_that_is_not_there_once_is_stale() {
        let list = parse(&one("")).unwrap();
        for text in ["", "xx"] {
            let error = list[0].apply(text).unwrap_err().to_string();
            assert!(error.contains("the list is stale"), "{error}");
        }
    }

    #[test]
    fn the_committed_list_is_current() {
        let root = crate::workspace();
        let list = load(&root).unwrap();
        let legs = crate::test::suite::load(&root, false).unwrap();
        for mutant in &list {
            leg_of(mutant, &legs).unwrap();
        }
        let sample = list.iter().filter(|mutant| mutant.sample).count();
        assert!((4..=10).contains(&sample), "{sample} mutants are in the sample");
    }
}
