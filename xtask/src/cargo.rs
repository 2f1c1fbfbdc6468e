//! Cargo, called from its own task runner.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// What the product runs on.
pub(crate) const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The cargo that runs us, in the workspace, without what it told us about ourselves.
pub(crate) fn command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let ours = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "CARGO_CRATE_NAME"
        });
        if ours {
            command.env_remove(name);
        }
    }
    command.current_dir(crate::workspace()).stdin(Stdio::null());
    command
}

/// Builds the agent and returns its path.
pub(crate) fn agent(features: &[&str]) -> Result<PathBuf> {
    let features = features.join(",");
    let mut args = vec!["build", "--package", "guard-agent", "--bin", "guard-agent"];
    if !features.is_empty() {
        args.extend(["--features", &features]);
    }
    built(&args, "guard-agent")
}

/// Builds with these arguments and returns the path of one program.
pub(crate) fn built(args: &[&str], program: &str) -> Result<PathBuf> {
    let mut build = command();
    build.args(args).arg("--message-format=json-render-diagnostics");
    let done = build.stderr(Stdio::inherit()).output().context("start `cargo`")?;
    ensure!(
        done.status.success(),
        "build `{program}`: `cargo` ended with {}",
        done.status
    );
    String::from_utf8_lossy(&done.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == program)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo reported no `{program}`"))
}

/// `cargo metadata` of the workspace whose manifest is `manifest`, with the dependencies it has on `platform`.
pub(crate) fn metadata(manifest: &str, platform: &str) -> Result<Value> {
    let done = command()
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            platform,
        ])
        .args(["--manifest-path", manifest])
        .stderr(Stdio::inherit())
        .output()
        .context("start `cargo metadata`")?;
    ensure!(
        done.status.success(),
        "`cargo metadata --locked` of `{manifest}` ended with {}",
        done.status
    );
    serde_json::from_slice(&done.stdout).context("read what `cargo metadata` said")
}
