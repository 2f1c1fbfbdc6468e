//! The eBPF toolchain: Debian's newer Rust with its prebuilt `core` for the
//! target, LLVM of the same version, and `bpf-linker` built against that.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

const RUSTC: &str = "/usr/bin/rustc";
const LLVM: &str = "/usr/lib/llvm-22";
const LINKER_VERSION: &str = "0.13.0";

/// What the object's bytes depend on besides its sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Versions {
    rustc: String,
    cargo: String,
    bpf_linker: String,
    llvm: String,
    /// Whether the sources of the compiler's library are installed: the linker copies lines of them.
    library_sources: bool,
}

impl Versions {
    /// Where the compiler's own library says its sources are.
    pub(super) fn library_sources(&self) -> Result<PathBuf> {
        library_sources(&self.rustc)
    }
}

fn library_sources(rustc: &str) -> Result<PathBuf> {
    let number = rustc.split(' ').next().context("`rustc -V` names no version")?;
    Ok(PathBuf::from(format!("/usr/src/rustc-{number}")))
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = if self.library_sources { "with" } else { "without" };
        write!(
            f,
            "rustc {}, cargo {}, bpf-linker {}, LLVM {}, {with} library sources",
            self.rustc, self.cargo, self.bpf_linker, self.llvm
        )
    }
}

pub(super) struct Toolchain {
    pub(super) versions: Versions,
    linker: PathBuf,
}

impl Toolchain {
    /// Finds the toolchain, installing what is missing.
    pub(super) fn ensure() -> Result<Self> {
        install_packages(&["rustc-web", "libstd-rust-web-dev-bpf", "llvm-22"])?;
        let linker = cargo_home()?.join("bin/bpf-linker");
        if version(&linker, "--version", "bpf-linker ").ok().as_deref() != Some(LINKER_VERSION) {
            install_linker()?;
        }
        let rustc = version(Path::new(RUSTC), "-V", "rustc ")?;
        let versions = Versions {
            library_sources: library_sources(&rustc)?.exists(),
            rustc,
            cargo: version(Path::new(env!("CARGO")), "-V", "cargo ")?,
            bpf_linker: version(&linker, "--version", "bpf-linker ")?,
            llvm: version(&llvm_tool("llvm-config"), "--version", "")?,
        };
        Ok(Self { versions, linker })
    }

    /// cargo with this toolchain's compiler and linker, and nothing of the caller's.
    pub(super) fn cargo(&self) -> Command {
        let mut cargo = clean_cargo();
        cargo
            .env("RUSTC", RUSTC)
            // The target is not one that stable Rust knows.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &self.linker);
        cargo
    }

    /// Drops the debugging sections; the type information the kernel wants stays.
    pub(super) fn strip(&self, from: &Path, to: &Path) -> Result<()> {
        let status = Command::new(llvm_tool("llvm-objcopy"))
            .arg("--strip-debug")
            .args([from, to])
            .status()
            .context("cannot run `llvm-objcopy`")?;
        ensure!(status.success(), "`llvm-objcopy` failed ({status})");
        Ok(())
    }
}

fn llvm_tool(name: &str) -> PathBuf {
    Path::new(LLVM).join("bin").join(name)
}

fn install_packages(wanted: &[&str]) -> Result<()> {
    let missing: Vec<&str> = wanted.iter().copied().filter(|name| !installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !is_root()? {
        bail!("Debian packages are missing for the eBPF build: run `apt-get install {list}` as root");
    }
    eprintln!("ebpf: installing {list}");
    for arguments in [
        vec!["update"],
        [vec!["install", "-y", "--no-install-recommends"], missing].concat(),
    ] {
        let status = Command::new("apt-get")
            .args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .context("cannot run `apt-get`: the eBPF object is built on Debian")?;
        ensure!(
            status.success(),
            "`apt-get {}` failed ({status})",
            arguments.join(" ")
        );
    }
    Ok(())
}

fn installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .output()
        .is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

fn install_linker() -> Result<()> {
    install_packages(&["llvm-22-dev", "g++", "zlib1g-dev", "libzstd-dev", "libxml2-dev"])?;
    eprintln!("ebpf: building bpf-linker {LINKER_VERSION} (some minutes, once)");
    // From outside the repository: its cargo configuration is for static
    // programs, and this one must link LLVM dynamically.
    let elsewhere = tempfile::tempdir().context("cannot make a temporary directory")?;
    let status = clean_cargo()
        .current_dir(elsewhere.path())
        .args([
            "install",
            "bpf-linker",
            "--version",
            LINKER_VERSION,
            "--locked",
            "--force",
        ])
        .args(["--no-default-features", "--features", "llvm-22"])
        // One is for its bindings, the other for its own linking.
        .env("LLVM_SYS_221_PREFIX", LLVM)
        .env("LLVM_PREFIX", LLVM)
        .status()
        .context("cannot run `cargo install bpf-linker`")?;
    ensure!(status.success(), "installing bpf-linker failed ({status})");
    Ok(())
}

/// cargo without what the caller's environment says about flags, targets and compilers.
fn clean_cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let named = [
            "RUSTC",
            "RUSTFLAGS",
            "RUSTDOC",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_TARGET_DIR",
        ];
        let prefixed = [
            "CARGO_ENCODED_",
            "CARGO_TARGET_",
            "CARGO_PROFILE_",
            "CARGO_UNSTABLE_",
        ];
        let build = text.starts_with("CARGO_BUILD_") && text != "CARGO_BUILD_JOBS";
        if build || named.contains(&text) || prefixed.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// What a program says its version is, without its name.
fn version(program: &Path, argument: &str, prefix: &str) -> Result<String> {
    let output = Command::new(program)
        .arg(argument)
        .output()
        .with_context(|| format!("cannot run `{}`", program.display()))?;
    ensure!(
        output.status.success(),
        "`{} {argument}` failed ({})",
        program.display(),
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.trim().trim_start_matches(prefix).to_owned())
}

pub(super) fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| env::home_dir().map(|home| home.join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")
}

pub(super) fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("cannot run `id`")?;
    Ok(output.stdout.trim_ascii() == b"0")
}
