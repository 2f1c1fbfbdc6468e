//! A session with a sandbox a call, open all the time: one call of it, measured in turns with whole launches.

use std::{ffi::OsString, fmt::Write as _, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::{
    Place,
    server::{Agent, INITIALIZE, Live},
};

/// What plays its gateway, and times there what a gateway sees.
pub(super) struct Calls(Live);

#[derive(Deserialize)]
struct Took {
    /// Microseconds from the request for a sandbox.
    answered: u64,
    ended: u64,
    answer: String,
}

impl Calls {
    /// With the agent's warden, which runs.
    pub(super) fn begin(
        place: &Place,
        agent: &Agent,
        (name, words, roots): (&str, &[OsString], &[PathBuf]),
    ) -> Result<Self> {
        let mut text = format!("[server.{name}]\nisolation = \"call\"\n");
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        writeln!(text, "command = {words:?}")?;
        let roots: Vec<_> = roots
            .iter()
            .map(|root| format!("{{ path = {:?}, rights = \"r\" }}", root.display().to_string()))
            .collect();
        writeln!(text, "roots = [{}]", roots.join(", "))?;
        let policy = place.path().join(format!("{name}.toml"));
        fs::write(&policy, text).with_context(|| format!("write `{}`", policy.display()))?;
        let mut command = Command::new(&place.caller);
        command.arg(agent.state()).arg(agent.audit()).arg(policy);
        let mut live = Live::start(command)?;
        let planned = live.hear()?;
        ensure!(planned.contains("session"), "no plan: `{planned}`");
        Ok(Self(live))
    }

    /// Milliseconds to the answer to `initialize`, and until nothing of the sandbox is left and its end is on disk.
    pub(super) fn once(&mut self) -> Result<(f64, f64)> {
        let order = serde_json::json!({"do": "call", "line": INITIALIZE});
        let answer = self.0.ask(&order.to_string())?;
        let took: Took =
            serde_json::from_str(&answer).with_context(|| format!("the call gave `{answer}`"))?;
        ensure!(
            took.answer.contains("protocolVersion"),
            "no answer to `initialize`: `{}`",
            took.answer
        );
        let ms = |micros: u64| micros as f64 / 1000.0;
        Ok((ms(took.answered), ms(took.ended)))
    }
}
