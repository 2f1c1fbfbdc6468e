//! Legs of the test matrix, and what each of them cannot run.
//!
//! A leg is one machine or kernel that CI runs; `GUARD_TEST_LEG` names it. What a leg lacks is listed in
//! `legs.toml` with the reason, and the list is strict both ways: a row that becomes n/a elsewhere fails,
//! and so does a row that is listed and runs. On a machine that is no leg (`any`), what is missing is only told.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::programs;

/// Answers by which a kernel says that it has no such thing.
const ABSENCE: &[&str] = &[
    "EAFNOSUPPORT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EPROTOTYPE",
    "ENOSYS",
    "ENOENT",
    "ENODEV",
    "ENXIO",
    "EINVAL",
    "EACCES",
    "EOPNOTSUPP",
    "ENOPKG",
    "SIGSEGV",
    "usage",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LegFile {
    /// How the release of the leg's kernel begins. On another kernel the list says nothing, and what is missing is
    /// only told: the virtual machines' lists hold everywhere.
    kernel: Option<String>,
    /// The leg whose absences these are too: the same machine at another tier.
    like: Option<String>,
    /// The leg whose residuals, and what servers cannot do, this one has too.
    residual_like: Option<String>,
    /// Feature → why this leg has no control for it.
    #[serde(default)]
    absent: BTreeMap<String, String>,
    /// View, or `both` → probe → why it gets through there, and who must know.
    #[serde(default)]
    residual: BTreeMap<String, BTreeMap<String, String>>,
    /// What ordinary servers do that does not work there → why.
    #[serde(default)]
    unable: BTreeMap<String, String>,
}

/// The leg that runs.
#[derive(Debug)]
pub struct Leg {
    pub name: String,
    absent: Option<BTreeMap<String, String>>,
    residual: BTreeMap<String, BTreeMap<String, String>>,
    unable: BTreeMap<String, String>,
}

impl Leg {
    /// # Errors
    /// When `GUARD_TEST_LEG` names a leg that `legs.toml` does not have.
    pub fn current() -> Result<Self> {
        let name = std::env::var("GUARD_TEST_LEG").unwrap_or_else(|_| "any".into());
        if name == "any" {
            return Ok(Self {
                name,
                absent: None,
                residual: BTreeMap::new(),
                unable: BTreeMap::new(),
            });
        }
        let mut legs = legs()?;
        let mut leg = legs
            .remove(&name)
            .with_context(|| format!("`legs.toml` has no leg `{name}`"))?;
        let other = |like: &str| {
            legs.get(like)
                .with_context(|| format!("`legs.toml` has no leg `{like}`"))
        };
        if let Some(like) = &leg.residual_like {
            for (view, list) in &other(like)?.residual {
                leg.residual.entry(view.clone()).or_default().extend(list.clone());
            }
            leg.unable.extend(other(like)?.unable.clone());
        }
        if let Some(like) = &leg.like {
            let like = other(like)?;
            leg.kernel = leg.kernel.or(like.kernel.clone());
            leg.absent.extend(like.absent.clone());
        }
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
        if let Some(kernel) = leg.kernel
            && !release.starts_with(&kernel)
        {
            let release = release.trim();
            eprintln!(
                "leg `{name}` is of kernels {kernel}…, this is {release}: what it lacks is told, not judged"
            );
            return Ok(Self {
                name,
                absent: None,
                residual: leg.residual,
                unable: leg.unable,
            });
        }
        Ok(Self {
            name,
            absent: Some(leg.absent),
            residual: leg.residual,
            unable: leg.unable,
        })
    }

    /// Why something that ordinary servers do does not work there, if so.
    #[must_use]
    pub fn unable(&self, check: &str) -> Option<&str> {
        self.unable.get(check).map(String::as_str)
    }

    /// Why this leg lets a probe through in a view, if it does.
    #[must_use]
    pub fn residual(&self, view: &str, probe: &str) -> Option<&str> {
        [view, "both"]
            .into_iter()
            .find_map(|list| self.residual.get(list)?.get(probe))
            .map(String::as_str)
    }

    /// The probes that it lets through in a view.
    pub fn residuals<'a>(&'a self, view: &'a str) -> impl Iterator<Item = &'a str> {
        let lists = [view, "both"]
            .into_iter()
            .filter_map(|list| self.residual.get(list));
        lists.flat_map(|list| list.keys().map(String::as_str))
    }

    /// Compares what was missing in this run with what the leg says.
    ///
    /// # Errors
    /// When they differ in either direction.
    pub fn judge(&self, missing: &BTreeSet<String>) -> Result<()> {
        let Some(listed) = &self.absent else { return Ok(()) };
        let listed: BTreeSet<String> = listed.keys().cloned().collect();
        let new: Vec<_> = missing.difference(&listed).collect();
        ensure!(
            new.is_empty(),
            "leg `{}`: {new:?} became n/a; list it with its reason or give the leg what it lacks",
            self.name
        );
        let ran: Vec<_> = listed.difference(missing).collect();
        ensure!(
            ran.is_empty(),
            "leg `{}`: {ran:?} is listed as absent and ran; take it off the list",
            self.name
        );
        Ok(())
    }
}

/// Features no leg has: their rows never had a control, which `[nowhere]` must admit.
///
/// # Errors
/// When `legs.toml` is unreadable, or a feature is absent from every leg and not listed as such.
pub fn without_control() -> Result<BTreeSet<String>> {
    let mut legs = legs()?;
    let admitted = legs.remove("nowhere").map(|leg| leg.absent).unwrap_or_default();
    let mut lists = legs
        .into_values()
        // At another tier it is the same machine.
        .filter(|leg| leg.like.is_none())
        .map(|leg| leg.absent.into_keys().collect::<BTreeSet<_>>());
    let first = lists.next().context("`legs.toml` has no leg")?;
    let nowhere = lists.fold(first, |left, right| left.intersection(&right).cloned().collect());
    let admitted: BTreeSet<String> = admitted.into_keys().collect();
    ensure!(
        nowhere == admitted,
        "features no leg has are {nowhere:?}, `[nowhere]` admits {admitted:?}"
    );
    Ok(nowhere)
}

fn legs() -> Result<BTreeMap<String, LegFile>> {
    let path = programs::source("legs.toml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
    toml::from_str(&text).with_context(|| format!("failed to parse `{}`", path.display()))
}

/// Whether an unexpected control outcome means that the kernel lacks the feature.
#[must_use]
pub fn is_absence(outcome: &str) -> bool {
    ABSENCE.contains(&outcome)
}

/// Whether cgroup programs see the addresses of unix sockets here: the hooks came with 6.7. Asked of the kernel, not
/// of the agent, whose answer is what the tests judge.
///
/// # Errors
/// When the kernel's version is unreadable.
pub fn kernel_sees_unix() -> Result<bool> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        anyhow::bail!("no version in `{}`", release.trim());
    };
    Ok((major, minor) >= (6, 7))
}

/// What became of a row.
#[derive(Debug, Clone)]
pub enum Row {
    Ran(String),
    NotApplicable(String),
}

/// Why a test cannot run here, if it cannot; printed as `n/a (why)`. With `GUARD_TEST_LEG` set it fails instead.
///
/// # Panics
/// On a leg, where nothing may be skipped in silence.
#[must_use]
pub fn skip(missing: Option<&str>, test: &str) -> bool {
    let Some(why) = missing else { return false };
    eprintln!("{test}: n/a ({why})");
    assert!(
        std::env::var_os("GUARD_TEST_LEG").is_none(),
        "`{test}` must run on this leg, but {why}"
    );
    true
}
