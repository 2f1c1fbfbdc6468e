//! The same machine, made to lack something for one process: what is missing is named, with its reason and what to
//! change, and `run` agrees.

use anyhow::{Result, ensure};

use super::{
    Test,
    checked::{AS_USER, Around, Checked, Place, agree},
    machine::{LEFT_OUT, loads_lsm},
};

pub(crate) fn tests() -> Vec<(&'static str, Test)> {
    vec![
        ("landlock_that_answers_enosys", landlock_enosys),
        (
            "landlock_that_answers_enosys_to_a_user",
            landlock_enosys_to_a_user,
        ),
        ("landlock_that_the_list_names", landlock_listed),
        ("type_information", type_information),
        ("cgroups", cgroups),
        ("rights_of_root", rights_of_root),
        ("the_lsm_list", the_lsm_list),
        (
            "the_lsm_list_names_bpf_and_loading_is_refused",
            listed_and_refused,
        ),
    ]
}

fn both(name: &str, around: Around<'_>) -> Result<Checked> {
    let place = Place::new(name)?;
    let checked = place.check(around)?;
    agree(&checked, &place.run(around)?)?;
    Ok(checked)
}

const LANDLOCK: &[&str] = &["landlock"];
const SECURITYFS: &[&str] = &["securityfs"];
const NO_SECURITYFS: &[&str] = &["directory", "/sys/kernel/security"];

fn without_landlock(checked: &Checked, facets: &[&str], why: &str) -> Result<()> {
    for facet in facets {
        let row = checked.row(facet, "landlock")?;
        ensure!(row.verdict == "not-available", "{facet}: {row:?}");
        ensure!(row.why.contains(why), "{facet}: {row:?}, not {why:?}");
        ensure!(
            row.change.contains("allow `landlock_create_ruleset`"),
            "{facet}: {row:?}"
        );
    }
    let changes = checked.changes();
    let required = changes
        .iter()
        .any(|(change, required)| *required && change.contains("allow `landlock_create_ruleset`"));
    ensure!(required, "{changes:?}");
    Ok(())
}

/// Nobody can tell a kernel without it from a filter around us, unless the list of modules is there.
fn landlock_enosys() -> Result<()> {
    let checked = both("check-enosys", &[NO_SECURITYFS, LANDLOCK])?;
    without_landlock(
        &checked,
        &["fs", "exec", "ipc"],
        "built without it, or the seccomp filter around this process answers for it",
    )?;
    checked.says("T2", false)
}

fn landlock_enosys_to_a_user() -> Result<()> {
    let checked = both("check-enosys-user", &[NO_SECURITYFS, AS_USER, LANDLOCK])?;
    without_landlock(
        &checked,
        &["fs", "net", "exec", "ipc"],
        "or the seccomp filter around this process answers for it",
    )?;
    checked.says("T3", false)
}

fn landlock_listed() -> Result<()> {
    let checked = both("check-listed", &[SECURITYFS, LANDLOCK])?;
    without_landlock(
        &checked,
        &["fs", "exec", "ipc"],
        "the kernel has Landlock and a seccomp filter around this process answers ENOSYS for it",
    )?;
    checked.says("T2", false)
}

/// What needs no types is proved all the same.
fn begins_not(checked: &Checked, why: &str, change: &str) -> Result<()> {
    for (facet, layer) in [
        ("net", "cgroup-bpf"),
        ("ipc", "cgroup-bpf"),
        ("resources", "cgroup-limits"),
        ("fs", "bpf-lsm"),
    ] {
        let row = checked.row(facet, layer)?;
        ensure!(row.verdict == "not-available", "{facet} {layer}: {row:?}");
        ensure!(
            row.why.contains(why) && row.change.contains(change),
            "{facet} {layer}: {row:?}"
        );
    }
    for (facet, layer) in [
        ("fs", "view"),
        ("fs", "landlock"),
        ("net", "namespaces"),
        ("net", "seccomp"),
    ] {
        let row = checked.row(facet, layer)?;
        ensure!(row.verdict == "enforced", "{facet} {layer}: {row:?}");
    }
    checked.says("T4", false)
}

fn type_information() -> Result<()> {
    let checked = both("check-btf", &[&["directory", "/sys/kernel/btf"]])?;
    let why = "this kernel shows no type information (`/sys/kernel/btf/vmlinux`)";
    begins_not(&checked, why, "CONFIG_DEBUG_INFO_BTF")
}

fn cgroups() -> Result<()> {
    let checked = both("check-cgroup", &[&["cgroups"]])?;
    begins_not(&checked, "no cgroup v2 hierarchy is mounted", "mount cgroup v2")
}

/// Root of a container: nothing is tried that `run` would not try.
fn rights_of_root() -> Result<()> {
    let checked = both("check-rights", &[&["rights"]])?;
    for (pair, row) in checked.rows() {
        ensure!(row.verdict == "not-available", "{pair:?}: {row:?}");
        ensure!(row.why.contains("lacks CAP_SYS_ADMIN"), "{pair:?}: {row:?}");
    }
    checked.says("T4", false)
}

fn the_lsm_list() -> Result<()> {
    let checked = both("check-list", &[NO_SECURITYFS])?;
    let kernel = checked.one("kernel")?;
    ensure!(
        kernel["lsm_hidden"] == "securityfs is not mounted at `/sys/kernel/security`",
        "{kernel}"
    );
    // It decides nothing.
    checked.says("T2", true)
}

/// A kernel on which no LSM program may be loaded, whatever its list says; elsewhere it may.
fn listed_and_refused() -> Result<()> {
    let checked = both("check-refused", &[SECURITYFS])?;
    let row = checked.row("fs", "bpf-lsm")?;
    let kernel = checked.one("kernel")?;
    let listed = kernel["lsm"]
        .as_array()
        .is_some_and(|list| list.iter().any(|name| name == "bpf"));
    ensure!(listed, "{kernel}");
    let (verdict, why) = match loads_lsm() {
        Some(true) => ("not-enforced", LEFT_OUT),
        Some(false) => (
            "not-available",
            "the kernel's lsm list names bpf, but loading is refused: EPERM",
        ),
        // A machine nobody knows.
        None => return checked.says("T2", true),
    };
    ensure!(row.verdict == verdict && row.why == why, "{row:?}");
    checked.says("T2", true)
}
