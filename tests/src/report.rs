//! What `escape` found, a line each, for the table of `docs/containment.md`.

use std::{fs::File, io::Write as _, path::Path};

use anyhow::{Context as _, Result};
use serde::Serialize;

/// One attempt in one view of one leg.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub probe: String,
    pub vector: String,
    pub view: String,
    pub leg: String,
    /// As the launch record says.
    pub tier: String,
    pub kernel: String,
    pub verdict: Verdict,
    /// How it was refused: an errno, or the probe's own word.
    pub outcome: String,
    /// Why it did not run, or what went wrong.
    pub why: String,
    /// What the control outside gave.
    pub control: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Refused,
    /// The machine lacks what the attempt needs, so that there is no control.
    NotApplicable,
    /// Not promised in this view or tier, and said so.
    ByDesign,
    /// Not refused as declared.
    Failed,
}

/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("create `{}`", path.display()))?;
    for row in rows {
        writeln!(file, "{}", serde_json::to_string(row)?)?;
    }
    Ok(())
}
