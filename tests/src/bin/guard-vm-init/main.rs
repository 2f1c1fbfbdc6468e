//! Pid 1 of the test machines: prepares the guest, runs one case, hands verdict and files to the host.
//!
//! Under any other pid it is the tool box of the runner's own test cases.

mod boot;
mod output;
mod selftest;
#[path = "../../../../xtask/src/vm/spec.rs"]
mod spec;
mod supervise;

use std::io::Write as _;
use std::process::ExitCode;

use nix::sys::reboot::{RebootMode, reboot};
use spec::{MARK, MARK_CASE, Spec, Verdict};

fn main() -> ExitCode {
    if std::process::id() != 1 {
        let args: Vec<String> = std::env::args().skip(1).collect();
        return selftest::tool(&args);
    }
    boot::raw_console();
    let verdict = match serve() {
        Ok(verdict) => verdict,
        Err(error) => Verdict::Setup(format!("{error:#}")),
    };
    let text = serde_json::to_string(&verdict).unwrap_or_default();
    say(&format!("{MARK}verdict {text}"));
    boot::drain_console();
    // Returns only on failure; then the kernel panics on the exit of pid 1, which the host reports.
    let _ = reboot(RebootMode::RB_POWER_OFF);
    ExitCode::FAILURE
}

fn serve() -> anyhow::Result<Verdict> {
    let spec = boot::read_spec()?;
    boot::prepare(&spec)?;
    say(&format!("{MARK}{MARK_CASE}"));
    let verdict = run(&spec)?;
    output::hand_over(&verdict)?;
    Ok(verdict)
}

/// A case that cannot be started still gets its machine's files and a verdict back.
fn run(spec: &Spec) -> anyhow::Result<Verdict> {
    Ok(supervise::run(spec).unwrap_or_else(|error| Verdict::Setup(format!("{error:#}"))))
}

pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
