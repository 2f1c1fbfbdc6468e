//! The MCP client: `tests/servers/demo-client.mjs`, which is the official SDK and nothing of ours.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) struct Client {
    pub(super) node: PathBuf,
    pub(super) script: PathBuf,
    pub(super) sdk: PathBuf,
    /// For one call.
    pub(super) patience: Duration,
    /// How long a warden that `run` starts stays without a session.
    pub(super) idle: Duration,
}

/// What became of one `tools/call`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) is_error: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) server: ServerInfo,
    pub(super) tools: Vec<String>,
    pub(super) answers: Vec<Answer>,
    pub(super) stderr: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ServerInfo {
    pub(super) name: String,
    pub(super) version: String,
}

impl Client {
    /// Starts `server` as a client does, makes the calls and closes it.
    pub(super) fn run(&self, server: &[String], calls: &[(&str, Value)]) -> Result<Report> {
        let (command, args) = server.split_first().context("a server needs a command")?;
        let calls: Vec<Value> = calls
            .iter()
            .map(|(name, arguments)| json!({ "name": name, "arguments": arguments }))
            .collect();
        let job = json!({
            "sdk": self.sdk,
            "command": command,
            "args": args,
            "env": { "GUARD_AGENT_IDLE_MS": self.idle.as_millis().to_string() },
            "calls": calls,
            "patience": self.patience.as_secs(),
        });
        let done = Command::new(&self.node)
            .arg(&self.script)
            .arg(job.to_string())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("start `{}`", self.node.display()))?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(
            done.status.success(),
            "the client ended with {}:\n{}",
            done.status,
            said.trim_end()
        );
        serde_json::from_slice(&done.stdout).with_context(|| {
            let text = String::from_utf8_lossy(&done.stdout);
            format!("read the client's report `{}`", text.trim_end())
        })
    }
}

/// The version npm installed of a package.
pub(super) fn version(modules: &Path, package: &str) -> Result<String> {
    let path = modules.join("node_modules").join(package).join("package.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
    let manifest: Value =
        serde_json::from_str(&text).with_context(|| format!("parse `{}`", path.display()))?;
    let version = manifest.get("version").and_then(Value::as_str);
    version
        .map(str::to_owned)
        .with_context(|| format!("`{}` has no version", path.display()))
}
