//! The steps a fault can be injected at, found in the agent's source, so that none is without a test.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use crate::tier::Tier;

/// The agent's source, when this test runs where it is.
#[must_use]
pub fn source() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guard-agent/src");
    path.is_dir().then_some(path)
}

/// Every name given to `fault::point("…")` or to one of the `step("…")` helpers.
///
/// # Errors
/// When the source cannot be read.
pub fn in_source(source: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut places = vec![source.to_owned()];
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(&place).with_context(|| format!("failed to read `{}`", place.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                places.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names(&fs::read_to_string(&path)?, &mut found);
            }
        }
    }
    ensure!(
        found.len() > 20,
        "only {} steps found in `{}`",
        found.len(),
        source.display()
    );
    Ok(found)
}

fn names(text: &str, found: &mut BTreeSet<String>) {
    for call in ["point(", "step("] {
        for (at, _) in text.match_indices(call) {
            let rest = text[at + call.len()..].trim_start();
            let Some(name) = rest.strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
                continue;
            };
            // `step("create a landlock ruleset")` is another helper's sentence.
            let is_name = name.contains('.')
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || b".-".contains(&byte));
            if is_name {
                found.insert(name.to_owned());
            }
        }
    }
}

/// Whether the agent was built so that faults can be injected: its version says so.
///
/// # Errors
/// When it cannot be injected into.
pub fn require_faults(agent: &Path) -> Result<()> {
    let out = std::process::Command::new(agent).arg("--version").output()?;
    let version = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    ensure!(
        version.ends_with("(faults)"),
        "`{}` is `{version}`: no faults can be injected into it, so nothing here would be tested\n  \
         build it with `cargo build -p guard-agent --features faults`",
        agent.display()
    );
    Ok(())
}

/// Steps of the warden's start, in order.
pub const WARDEN: &[&str] = &[
    "warden.lock",
    "warden.sweep",
    "warden.program",
    "warden.null",
    "warden.reaper",
    "warden.cgroup",
    "warden.programs",
    "warden.links",
    "warden.socket",
];

/// Layers that a self-test leaves out, so that its attack gets through: `tests/privileged/check/failing.rs`.
pub const PROOF: &[&str] = &[
    "proof.landlock",
    "proof.seccomp",
    "proof.namespaces",
    "proof.view",
    "proof.cgroup-bpf",
    "proof.cgroup-limits",
    "proof.rlimits",
    "proof.observation",
];

/// Steps of a launch before the child's first instruction, in order. `init.fork` and `init.exec` come after the
/// release, and still before that instruction.
pub const LAUNCH: &[&str] = &[
    "launch.register",
    "launch.cgroup",
    "launch.roots",
    "launch.mounts",
    "launch.pipes",
    "launch.channel",
    "launch.clone",
    "launch.setup",
    "init.propagation",
    "init.view",
    "init.cgroup-namespace",
    "init.hostname",
    "init.memfd",
    "init.session",
    "init.rlimits",
    "init.directory",
    "init.bounding-set",
    "init.ids",
    "init.capabilities",
    "init.no-new-privileges",
    "init.dumpable",
    "init.parent",
    "init.seccomp-compile",
    "init.landlock",
    "init.signals",
    "init.seccomp",
    "launch.verify",
    "launch.register#2",
    "launch.observe",
    "launch.record",
    "launch.release",
    "init.fork",
    "init.exec",
];

/// Programs that a kernel may refuse: without them there is less, and that is said (`tests/privileged/hooked.rs`).
pub const PROGRAMS: &[&str] = &["hooks.programs", "told.programs"];

/// Only at tier T1, once the sandbox is verified.
pub const HOOKS: &[&str] = &["launch.enrol"];

/// What an ordinary user's warden has instead.
pub const WARDEN_T3: &[&str] = &[
    "warden.lock",
    "warden.sweep",
    "warden.program",
    "warden.null",
    "warden.subreaper",
    "warden.reaper",
    "warden.links",
    "warden.socket",
];

/// Only in a user namespace.
pub const USER_NAMESPACE: &[&str] = &["init.user-namespace"];

/// Only where the sandbox has namespaces.
const NAMESPACES: &[&str] = &[
    "init.propagation",
    "init.view",
    "init.cgroup-namespace",
    "init.hostname",
    "init.memfd",
    "init.bounding-set",
];

/// Only as root.
const ROOT: &[&str] = &["gateway.bounding-set", "gateway.ids"];

/// The steps of the warden's start at a tier.
#[must_use]
pub fn warden(tier: Tier) -> Vec<&'static str> {
    if tier.is_root() { WARDEN } else { WARDEN_T3 }.to_vec()
}

/// The steps of a launch at a tier.
#[must_use]
pub fn launch(tier: Tier) -> Vec<&'static str> {
    match tier {
        Tier::T1 => [LAUNCH, HOOKS].concat(),
        Tier::T2 => LAUNCH.to_vec(),
        Tier::T3 => [LAUNCH, USER_NAMESPACE].concat(),
        Tier::T3Bare => without(LAUNCH, NAMESPACES),
    }
}

/// The steps of the gateway at a tier.
#[must_use]
pub fn gateway(tier: Tier) -> Vec<&'static str> {
    if tier.is_root() {
        GATEWAY.to_vec()
    } else {
        without(GATEWAY, ROOT)
    }
}

fn without(steps: &[&'static str], these: &[&str]) -> Vec<&'static str> {
    steps
        .iter()
        .copied()
        .filter(|step| !these.contains(step))
        .collect()
}

/// Writes without which there is no launch.
pub const LAUNCH_WRITES: &[&str] = &["audit.write", "audit.sync"];

/// Steps of the gateway on itself: the child runs already, no byte of the client has been read.
pub const GATEWAY: &[&str] = &[
    "gateway.bounding-set",
    "gateway.ids",
    "gateway.no-new-privileges",
    "gateway.dumpable",
    "gateway.landlock",
    "gateway.seccomp",
];

/// Writes of calls.
pub const CALLS: &[&str] = &["call.begin", "call.refused", "call.end"];

/// Writes when a session ends, before the gateway hears of it.
pub const END_WRITES: &[&str] = &["exit.record", "audit.write#2", "audit.sync#2"];

/// Writes when a trail is closed, after that.
pub const CLOSE_WRITES: &[&str] = &["audit.checkpoint", "audit.write#3"];

/// What the reaper, or the next warden, does about a dead warden.
pub const SWEEP: &[&str] = &["sweep.kill", "sweep.record"];

/// Steps of a process that leaves in order.
pub const LEAVE: &[&str] = &["reaper.ready", "warden.leave"];

/// Reached only after 16 MiB of records: `guard-agent`'s own tests fail and kill the trail there.
pub const ELSEWHERE: &[&str] = &["audit.rotate"];

/// All tables together, without the numbers of occurrences.
#[must_use]
pub fn tested() -> BTreeSet<String> {
    [
        WARDEN,
        WARDEN_T3,
        PROOF,
        PROGRAMS,
        LAUNCH,
        HOOKS,
        USER_NAMESPACE,
        LAUNCH_WRITES,
        GATEWAY,
        CALLS,
        END_WRITES,
        CLOSE_WRITES,
        SWEEP,
        LEAVE,
        ELSEWHERE,
    ]
    .concat()
    .into_iter()
    .map(|name| name.split('#').next().unwrap_or(name).to_owned())
    .collect()
}

/// # Errors
/// When the source has a step without a test, or the tables one that is gone.
pub fn complete() -> Result<()> {
    let Some(source) = source() else { return Ok(()) };
    let (source, tested) = (in_source(&source)?, tested());
    let missing: Vec<_> = source.difference(&tested).collect();
    let stale: Vec<_> = tested.difference(&source).collect();
    ensure!(missing.is_empty(), "steps without a test: {missing:?}");
    ensure!(stale.is_empty(), "steps that the source no longer has: {stale:?}");
    Ok(())
}
