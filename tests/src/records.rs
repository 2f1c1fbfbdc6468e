//! The audit as a reader sees it: JSON lines, typed where the tests look.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

/// One record.
#[derive(Debug, Clone, Deserialize)]
pub struct Record {
    pub seq: u64,
    pub kind: String,
    #[serde(default)]
    pub prev: String,
    #[serde(default)]
    pub hash: String,
    #[serde(flatten)]
    pub body: Value,
}

/// The fields of a `kernel` record that the tests judge.
#[derive(Debug, Clone, Deserialize)]
pub struct Kernel {
    pub op: String,
    pub decision: String,
    pub layer: String,
    #[serde(default)]
    pub errno: Option<Value>,
    #[serde(default)]
    pub address: Option<String>,
    #[serde(default)]
    pub repeat: Option<u64>,
    #[serde(default)]
    family: Option<String>,
    #[serde(default)]
    detail: Option<Value>,
}

impl Kernel {
    /// The address family: of the record itself, or among the arguments of the system call.
    #[must_use]
    pub fn family(&self) -> Option<&str> {
        let argument = || self.detail.as_ref()?.get("family")?.as_str();
        self.family.as_deref().or_else(argument)
    }
}

impl Record {
    /// The record as a `kernel` record, if it is one.
    #[must_use]
    pub fn kernel(&self) -> Option<Kernel> {
        (self.kind == "kernel").then(|| serde_json::from_value(self.body.clone()).ok())?
    }
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.body.get(name)
    }
}

/// Every record of the directory, in the order of the chain.
///
/// # Errors
/// When a line is no record.
pub fn read(dir: &Path) -> Result<Vec<Record>> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .with_context(|| format!("failed to read audit directory `{}`", dir.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let mut records = Vec::new();
    for file in files {
        for line in fs::read_to_string(&file)?.lines() {
            records.push(
                serde_json::from_str(line)
                    .with_context(|| format!("no record in `{}`: `{line}`", file.display()))?,
            );
        }
    }
    Ok(records)
}
