//! A layer that does not hold is seen: the attack gets through, `check` says so, and `run` refuses. The agent leaves
//! the layer out on request.

use anyhow::{Context as _, Result, ensure};
use guard_tests::life::steps;

use super::{
    Test,
    checked::{AS_USER, Around, Checked, Place},
};

pub(crate) fn tests() -> Vec<(&'static str, Test)> {
    vec![
        ("the_agent_takes_faults", || {
            steps::require_faults(&Place::new("faults")?.agent)
        }),
        ("every_layer_has_a_row_here", every_layer),
        ("landlock", || {
            each("landlock", &["fs", "exec", "ipc"], "open a file for reading")
        }),
        ("seccomp", || {
            each("seccomp", &["net", "exec", "ipc"], "make a netlink socket")
        }),
        ("namespaces", || {
            each("namespaces", &["fs", "net", "ipc"], "see a mount of the sandbox")
        }),
        ("view", || {
            each("view", &["fs", "exec"], "open a file outside the view")
        }),
        ("cgroup-bpf", cgroup_programs),
        ("cgroup-limits", cgroup_limits),
        ("rlimits", rlimits),
        ("observation", observation),
        ("a_proof_that_dies_proves_nothing", dies),
        ("an_unenforced_launch_says_what_got_through", allowed),
    ]
}

const LAYERS: [&str; 8] = [
    "landlock",
    "seccomp",
    "namespaces",
    "view",
    "cgroup-bpf",
    "cgroup-limits",
    "rlimits",
    "observation",
];

fn every_layer() -> Result<()> {
    let here: std::collections::BTreeSet<String> =
        LAYERS.iter().map(|layer| format!("proof.{layer}")).collect();
    let known: std::collections::BTreeSet<String> =
        steps::PROOF.iter().map(|step| (*step).to_owned()).collect();
    ensure!(here == known, "{here:?} is not {known:?}");
    Ok(())
}

fn check(place: &Place, around: Around<'_>, fault: &str) -> Result<Checked> {
    let output = place
        .command(around, &["check", "--json"])
        .env("GUARD_AGENT_FAULT", fault)
        .output()?;
    Checked::from(&output)
}

/// At both tiers.
fn each(layer: &str, facets: &[&str], attack: &str) -> Result<()> {
    for around in [&[][..], &[AS_USER][..]] {
        gets_through(layer, facets, attack, around)?;
    }
    Ok(())
}

fn gets_through(layer: &str, facets: &[&str], attack: &str, around: Around<'_>) -> Result<()> {
    let place = Place::new("proof-fails")?;
    let fault = format!("proof.{layer}=fail");
    let checked = check(&place, around, &fault)?;
    for facet in facets {
        let row = checked.row(facet, layer)?;
        ensure!(row.verdict == "not-enforced", "{facet}: {row:?}");
        ensure!(
            row.why.starts_with("its self-test failed: ") && row.why.contains("got through"),
            "{facet}: {row:?}"
        );
        let test = checked.facet(facet)?["self_test"].to_string();
        ensure!(test.contains("got through"), "{facet}: {test}");
    }
    ensure!(
        checked.row(facets[0], layer)?.why.contains(attack),
        "{:?}",
        checked.row(facets[0], layer)
    );
    // Nothing else is called broken.
    for ((facet, other), row) in checked.rows() {
        // Without root Landlock takes TCP too.
        let more = layer == "landlock" && facet == "net";
        let broken = row.verdict == "not-enforced" && other != "bpf-lsm";
        ensure!(
            !broken || other == layer && (more || facets.contains(&facet.as_str())),
            "{facet} {other}: {row:?}"
        );
    }
    checked.says(if around.is_empty() { "T2" } else { "T3" }, false)?;
    let ran = place.run_with(around, |run| run.outer_env("GUARD_AGENT_FAULT", &fault))?;
    ensure!(ran.finished.status.code() == Some(3), "{:?}", ran.finished);
    ensure!(ran.launch.is_none() && ran.finished.stdout.is_empty(), "it ran");
    let why = ran
        .finished
        .stderr
        .lines()
        .nth(1)
        .context("no reason")?
        .to_owned();
    ensure!(
        why.starts_with(&format!("  why: {layer}: its self-test failed: ")),
        "{}",
        ran.finished.stderr
    );
    Ok(())
}

fn cgroup_programs() -> Result<()> {
    let facets: &[&str] = if guard_tests::require::kernel_sees_unix()? {
        &["net", "ipc"]
    } else {
        &["net"]
    };
    gets_through("cgroup-bpf", facets, "connect to loopback", &[])
}

/// Only where a cgroup has limits: the facet is not required, so `run` launches and says so.
fn cgroup_limits() -> Result<()> {
    let place = Place::new("proof-limits")?;
    let without = place.check(&[])?.row("resources", "cgroup-limits")?;
    let row = check(&place, &[], "proof.cgroup-limits=fail")?.row("resources", "cgroup-limits")?;
    if without.verdict == "not-available" {
        ensure!(row == without, "{row:?}");
        return Ok(());
    }
    ensure!(without.verdict == "enforced", "{without:?}");
    ensure!(
        row.verdict == "not-enforced" && row.why.contains("`start one process too many` got through"),
        "{row:?}"
    );
    Ok(())
}

fn rlimits() -> Result<()> {
    let place = Place::new("proof-rlimits")?;
    let row = check(&place, &[AS_USER], "proof.rlimits=fail")?.row("resources", "rlimits")?;
    ensure!(
        row.verdict == "not-enforced" && row.why.contains("`start one process too many` got through"),
        "{row:?}"
    );
    Ok(())
}

/// A server is launched all the same: nothing is enforced by it. Its record says that nobody watches.
fn observation() -> Result<()> {
    let place = Place::new("proof-observation")?;
    let checked = check(&place, &[], "proof.observation=fail")?;
    let shown = checked.one("observation")?;
    let why = "its self-test failed: a failing open in a sandbox was not seen";
    ensure!(
        shown["verdict"] == "not-enforced" && shown["why"] == why,
        "{shown}"
    );
    checked.says("T2", true)?;
    let ran = place.run_with(&[], |run| {
        run.outer_env("GUARD_AGENT_FAULT", "proof.observation=fail")
    })?;
    let launch = ran.launch.context("no launch record")?;
    ensure!(launch["observation"] == "cgroup-bpf+seccomp", "{launch}");
    ensure!(launch["observation_missing"] == why, "{launch}");
    Ok(())
}

/// Killed in the middle: no verdict of its own is left, and what it was to prove is not enforced.
fn dies() -> Result<()> {
    let place = Place::new("proof-dies")?;
    for (layer, facet) in [
        ("landlock", "fs"),
        ("seccomp", "net"),
        ("view", "exec"),
        ("cgroup-bpf", "net"),
    ] {
        let checked = check(&place, &[], &format!("proof.{layer}=kill"))?;
        let row = checked.row(facet, layer)?;
        ensure!(
            row.verdict == "not-enforced" && row.why.contains("ended without a report (killed by SIGKILL)"),
            "{facet} {layer}: {row:?}"
        );
        checked.says("T2", false)?;
    }
    Ok(())
}

fn allowed() -> Result<()> {
    let place = Place::new("proof-allowed")?;
    let ran = place.run_with(&[], |run| {
        run.flag("--allow-unenforced")
            .outer_env("GUARD_AGENT_FAULT", "proof.landlock=fail")
    })?;
    ensure!(ran.finished.stdout == "hello", "{:?}", ran.finished);
    ensure!(
        ran.finished
            .stderr
            .contains("fs: not enforced: its self-test failed"),
        "{}",
        ran.finished.stderr
    );
    let launch = ran.launch.context("no launch record")?;
    let fs = &launch["enforcement"]["fs"];
    ensure!(fs["self_test"].to_string().contains("got through"), "{fs}");
    let layers = fs["layers"].as_array().context("no layers")?;
    ensure!(!layers.iter().any(|layer| layer == "landlock"), "{fs}");
    Ok(())
}
