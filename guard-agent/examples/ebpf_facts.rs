//! Loads an eBPF object into the running kernel, attaches it and prints what the verifier made of it, as JSON.
//! `cargo xtask ebpf` and `cargo xtask verify` read it.
//!
//! `ebpf_facts OBJECT [--hooks] [--to FILE]`: with `--hooks` the programs on the security hooks, too; a kernel that takes
//! none of them is told apart by what each says.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::{
    error::Error,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use guard_agent::{
    refusal::chain,
    warden::kernel::{ProgramInfo, Programs},
};
use guard_common::{hooks::HOOKS, told::TOLD};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let object = words.next().ok_or("name the object to load")?;
    let (mut hooks, mut to) = (false, None);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--hooks") => hooks = true,
            Some("--to") => to = Some(words.next().ok_or("`--to` needs a file")?),
            _ => return Err(format!("unknown word `{}`", word.display()).into()),
        }
    }
    let programs = facts(Path::new(&object), hooks)?;
    let list: Vec<_> = programs
        .iter()
        .map(|program| {
            serde_json::json!({
                "name": program.name,
                "hook": of_tier_one().any(|name| name == program.name),
                "verified_instructions": program.verified_instructions,
                "recursion_misses": program.recursion_misses,
                "why_not": program.why_not,
            })
        })
        .collect();
    print(&serde_json::Value::from(list).to_string(), to)
}

/// The programs on security hooks, and those that tell what others refuse there.
fn of_tier_one() -> impl Iterator<Item = &'static str> {
    let hooks = HOOKS.iter().map(|hook| hook.name);
    hooks.chain(TOLD.iter().map(|told| told.program))
}

fn print(list: &str, to: Option<OsString>) -> Result<(), Box<dyn Error>> {
    match to {
        Some(file) => {
            fs::write(&file, list).map_err(|e| format!("cannot write `{}`: {e}", file.display()))?;
        }
        None => println!("{list}"),
    }
    Ok(())
}

/// Every program of the object: all that are loaded are attached when the kernel is asked about them.
fn facts(object: &Path, hooks: bool) -> Result<Vec<ProgramInfo>, Box<dyn Error>> {
    let object = fs::read(object).map_err(|e| format!("cannot read `{}`: {e}", object.display()))?;
    let cgroup = Cgroup::make()?;
    let mut programs = Programs::load_and_attach_object(&object, &fs::File::open(&cgroup.0)?, 2)
        .map_err(|error| format!("the object does not load: {}", chain(&error)))?;
    if programs.observation().is_ok() {
        programs
            .observe_start()
            .map_err(|error| format!("the tracepoints are not attached: {}", chain(&error)))?;
    }
    let refused = if hooks { programs.hooks_start().err() } else { None };
    let mut list = programs.programs();
    if let Some(error) = refused {
        let why = chain(&error);
        list.extend(of_tier_one().map(|name| ProgramInfo {
            name,
            attached: false,
            why_not: Some(why.clone()),
            verified_instructions: None,
            recursion_misses: 0,
        }));
    }
    Ok(list)
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
