//! The probes as declared by the probe program, and the judgement of one run.

use std::{collections::BTreeMap, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::{programs, tier::Tier};

/// One line of `guard-probe list`.
#[derive(Debug, Clone, Deserialize)]
pub struct Declared {
    pub name: String,
    pub vector: String,
    pub identity: Identity,
    pub control: Vec<String>,
    pub refused: Vec<String>,
    pub record: Option<(String, String)>,
    pub family: Option<String>,
    pub unseen: Option<(String, String)>,
    pub mutates: bool,
    pub views: Views,
    pub needs: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    User,
    Root,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Views {
    Both,
    Private,
}

/// The audit record that a refusal leaves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expected {
    pub op: String,
    pub layer: String,
    /// Address family of the call.
    pub family: Option<String>,
}

/// What a probe said.
#[derive(Debug, Clone, Deserialize, serde::Serialize)]
pub struct Answer {
    pub probe: String,
    pub result: String,
    pub outcome: String,
    #[serde(default)]
    pub detail: String,
}

/// All declarations: what must be refused, and the names of what must work.
#[derive(Debug, Deserialize)]
pub struct Suite {
    pub probes: Vec<Declared>,
    pub checks: Vec<String>,
}

impl Suite {
    /// # Errors
    /// When the probe program is missing, or declares something that cannot fail.
    pub fn load() -> Result<Self> {
        let output = Command::new(programs::probe()?)
            .args(["list", "--json"])
            .output()?;
        let suite: Self =
            serde_json::from_slice(&output.stdout).context("`guard-probe list` is not readable")?;
        let mut seen = BTreeMap::new();
        for probe in &suite.probes {
            ensure!(
                seen.insert(&probe.name, ()).is_none(),
                "probe `{}` is declared twice",
                probe.name
            );
            probe.can_fail()?;
        }
        Ok(suite)
    }
}

impl Declared {
    /// Whether this outcome is a refusal. The same attempt meets another layer first at another tier: there any of
    /// the kernel's two words for "no" is one.
    #[must_use]
    pub fn is_refused(&self, tier: Tier, outcome: &str) -> bool {
        let no = !tier.is_root()
            && matches!(outcome, "EPERM" | "EACCES")
            && !self.control.iter().any(|control| control == outcome);
        no || self.refused.iter().any(|refused| refused == outcome)
    }

    /// The record it must leave on this kernel.
    #[must_use]
    pub fn expected(&self, tier: Tier, kernel_sees_unix: bool) -> Option<Expected> {
        if !(kernel_sees_unix && tier.is_root())
            && let Some((op, family)) = &self.unseen
        {
            return Some(Expected {
                op: op.clone(),
                layer: "seccomp".into(),
                family: Some(family.clone()),
            });
        }
        let (op, layer) = self.record.as_ref()?;
        let (op, layer) = tier.record(op, layer);
        Some(Expected {
            op,
            layer,
            family: self.family.clone(),
        })
    }

    /// A declaration whose refusal looks like its success could never fail.
    fn can_fail(&self) -> Result<()> {
        // The one kind that may overlap needs another proof than the errno, which `mutates` or a record is.
        if let Some(both) = self.control.iter().find(|outcome| self.refused.contains(outcome)) {
            bail!(
                "probe `{}`: `{both}` is both its control and its refusal",
                self.name
            );
        }
        ensure!(
            !self.refused.iter().any(|outcome| outcome == "ok"),
            "probe `{}` accepts success",
            self.name
        );
        Ok(())
    }
}
