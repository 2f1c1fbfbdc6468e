//! `cargo xtask ebpf`: builds the eBPF object with its own toolchain and
//! commits it to `guard-agent/ebpf/` with a manifest of what it came from.
//!
//! The same sources and toolchain give the same bytes in any directory, so the
//! object that is shipped can be made again by anybody.

mod toolchain;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolchain::{Toolchain, Versions};
use walkdir::WalkDir;

const TARGET: &str = "bpfel-unknown-none";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing: fail unless the committed object is what its sources give
    #[arg(long)]
    check: bool,
}

/// `guard-agent/ebpf/manifest.json`; the agent's `build.rs` reads `object_sha256`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    source_sha256: String,
    object_sha256: String,
    toolchain: Versions,
    /// Kernel that the instruction counts are from.
    verified_on: Option<String>,
    programs: Vec<Program>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    name: String,
    verified_instructions: Option<u32>,
}

/// Where things are in the repository.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn find() -> Result<Self> {
        // Asked at run time: checkouts that share a build directory share this program.
        let own = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask ebpf`")?;
        let root = Path::new(&own).join("..");
        let root = root
            .canonicalize()
            .with_context(|| format!("cannot find `{}`", root.display()))?;
        Ok(Self { root })
    }

    fn object(&self) -> PathBuf {
        self.root.join(MADE[0])
    }

    fn manifest(&self) -> PathBuf {
        self.root.join(MADE[1])
    }

    /// Build directory of the kernel half, and where a fresh object is put.
    fn scratch(&self) -> PathBuf {
        self.root.join("target/ebpf")
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tree = Tree::find()?;
    if args.check { check(&tree) } else { rebuild(&tree) }
}

/// Fails unless the committed object is current.
pub(crate) fn check_committed() -> Result<()> {
    run(&Args { check: true })
}

/// Builds the object of another checkout and puts it in place there, untried: who uses it loads it.
pub(crate) fn rebuild_in(root: &Path) -> Result<()> {
    let tree = Tree {
        root: root.to_owned(),
    };
    let toolchain = Toolchain::ensure()?;
    let object = build(&tree, &toolchain)?;
    put(&tree, &object, toolchain.versions).map(drop)
}

/// What [`rebuild_in`] changes, relative to the checkout.
pub(crate) const MADE: [&str; 2] = ["guard-agent/ebpf/guard.bpf.o", "guard-agent/ebpf/manifest.json"];

/// Puts an object in place that no kernel has seen.
fn put(tree: &Tree, object: &[u8], toolchain: Versions) -> Result<Manifest> {
    let manifest = Manifest {
        source_sha256: source_hash(&tree.root)?,
        object_sha256: hex(&Sha256::digest(object)),
        toolchain,
        verified_on: None,
        programs: Vec::new(),
    };
    fs::create_dir_all(tree.root.join("guard-agent/ebpf"))?;
    write(&tree.object(), object)?;
    write_manifest(tree, &manifest)?;
    Ok(manifest)
}

fn rebuild(tree: &Tree) -> Result<()> {
    let toolchain = Toolchain::ensure()?;
    let object = build(tree, &toolchain)?;
    let before = [tree.object(), tree.manifest()].map(|path| (fs::read(&path).ok(), path));
    let mut manifest = put(tree, &object, toolchain.versions)?;
    // The loader embeds the object, so both had to be in place before the load test.
    match load_test(tree, &tree.object()) {
        Ok(programs) => {
            manifest.verified_on = programs.is_some().then(kernel_version).transpose()?;
            manifest.programs = programs.unwrap_or_default();
        }
        Err(error) => {
            for (bytes, path) in before {
                if let Some(bytes) = bytes {
                    write(&path, &bytes)?;
                }
            }
            return Err(error.context("the fresh object is in `target/ebpf`, the committed one is as before"));
        }
    }
    write_manifest(tree, &manifest)?;
    eprintln!(
        "ebpf: wrote guard-agent/ebpf/guard.bpf.o ({} bytes) and manifest.json",
        object.len()
    );
    for program in &manifest.programs {
        eprintln!(
            "ebpf:   {:<14} {:?}",
            program.name,
            program.verified_instructions.unwrap_or(0)
        );
    }
    Ok(())
}

fn check(tree: &Tree) -> Result<()> {
    let text = fs::read(tree.manifest()).context("cannot read `guard-agent/ebpf/manifest.json`")?;
    let manifest: Manifest =
        serde_json::from_slice(&text).context("cannot understand `guard-agent/ebpf/manifest.json`")?;
    let committed = fs::read(tree.object()).context("cannot read `guard-agent/ebpf/guard.bpf.o`")?;
    ensure!(
        hex(&Sha256::digest(&committed)) == manifest.object_sha256,
        "the committed object is not the one its manifest names: run `cargo xtask ebpf`"
    );
    ensure!(
        source_hash(&tree.root)? == manifest.source_sha256,
        "the sources of the eBPF object changed since it was built: run `cargo xtask ebpf` and commit both files"
    );
    eprintln!("ebpf: sources and object are those of the manifest");

    let toolchain = Toolchain::ensure()?;
    let fresh = build(tree, &toolchain)?;
    if toolchain.versions == manifest.toolchain {
        ensure!(
            fresh == committed,
            "the same sources and toolchain gave other bytes: compare `target/ebpf/guard.bpf.o` with the committed one"
        );
        eprintln!(
            "ebpf: rebuilt with the manifest's toolchain: the same {} bytes",
            fresh.len()
        );
        return Ok(());
    }
    eprintln!(
        "ebpf: this toolchain ({}) is not the manifest's ({}): the fresh object must load instead",
        toolchain.versions, manifest.toolchain
    );
    let Some(programs) = load_test(tree, &tree.scratch().join("guard.bpf.o"))? else {
        bail!("loading the fresh object takes root: run `cargo xtask ebpf --check` as root");
    };
    let names = |programs: &[Program]| programs.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    ensure!(
        names(&programs) == names(&manifest.programs),
        "the fresh object has other programs than the manifest: {:?}",
        names(&programs)
    );
    eprintln!("ebpf: the fresh object loads, all {} programs", programs.len());
    Ok(())
}

/// Builds and strips; the result is also left in `target/ebpf`.
fn build(tree: &Tree, toolchain: &Toolchain) -> Result<Vec<u8>> {
    eprintln!("ebpf: building guard-ebpf with {}", toolchain.versions);
    let flags = [
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
        // The last match wins: the repository may lie below the other.
        format!("--remap-path-prefix={}=cargo", toolchain::cargo_home()?.display()),
        format!("--remap-path-prefix={}=guard", tree.root.display()),
    ];
    let status = toolchain
        .cargo()
        .current_dir(tree.root.join("guard-ebpf"))
        .args(["build", "--release", "--locked", "--target", TARGET])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("CARGO_TARGET_DIR", tree.scratch())
        .status()
        .context("cannot run `cargo build` for the eBPF object")?;
    ensure!(status.success(), "building the eBPF object failed ({status})");
    let linked = tree.scratch().join(TARGET).join("release/guard");
    let object = tree.scratch().join("guard.bpf.o");
    toolchain.strip(&linked, &object)?;
    let mut bytes = fs::read(&object).with_context(|| format!("cannot read `{}`", object.display()))?;
    // Remapping does not reach paths that the compiler's prebuilt library brings along.
    let library = format!("{}/", toolchain.versions.library_sources()?.display());
    shorten_strings(&mut bytes, library.as_bytes(), b"rust/");
    same_crates(&mut bytes);
    no_paths(tree, &bytes)?;
    write(&object, &bytes)?;
    Ok(bytes)
}

/// Gives every zero-terminated string that starts with `prefix` a shorter start, in place: the
/// rest moves up and zeroes fill the end, so that no offset changes. String tables allow that.
fn shorten_strings(bytes: &mut [u8], prefix: &[u8], replacement: &[u8]) {
    let mut at = 0;
    while let Some(found) = bytes[at..]
        .windows(prefix.len())
        .position(|window| window == prefix)
    {
        let start = at + found;
        let length = bytes[start..]
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len() - start);
        let new = [replacement, &bytes[start + prefix.len()..start + length]].concat();
        bytes[start..start + length].fill(0);
        bytes[start..start + new.len()].copy_from_slice(&new);
        at = start + length;
    }
}

/// Names of functions that were not inlined tell crates apart by a number (`Cs…_`) that depends on where they were
/// built. In place, so that no offset changes.
fn same_crates(bytes: &mut [u8]) {
    const SHORTEST: usize = 8;
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(2).position(|window| window == b"Cs") {
        let start = at + found + 2;
        let length = bytes[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        let rest = &bytes[start + length..];
        let names_a_crate = rest.first() == Some(&b'_') && rest.get(1).is_some_and(u8::is_ascii_digit);
        if length >= SHORTEST && names_a_crate {
            bytes[start..start + length].fill(b'0');
        }
        at = start;
    }
}

/// The object must not tell where it was built.
fn no_paths(tree: &Tree, object: &[u8]) -> Result<()> {
    let places = [
        tree.root.clone(),
        toolchain::cargo_home()?,
        PathBuf::from("/usr/src"),
        PathBuf::from("/home"),
    ];
    for place in places {
        let needle = place.as_os_str().as_encoded_bytes();
        ensure!(
            !object.windows(needle.len()).any(|window| window == needle),
            "the object holds the path `{}`: a `--remap-path-prefix` is missing",
            place.display()
        );
    }
    Ok(())
}

/// Loads an object into this kernel; `None` without the privilege to.
fn load_test(tree: &Tree, object: &Path) -> Result<Option<Vec<Program>>> {
    if !toolchain::is_root()? {
        eprintln!("ebpf: not root: the object is not loaded, no instruction counts");
        return Ok(None);
    }
    eprintln!("ebpf: loading the object into this kernel");
    let output = Command::new(env!("CARGO"))
        .current_dir(&tree.root)
        .args([
            "run",
            "--quiet",
            "--package",
            "guard-agent",
            "--example",
            "ebpf_facts",
            "--",
        ])
        .arg(object)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run the load test")?;
    ensure!(
        output.status.success(),
        "the kernel did not take the object ({})",
        output.status
    );
    let programs: Vec<Program> =
        serde_json::from_slice(&output.stdout).context("the load test printed no list")?;
    Ok(Some(programs))
}

/// Hash over everything the object is made from: path, length, bytes, sorted by path.
fn source_hash(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    for part in ["guard-ebpf", "guard-common"] {
        let walk = WalkDir::new(root.join(part))
            .into_iter()
            .filter_entry(|entry| entry.file_name() != "target");
        for entry in walk {
            let entry = entry.with_context(|| format!("cannot read `{part}`"))?;
            if entry.file_type().is_file() {
                files.push(entry.into_path());
            }
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let name = file
            .strip_prefix(root)?
            .to_str()
            .context("a source file's name is not UTF-8")?;
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    Ok(hex(&hash.finalize()))
}

fn write_manifest(tree: &Tree, manifest: &Manifest) -> Result<()> {
    write(
        &tree.manifest(),
        format!("{}\n", serde_json::to_string_pretty(manifest)?).as_bytes(),
    )
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

/// `6.18.44` of `6.18.44-cloud-amd64`.
fn kernel_version() -> Result<String> {
    let release =
        fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot read the kernel's release")?;
    Ok(release
        .trim()
        .split(['-', '+'])
        .next()
        .unwrap_or_default()
        .to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_get_shorter_and_nothing_moves() {
        let mut table = b"\0/usr/src/x/a.rs\0keep\0/usr/src/x/b\0".to_vec();
        shorten_strings(&mut table, b"/usr/src/x/", b"r/");
        assert_eq!(
            table,
            b"\0r/a.rs\0\0\0\0\0\0\0\0\0\0keep\0r/b\0\0\0\0\0\0\0\0\0\0"
        );
    }

    #[test]
    fn the_number_of_a_crate_is_the_same_everywhere() {
        let mut names = b"\0_RNvCskOiIHj0Ny6b_5guard3lsm\0Cshort_5x\0Csabcdefgh_x\0".to_vec();
        same_crates(&mut names);
        assert_eq!(
            names,
            b"\0_RNvCs00000000000_5guard3lsm\0Cshort_5x\0Csabcdefgh_x\0"
        );
    }

    #[test]
    fn the_source_hash_sees_names_and_bytes() {
        let root = tempfile::tempdir().unwrap();
        for part in ["guard-ebpf/src", "guard-ebpf/target", "guard-common/src"] {
            fs::create_dir_all(root.path().join(part)).unwrap();
        }
        let hash = || source_hash(root.path()).unwrap();
        let file = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        file("guard-ebpf/src/main.rs", "a");
        let first = hash();
        file("guard-ebpf/target/made", "x");
        assert_eq!(hash(), first);
        file("guard-common/src/lib.rs", "b");
        let second = hash();
        assert_ne!(second, first);
        file("guard-common/src/lib.rs", "c");
        let third = hash();
        assert_ne!(third, second);
        fs::rename(
            root.path().join("guard-common/src/lib.rs"),
            root.path().join("guard-common/src/l.rs"),
        )
        .unwrap();
        assert_ne!(hash(), third);
    }
}
