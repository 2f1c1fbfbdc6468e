//! What the demo expects of the machine it plays on.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

const LSM_LIST: &str = "/sys/kernel/security/lsm";

/// Tiers of root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    T1,
    T2,
}

impl Tier {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::T1 => "T1",
            Self::T2 => "T2",
        }
    }

    /// At T2 what is not granted is not there. At T1 the hostile server sees the machine's files, so that what refuses
    /// them is a decision and not their absence.
    pub(super) fn view(self) -> &'static str {
        match self {
            Self::T1 => "host",
            Self::T2 => "private",
        }
    }

    /// A folder that this view shows: of temporary files a sandbox has its own.
    pub(super) fn parent(self) -> PathBuf {
        match self {
            Self::T1 => "/srv".into(),
            Self::T2 => std::env::temp_dir(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) tier: Tier,
    /// Why it is not T1.
    pub(super) why: Option<String>,
    /// What one thing may take.
    pub(super) patience: Duration,
    pub(super) idle: Duration,
}

impl Machine {
    /// This one, by what `guard-agent check` proves.
    pub(super) fn this(agent: &Path) -> Result<Self> {
        let done = Command::new(agent)
            .args(["check", "--json"])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("start `{}`", agent.display()))?;
        let lines: Vec<Value> = String::from_utf8_lossy(&done.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("parse `{line}`")))
            .collect::<Result<_>>()?;
        let of = |kind: &'static str| lines.iter().filter(move |line| line["type"] == kind);
        let run = of("run").next().context("`check` does not say what `run` does")?;
        ensure!(run["launches"] == true, "`run` launches nothing here: {run}");
        let tier = match run["tier"].as_str() {
            Some("T1") => Tier::T1,
            Some("T2") => Tier::T2,
            _ => anyhow::bail!("the demo is for the tiers of root: {run}"),
        };
        let why = of("layer")
            .find(|row| row["layer"] == "bpf-lsm")
            .and_then(|row| row["why"].as_str().map(str::to_owned));
        Ok(Self {
            tier,
            why,
            patience: Duration::from_secs(20),
            // So that the warden leaves soon after the demo.
            idle: Duration::from_millis(1500),
        })
    }

    /// A virtual one that has tier T1. It is an emulator.
    pub(super) fn emulated() -> Self {
        Self {
            tier: Tier::T1,
            why: None,
            patience: Duration::from_secs(120),
            idle: Duration::from_secs(20),
        }
    }
}

/// Of the two layers that refuse the open of a file outside, the one that this kernel asks first: who refuses ends it.
pub(super) fn asked_first() -> Result<&'static str> {
    let list = active_modules().with_context(|| format!("`{LSM_LIST}` cannot be read"))?;
    list.split(',')
        .find_map(|name| match name {
            "bpf" => Some("bpf-lsm"),
            "landlock" => Some("landlock"),
            _ => None,
        })
        .with_context(|| format!("neither `bpf` nor `landlock` is in `{list}`"))
}

/// The kernel's list of active modules.
pub(super) fn active_modules() -> Option<String> {
    let read = fs::read_to_string(LSM_LIST).ok().or_else(|| {
        // Where nobody mounted securityfs, in a mount namespace of its own.
        let script = format!("mount -t securityfs none /sys/kernel/security && cat {LSM_LIST}");
        let done = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .output()
            .ok()?;
        done.status
            .success()
            .then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    });
    Some(read?.trim().to_owned())
}
