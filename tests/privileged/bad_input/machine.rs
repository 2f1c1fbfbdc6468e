//! A machine, or a caller, without what enforcement needs: refused with exit status 3.

use std::{ffi::OsString, fs};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::AgentBuilder,
    programs,
    refused::{PATIENCE, Stage, Status, USER, text, with_mounts},
};

/// The launch by an ordinary user, with a copy of the agent that this user can reach.
pub(crate) fn as_user(stage: &Stage, run: AgentBuilder) -> Result<AgentBuilder> {
    let copy = stage.path("guard-agent");
    if !copy.exists() {
        fs::copy(programs::agent()?, &copy).context("failed to copy the agent")?;
    }
    let around = [
        "setpriv",
        "--reuid",
        USER,
        "--regid",
        USER,
        "--clear-groups",
        "--no-new-privs",
    ];
    Ok(run.around(around).program(&copy))
}

#[test]
fn no_type_information() -> Result<()> {
    let stage = Stage::new("btf")?;
    let run = stage
        .run()
        .around(with_mounts("mount -t tmpfs none /sys/kernel/btf"));
    let words = [
        "cannot enforce network rights",
        "this kernel shows no type information (`/sys/kernel/btf/vmlinux`)",
        "use a kernel built with CONFIG_DEBUG_INFO_BTF, and mount sysfs",
    ];
    stage.refused(&run, Status::NotEnforced, words)
}

const NO_CGROUP: &str = "cannot make a cgroup for the sandboxes";
const MOUNT_CGROUP: &str =
    "mount cgroup v2 (for instance at `/sys/fs/cgroup`) and run as root outside a cgroup namespace";

#[test]
fn no_cgroup_hierarchy() -> Result<()> {
    let stage = Stage::new("cgroup")?;
    let run = stage.run().around(with_mounts("umount -R -l /sys/fs/cgroup"));
    let why = "no cgroup v2 hierarchy is mounted";
    stage.refused(&run, Status::NotEnforced, [NO_CGROUP, why, MOUNT_CGROUP])
}

#[test]
fn hidden_or_fixed_cgroup_hierarchy() -> Result<()> {
    let stage = Stage::new("hidden")?;
    let place = guard_agent::warden::cgroup::parent_path(&stage.bench.state())?;
    let top = place.parent().context("below a mount")?;
    let hidden = format!("mount -t tmpfs none {0}", text(top));
    // Listed among the mounts, but covered: what is made there is no cgroup.
    let run = stage.run().around(with_mounts(&hidden));
    let finished = run.run("", PATIENCE)?;
    ensure!(
        finished
            .stderr
            .starts_with(&format!("error: {NO_CGROUP}\n  why: "))
            && finished.stderr.ends_with(&format!("\n  fix: {MOUNT_CGROUP}\n")),
        "{}",
        finished.stderr
    );
    ensure!(finished.stderr.lines().count() == 3, "{}", finished.stderr);
    stage.ended(&finished, Status::NotEnforced)?;
    let run = stage
        .run()
        .around(with_mounts(&format!("mount -o remount,bind,ro {}", text(top))));
    let why = format!(
        "cannot create `{}`: Read-only file system (os error 30)",
        text(&place)
    );
    stage.refused(&run, Status::NotEnforced, [NO_CGROUP, &why, MOUNT_CGROUP])
}

/// A tier that only root can have is refused before anything is made.
#[test]
fn an_ordinary_user_who_insists_on_the_tier_of_root() -> Result<()> {
    let stage = Stage::new("ordinary")?;
    let words = [
        "cannot enforce at tier T2",
        "uid 5 may not make cgroups and eBPF links",
        "start it as root, for instance `sudo guard-agent run …` (the server itself then runs as you), or use `--tier T3`",
    ];
    let run = as_user(&stage, stage.run().option("--tier", "T2"))?;
    stage.refused(&run, Status::NotEnforced, words)?;
    ensure!(!stage.bench.state().exists(), "a state directory was made");
    Ok(())
}

/// Root, as a container or a service may have it.
#[test]
fn root_without_its_rights() -> Result<()> {
    let stage = Stage::new("capabilities")?;
    let fix = "start it as root with all capabilities (look at `CapabilityBoundingSet=` of the service, or the container's)";
    let without = |capability: &str| {
        let set = format!("--bounding-set=-{capability}");
        stage.run().around(["setpriv", &set])
    };
    for (capability, needed_for) in [
        ("sys_admin", "namespaces, mounts and eBPF programs"),
        ("net_admin", "eBPF programs on a cgroup"),
        ("setuid", "the server's uid"),
        ("setgid", "the server's groups"),
        ("setpcap", "giving all rights up"),
        ("sys_ptrace", "the look at the sandbox from outside"),
        ("mknod", "the sandbox's own `/dev/null`"),
    ] {
        let why = format!(
            "this root lacks CAP_{}, which is needed for {needed_for}",
            capability.to_uppercase()
        );
        let words = ["cannot contain `touch`", &why, fix];
        stage.refused(&without(capability), Status::NotEnforced, words)?;
    }
    // CAP_SYS_ADMIN includes what CAP_BPF is for; what we do not list we do not need.
    let around = [
        "setpriv",
        "--bounding-set=-bpf,-perfmon,-kill,-chown,-fowner,-sys_chroot,-sys_resource,-dac_read_search",
    ];
    let finished = stage.run().around(around).run("", PATIENCE)?;
    ensure!(
        finished.status.success() && stage.marker().exists(),
        "{}",
        finished.stderr
    );
    Ok(())
}

/// Root of a user namespace has every capability, over nothing that is ours to use.
#[test]
fn root_of_a_user_namespace() -> Result<()> {
    let stage = Stage::new("userns")?;
    let run = stage
        .run()
        .around(["unshare", "--user", "--map-root-user", "--mount"]);
    let words = [
        "cannot contain `touch`",
        "this root is root of a user namespace only, and the kernel gives that no cgroups and eBPF programs",
        "start it as root of the machine itself",
    ];
    stage.refused(&run, Status::NotEnforced, words)
}

fn without_landlock(run: AgentBuilder) -> Result<AgentBuilder> {
    Ok(run.around([programs::around()?.into_os_string(), OsString::from("landlock")]))
}

#[test]
fn no_landlock() -> Result<()> {
    let stage = Stage::new("landlock")?;
    let run = without_landlock(stage.run())?;
    let finished = run.run("", PATIENCE)?;
    let mut lines = finished.stderr.lines();
    ensure!(
        lines.next() == Some("error: cannot launch `touch`: the facet `fs` is required"),
        "{}",
        finished.stderr
    );
    let why = "  why: landlock: the Landlock calls answer ENOSYS: the kernel was built without it, or";
    ensure!(
        lines.next().is_some_and(|line| line.starts_with(why)),
        "{}",
        finished.stderr
    );
    let fix = lines.next().unwrap_or_default();
    let end = "; or drop `fs` from `require`, or launch without it and have that recorded with `--allow-unenforced`";
    ensure!(
        fix.starts_with("  fix: allow `landlock_create_ruleset`")
            && fix.ends_with(end)
            && lines.next().is_none(),
        "{}",
        finished.stderr
    );
    stage.ended(&finished, Status::NotEnforced)
}

#[test]
fn no_landlock_and_allowed() -> Result<()> {
    let stage = Stage::new("unenforced")?;
    let run = without_landlock(stage.run().flag("--allow-unenforced"))?;
    let finished = run.run("", PATIENCE)?;
    ensure!(
        finished.status.success() && stage.marker().exists(),
        "{}",
        finished.stderr
    );
    for facet in ["fs", "exec"] {
        let told = format!("[touch] {facet}: not enforced: the Landlock calls answer ENOSYS: ");
        ensure!(finished.stderr.contains(&told), "not told: {}", finished.stderr);
    }
    let records = stage.bench.records()?;
    let launch = records
        .iter()
        .find(|record| record.kind == "launch")
        .context("no launch record")?;
    let body = &launch.body;
    ensure!(body["allow_unenforced"] == true, "{body}");
    ensure!(body["landlock_abi"] == 0, "{body}");
    let layers = body["enforcement"]["fs"]["layers"]
        .as_array()
        .context("no layers")?;
    ensure!(!layers.iter().any(|layer| layer == "landlock"), "{body}");
    let missing = body["enforcement"]["fs"]["missing"]
        .as_array()
        .context("nothing missing")?;
    ensure!(missing.iter().any(|layer| layer["layer"] == "landlock"), "{body}");
    stage.no_session()
}
