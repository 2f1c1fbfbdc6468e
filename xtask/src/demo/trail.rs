//! The audit trail as the demo reads it: through the agent's own commands.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

pub(super) struct Trail {
    pub(super) agent: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) patience: Duration,
}

impl Trail {
    fn command(&self, args: &[&str]) -> Result<std::process::Output> {
        Command::new(&self.agent)
            .arg("audit")
            .args(args)
            .arg("--audit")
            .arg(&self.directory)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("start `{}`", self.agent.display()))
    }

    fn text(&self, args: &[&str]) -> Result<String> {
        let done = self.command(args)?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        ensure!(
            done.status.success(),
            "`audit {}` ended with {}: {}{text}",
            args.join(" "),
            done.status,
            String::from_utf8_lossy(&done.stderr)
        );
        Ok(text)
    }

    pub(super) fn records(&self) -> Result<Vec<Value>> {
        self.text(&["tail", "--lines", "1000", "--json"])?
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("parse record `{line}`")))
            .collect()
    }

    /// Waits for the exit records of `sessions` and the checkpoint over them: the server's end is recorded a moment
    /// after its client left, and the trail is closed two seconds later.
    pub(super) fn settled(&self, sessions: usize) -> Result<Vec<Value>> {
        let until = Instant::now() + self.patience;
        loop {
            let records = self.records()?;
            let exits = records.iter().filter(|record| record["kind"] == "exit").count();
            let signed = records
                .last()
                .is_some_and(|record| record["kind"] == "checkpoint");
            if exits >= sessions && signed {
                return Ok(records);
            }
            ensure!(
                Instant::now() < until,
                "{exits} of {sessions} sessions have an exit record after {} s, the last record is a checkpoint: {signed}",
                self.patience.as_secs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(super) fn lines(&self, server: &str) -> Result<String> {
        self.text(&["tail", "--lines", "1000", "--server", server])
    }

    pub(super) fn verify(&self) -> Result<String> {
        self.text(&["verify"])
    }

    /// Whether `verify` finds out that a byte of record `seq` was changed; in a copy of the trail.
    pub(super) fn tampering_shows(&self, scratch: &Path) -> Result<String> {
        let copy = scratch.join("tampered");
        let done = Command::new("cp")
            .arg("-a")
            .arg(&self.directory)
            .arg(&copy)
            .status()
            .context("start `cp`")?;
        ensure!(done.success(), "copy the audit trail: `cp` ended with {done}");
        let segment = copy.join("000001.jsonl");
        let text =
            std::fs::read_to_string(&segment).with_context(|| format!("read `{}`", segment.display()))?;
        let changed = text.replacen("\"decision\":\"deny\"", "\"decision\":\"allow\"", 1);
        ensure!(changed != text, "no denial to change in `{}`", segment.display());
        std::fs::write(&segment, changed).with_context(|| format!("write `{}`", segment.display()))?;
        let other = Self {
            agent: self.agent.clone(),
            directory: copy,
            patience: self.patience,
        };
        let done = other.command(&["verify"])?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        ensure!(
            done.status.code() == Some(1),
            "`audit verify` of a changed trail ended with {}: {said}",
            done.status
        );
        Ok(said
            .lines()
            .find(|line| line.starts_with("BAD"))
            .unwrap_or_default()
            .to_owned())
    }
}
