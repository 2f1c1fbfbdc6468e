//! Embeds the committed eBPF object and names this build.
//!
//! Needs no eBPF toolchain: the object is a file of the repository. It is
//! checked against its manifest, so that a hand-made or half-merged one stops
//! the build and not a launch.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

const OBJECT: &str = "ebpf/guard.bpf.o";
const MANIFEST: &str = "ebpf/manifest.json";

fn main() {
    if let Err(why) = run() {
        // One line, no backtrace: this is a message to a person.
        println!("cargo::error={why}");
    }
}

fn run() -> Result<(), String> {
    let crate_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let common_sources = crate_dir.join("../guard-common/src");
    for watched in [
        crate_dir.join("build.rs"),
        crate_dir.join("src"),
        crate_dir.join(OBJECT),
        crate_dir.join(MANIFEST),
        common_sources.clone(),
    ] {
        println!("cargo::rerun-if-changed={}", watched.display());
    }

    let object = read(&crate_dir.join(OBJECT))?;
    check(&object, &read(&crate_dir.join(MANIFEST))?)?;
    let embedded = PathBuf::from(variable("OUT_DIR")?).join("guard.bpf.o");
    fs::write(&embedded, &object)
        .map_err(|error| format!("cannot write `{}`: {error}", embedded.display()))?;

    let mut build = Sha256::new();
    add_tree(&mut build, &crate_dir.join("src"))?;
    add_tree(&mut build, &common_sources)?;
    build.update(&object);
    let id: String = hex(&build.finalize()).chars().take(16).collect();
    println!("cargo::rustc-env=GUARD_BUILD_ID={id}");
    Ok(())
}

fn check(object: &[u8], manifest: &[u8]) -> Result<(), String> {
    let manifest: serde_json::Value = serde_json::from_slice(manifest)
        .map_err(|error| format!("`guard-agent/{MANIFEST}` is not JSON: {error}; run `cargo xtask ebpf`"))?;
    let wanted = manifest
        .get("object_sha256")
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default();
    let found = hex(&Sha256::digest(object));
    if wanted == found {
        return Ok(());
    }
    Err(format!(
        "`guard-agent/{OBJECT}` has sha256 {found}, its manifest says {wanted:?}: \
         restore both from the same commit, or run `cargo xtask ebpf` to make both anew"
    ))
}

/// Adds every file below `root`: its path relative to it, its length, its bytes.
fn add_tree(hash: &mut Sha256, root: &Path) -> Result<(), String> {
    for entry in walkdir::WalkDir::new(root).sort_by_file_name() {
        let entry = entry.map_err(|error| format!("cannot read the sources: {error}"))?;
        if !entry.file_type().is_file() {
            continue;
        }
        let bytes = read(entry.path())?;
        let name = entry
            .path()
            .strip_prefix(root)
            .unwrap_or(entry.path())
            .to_string_lossy()
            .into_owned();
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("cargo did not set `{name}`: {error}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
