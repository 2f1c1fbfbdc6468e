//! What `check` must say of a machine that is known.

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::require::kernel_sees_unix;

use super::{
    Test,
    checked::{Checked, Place, agree},
};

const HERE: &str = "GUARD_TEST_MACHINE";

fn name() -> Option<String> {
    std::env::var(HERE).ok()
}

/// Whether it has all that its kernel can have.
pub(crate) fn is_whole() -> bool {
    name().is_none_or(|name| ["host", "vm"].contains(&name.as_str()))
}

/// Whether the kernel takes LSM programs, where that is known: not by the agent's answer, which is judged by it.
pub(crate) fn loads_lsm() -> Option<bool> {
    name().map(|name| name != "host")
}

pub(crate) fn tests() -> Vec<(&'static str, Test)> {
    vec![("is_told_as_it_is", is_told_as_it_is)]
}

type Rows = Vec<(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
)>;

/// Of the legs that are not about tier T1.
pub(crate) const LEFT_OUT: &str = "`--tier T2` leaves the security hooks out";

/// The rows that the kernel's age alone explains.
fn by_age() -> Result<Rows> {
    let mut rows = Rows::new();
    if !kernel_sees_unix()? {
        let why = "seccomp refuses to make unix sockets instead";
        rows.push(("ipc", "cgroup-bpf", "not-available", why, "6.7 or later"));
        // 6.12 brought both; 6.1 has neither.
        let why = "signal and abstract socket scopes need Landlock ABI 6";
        rows.push(("ipc", "landlock", "not-available", why, "6.12 or later"));
    }
    Ok(rows)
}

fn lsm(verdict: &'static str, why: &'static str, change: &'static str) -> Rows {
    ["fs", "net", "exec", "ipc"]
        .map(|facet| (facet, "bpf-lsm", verdict, why, change))
        .into()
}

fn is_told_as_it_is() -> Result<()> {
    let place = Place::new("check-machine")?;
    let checked = place.check(&[])?;
    let ran = place.run(&[])?;
    agree(&checked, &ran)?;
    let Some(name) = name() else { return Ok(()) };
    let built = || lsm("not-enforced", LEFT_OUT, "leave `--tier` out");
    let no_landlock = |why| {
        ["fs", "exec", "ipc"].map(|facet| {
            (
                facet,
                "landlock",
                "not-available",
                why,
                "add `landlock` to `lsm=`",
            )
        })
    };
    let mut rows = by_age()?;
    match name.as_str() {
        "host" => {
            let why =
                "loading is refused: EPERM (the kernel's lsm list cannot be seen: securityfs is not mounted";
            rows.extend(lsm("not-available", why, "mount -t securityfs"));
            let why = "cgroup v2 does not offer the controllers memory, cpu, pids";
            rows.push((
                "resources",
                "cgroup-limits",
                "not-available",
                why,
                "cgroup_no_v1=all",
            ));
            checked.says("T2", true)?;
        }
        "vm" => {
            rows.extend(built());
            checked.says("T2", true)?;
            names(&checked, "bpf", true)?;
        }
        // Booted with `lsm=landlock,lockdown,yama`.
        "no-bpf" => {
            let why = "the kernel's lsm list has no bpf: a program loads and attaches, and is never called";
            rows.extend(lsm("not-available", why, "add `bpf` to the end of `lsm=`"));
            checked.says("T2", true)?;
            names(&checked, "bpf", false)?;
            let insists = place.run_with(&[], |run| run.option("--tier", "T1"))?;
            let told = format!(
                "error: cannot launch `guard-probe` at tier T1\n  why: {why}\n  fix: {}\n",
                checked.row("fs", "bpf-lsm")?.change
            );
            ensure!(
                insists.finished.status.code() == Some(3) && insists.finished.stderr == told,
                "{:?}",
                insists.finished
            );
            ensure!(insists.launch.is_none(), "it was launched");
        }
        // Booted with `lsm=lockdown,yama,bpf`.
        "no-landlock" => {
            rows.retain(|row| row.1 != "landlock");
            rows.extend(built());
            rows.extend(no_landlock("Landlock is not enabled: the kernel's lsm list is `"));
            checked.says("T2", false)?;
            names(&checked, "landlock", false)?;
            let changes = checked.changes();
            let (change, required) = changes.first().context("nothing to change")?;
            ensure!(*required && change.contains("add `landlock`"), "{changes:?}");
        }
        // `/sys/kernel/btf` is empty.
        "no-btf" => {
            let why = "this kernel shows no type information (`/sys/kernel/btf/vmlinux`)";
            let change = "CONFIG_DEBUG_INFO_BTF";
            rows.retain(|row| row.1 != "cgroup-bpf");
            rows.extend(lsm("not-available", why, change));
            for (facet, layer) in [
                ("net", "cgroup-bpf"),
                ("ipc", "cgroup-bpf"),
                ("resources", "cgroup-limits"),
            ] {
                rows.push((facet, layer, "not-available", why, change));
            }
            checked.says("T4", false)?;
        }
        // `/sys/kernel/security` is empty.
        "no-securityfs" => {
            rows.extend(built());
            checked.says("T2", true)?;
            let kernel = checked.one("kernel")?;
            ensure!(kernel.get("lsm").is_none(), "{kernel}");
            ensure!(
                kernel["lsm_hidden"] == "securityfs is not mounted at `/sys/kernel/security`",
                "{kernel}"
            );
        }
        other => bail!("`{HERE}={other}` is no machine this test knows"),
    }
    checked.not_enforced(&rows)
}

fn names(checked: &Checked, module: &str, wanted: bool) -> Result<()> {
    let kernel = checked.one("kernel")?;
    let list = kernel["lsm"]
        .as_array()
        .with_context(|| format!("no list: {kernel}"))?;
    ensure!(list.iter().any(|name| name == module) == wanted, "{kernel}");
    Ok(())
}
