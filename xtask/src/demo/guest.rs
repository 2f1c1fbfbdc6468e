//! The same on a machine that has tier T1: a virtual one with Debian's kernel.

use anyhow::{Result, ensure};

use super::programs::{GUEST, GUEST_MODULES, Programs};
use crate::vm::{self, Case, Status, Vm};

const KERNEL: &str = "6.12";
/// Debian asks `bpf` last. Here it is asked before Landlock, which otherwise refuses the same opens and ends them.
pub(super) const ORDER: &str = "lsm=bpf,landlock,lockdown,yama";

/// Boots it and plays; everything is claimed and checked in there.
pub(super) fn play(programs: &Programs) -> Result<()> {
    let case = case(programs)?;
    let outcome = vm::run(&Vm {
        kernel: KERNEL,
        append: ORDER,
        case: &case,
        memory_mb: None,
        cpus: 1,
        out: None,
        stream: true,
        counted: false,
    })?;
    ensure!(
        outcome.status == Status::Exit(0),
        "at tier T1, in a virtual machine with Linux {}: {}",
        outcome.version,
        outcome.status
    );
    Ok(())
}

fn case(programs: &Programs) -> Result<Case> {
    let own = std::env::current_exe()?;
    let node = programs.node.display().to_string();
    let mut case = Case::new("demo", &[&format!("{GUEST}/xtask"), "demo", "--inside", &node]);
    for (name, source) in [
        ("xtask", &vm::stripped(&own)?),
        ("guard-agent", &vm::stripped(&programs.agent)?),
    ] {
        case.files.file(format!("{GUEST}/{name}"), source, 0o755);
    }
    for (name, source) in [
        ("demo-client.mjs", &programs.client),
        ("hostile.mjs", &programs.hostile),
        ("addon.node", &programs.addon),
    ] {
        case.files.file(format!("{GUEST}/{name}"), source, 0o644);
    }
    case.layers = vec![vm::layer("shell")?, modules(programs)?];
    case.timeout = Some(std::time::Duration::from_secs(600));
    Ok(case)
}

/// What rarely changes.
fn modules(programs: &Programs) -> Result<vm::Tree> {
    let mut tree = vm::Tree::default();
    tree.elf(&programs.node)?;
    tree.elf(std::path::Path::new("/usr/bin/setpriv"))?;
    tree.libraries(&programs.addon)?;
    for (name, folder) in [("sdk", &programs.sdk), ("server-filesystem", &programs.modules)] {
        tree.host_at(folder, std::path::Path::new(&format!("{GUEST_MODULES}/{name}")))?;
    }
    Ok(tree)
}
