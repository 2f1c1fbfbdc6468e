//! Loads an eBPF object into the running kernel, attaches it to a cgroup of its
//! own and prints what the verifier made of it, as JSON. `cargo xtask ebpf` reads it.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::{error::Error, fs, io, path::PathBuf};

use guard_agent::warden::kernel::Programs;

fn main() -> Result<(), Box<dyn Error>> {
    let object = std::env::args_os().nth(1).ok_or("name the object to load")?;
    let object = fs::read(&object).map_err(|e| format!("cannot read `{}`: {e}", object.display()))?;
    let cgroup = Cgroup::make()?;
    let programs =
        Programs::load_and_attach_object(&object, &fs::File::open(&cgroup.0)?, 2).map_err(|error| {
            format!(
                "the object does not load: {}",
                guard_agent::refusal::chain(&error)
            )
        })?;
    let facts: Vec<_> = programs
        .programs()
        .iter()
        .map(|program| {
            serde_json::json!({
                "name": program.name,
                "verified_instructions": program.verified_instructions,
                "why_not": program.why_not,
            })
        })
        .collect();
    println!("{}", serde_json::Value::from(facts));
    Ok(())
}

/// An empty cgroup, removed on every way out.
struct Cgroup(PathBuf);

impl Cgroup {
    fn make() -> io::Result<Self> {
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            // Only a cgroup v2 mount has this file.
            if fs::exists(format!("{root}/cgroup.controllers"))? {
                let path = PathBuf::from(format!("{root}/guard-ebpf-facts-{}", std::process::id()));
                fs::create_dir(&path)?;
                return Ok(Self(path));
            }
        }
        Err(io::Error::other("no cgroup v2 hierarchy is mounted"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
