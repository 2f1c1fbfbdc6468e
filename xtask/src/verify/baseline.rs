//! What the verifier walked when the baseline was written, by kernel series, and how a run compares with it.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Deserialize;

const HEAD: &str = "# Instructions the verifier walks in each program of `guard.bpf.o`, by kernel series.\n\
                    # Written by `cargo xtask verify --update`.\n";
/// Percent by which a count may differ before somebody has to look.
const TOLERANCE: u64 = 20;

/// What `ebpf_facts` says of one program.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Fact {
    pub(super) name: String,
    /// One of tier T1, on a security hook.
    pub(super) hook: bool,
    /// None: the program is not loaded.
    pub(super) verified_instructions: Option<u32>,
    pub(super) recursion_misses: u64,
    pub(super) why_not: Option<String>,
}

/// One series of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    /// The version that was asked, for people.
    pub(super) kernel: String,
    pub(super) programs: BTreeMap<String, u32>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Baseline(BTreeMap<String, Section>);

impl Baseline {
    /// A file that is not there is an empty one: the first `--update` makes it.
    pub(super) fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).with_context(|| format!("read `{}`", path.display()))?;
        Self::parse(&text).with_context(|| format!("understand `{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(Self(toml::from_str(text)?))
    }

    pub(super) fn section(&self, series: &str) -> Option<&Section> {
        self.0.get(series)
    }

    /// Takes over what is loaded. What `keep` names stays as it was: this run could not ask for it.
    pub(super) fn update(
        &mut self,
        series: &str,
        version: &str,
        facts: &[Fact],
        keep: impl Fn(&str) -> bool,
    ) {
        let section = self.0.entry(series.to_owned()).or_default();
        section.kernel = version.to_owned();
        section.programs.retain(|name, _| keep(name));
        section.programs.extend(
            facts
                .iter()
                .filter_map(|fact| Some((fact.name.clone(), fact.verified_instructions?))),
        );
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, self.text()).with_context(|| format!("write `{}`", path.display()))
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        // As kernels follow one another: 6.2 before 6.12.
        let number =
            |series: &str| -> Vec<u32> { series.split('.').map(|part| part.parse().unwrap_or(0)).collect() };
        let mut sections: Vec<(&String, &Section)> = self.0.iter().collect();
        sections.sort_by_key(|(series, _)| number(series));
        for (series, section) in sections {
            text += &format!(
                "\n[\"{series}\"]\nkernel = \"{}\"\n\n[\"{series}\".programs]\n",
                section.kernel
            );
            for (name, count) in &section.programs {
                text += &format!("{name} = {count}\n");
            }
        }
        text
    }
}

/// What a run says of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing to say; with the change in percent.
    Same(i64),
    /// Not loaded, and it was not either.
    Absent,
    /// More or less than the tolerance.
    Differs { was: u32, percent: i64 },
    /// It was loaded; with what the kernel or the loader says.
    Missing(String),
    /// Not in the baseline.
    New,
    /// The kernel skipped runs of it.
    Skipped(u64),
}

impl Verdict {
    pub(super) fn fails(&self) -> bool {
        !matches!(self, Self::Same(_) | Self::Absent)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(_) => write!(f, "as before"),
            Self::Absent => write!(f, "not on this kernel"),
            Self::Differs { was, percent } => {
                write!(
                    f,
                    "was {was}: {percent:+} %, more than {TOLERANCE} % is a change to look at"
                )
            }
            Self::Missing(why) => write!(f, "is in the baseline and not loaded: {why}"),
            Self::New => write!(f, "is loaded and not in the baseline"),
            Self::Skipped(count) => write!(f, "the kernel skipped {count} runs (recursion_misses)"),
        }
    }
}

/// A program and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) count: Option<u32>,
    pub(super) verdict: Verdict,
}

/// Every program of the run and of the baseline.
pub(super) fn compare(section: &Section, facts: &[Fact]) -> Vec<Line> {
    let mut lines: Vec<Line> = facts
        .iter()
        .map(|fact| Line {
            name: fact.name.clone(),
            count: fact.verified_instructions,
            verdict: judge(section.programs.get(&fact.name).copied(), fact),
        })
        .collect();
    let gone = section
        .programs
        .keys()
        .filter(|name| facts.iter().all(|fact| fact.name != **name));
    lines.extend(gone.map(|name| Line {
        name: name.clone(),
        count: None,
        verdict: Verdict::Missing("the object has no such program".to_owned()),
    }));
    lines
}

fn judge(was: Option<u32>, fact: &Fact) -> Verdict {
    if fact.recursion_misses > 0 {
        return Verdict::Skipped(fact.recursion_misses);
    }
    match (was, fact.verified_instructions) {
        (None, None) => Verdict::Absent,
        (None, Some(_)) => Verdict::New,
        (Some(_), None) => {
            let why = fact.why_not.as_deref();
            Verdict::Missing(why.unwrap_or("the kernel tells no count").to_owned())
        }
        (Some(was), Some(now)) => {
            let percent = (i64::from(now) - i64::from(was)) * 100 / i64::from(was.max(1));
            if u64::from(was.abs_diff(now)) * 100 > u64::from(was) * TOLERANCE {
                Verdict::Differs { was, percent }
            } else {
                Verdict::Same(percent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(name: &str, count: Option<u32>) -> Fact {
        Fact {
            name: name.to_owned(),
            hook: false,
            verified_instructions: count,
            recursion_misses: 0,
            why_not: count.is_none().then(|| "EINVAL".to_owned()),
        }
    }

    fn section(programs: &[(&str, u32)]) -> Section {
        Section {
            kernel: "6.12.1".to_owned(),
            programs: programs
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        }
    }

    fn verdict(was: Option<u32>, now: Option<u32>) -> Verdict {
        judge(was, &fact("open", now))
    }

    #[test]
    fn a_fifth_more_or_less_is_the_same_and_one_beyond_is_not() {
        let differs = |was, percent| Verdict::Differs { was, percent };
        for (was, now, expected) in [
            (1000, 1000, Verdict::Same(0)),
            (1000, 1200, Verdict::Same(20)),
            (1000, 1201, differs(1000, 20)),
            (1000, 800, Verdict::Same(-20)),
            (1000, 799, differs(1000, -20)),
            (10, 13, differs(10, 30)),
            (0, 1, differs(0, 100)),
            (u32::MAX, 0, differs(u32::MAX, -100)),
        ] {
            let found = verdict(Some(was), Some(now));
            assert_eq!(found, expected, "{was} → {now}");
            assert_eq!(found.fails(), matches!(expected, Verdict::Differs { .. }));
        }
    }

    #[test]
    fn what_is_missing_or_new_fails_and_what_never_was_there_does_not() {
        assert_eq!(verdict(Some(5), None), Verdict::Missing("EINVAL".to_owned()));
        assert_eq!(verdict(None, Some(5)), Verdict::New);
        assert_eq!(verdict(None, None), Verdict::Absent);
        assert!(verdict(Some(5), None).fails() && verdict(None, Some(5)).fails());
        assert!(!verdict(None, None).fails());
    }

    #[test]
    fn skipped_runs_fail_whatever_the_count() {
        let mut one = fact("open", Some(5));
        one.recursion_misses = 3;
        assert_eq!(judge(Some(5), &one), Verdict::Skipped(3));
        assert!(Verdict::Skipped(3).fails());
    }

    #[test]
    fn a_program_that_left_the_object_is_missing() {
        let lines = compare(&section(&[("left", 9), ("stays", 7)]), &[fact("stays", Some(7))]);
        let found: Vec<(&str, bool)> = lines
            .iter()
            .map(|line| (line.name.as_str(), line.verdict.fails()))
            .collect();
        assert_eq!(found, [("stays", false), ("left", true)]);
        assert!(lines[1].verdict.to_string().contains("no such program"));
    }

    #[test]
    fn the_file_comes_back_as_it_was_written() {
        let mut baseline = Baseline::default();
        baseline.update(
            "6.12",
            "6.12.1",
            &[fact("open", Some(7)), fact("later", None)],
            |_| false,
        );
        baseline.update("6.2", "6.2.9", &[fact("open", Some(6))], |_| false);
        let text = baseline.text();
        assert_eq!(
            text,
            format!(
                "{HEAD}\n[\"6.2\"]\nkernel = \"6.2.9\"\n\n[\"6.2\".programs]\nopen = 6\n\
                 \n[\"6.12\"]\nkernel = \"6.12.1\"\n\n[\"6.12\".programs]\nopen = 7\n"
            )
        );
        assert_eq!(Baseline::parse(&text).unwrap(), baseline);
    }

    #[test]
    fn an_update_forgets_what_is_gone_but_not_what_could_not_be_asked() {
        let mut baseline = Baseline::default();
        let before = [
            fact("gone", Some(1)),
            fact("hook", Some(2)),
            fact("open", Some(3)),
        ];
        baseline.update("6.18", "6.18.1", &before, |_| false);
        baseline.update(
            "6.18",
            "6.18.2",
            &[fact("open", Some(4)), fact("hook", None)],
            |name| name == "hook",
        );
        let expected = section(&[("hook", 2), ("open", 4)]).programs;
        let found = baseline.section("6.18").unwrap();
        assert_eq!((&found.programs, found.kernel.as_str()), (&expected, "6.18.2"));
    }
}
