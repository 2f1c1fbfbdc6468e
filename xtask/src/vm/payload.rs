//! What cases need besides themselves: the guest's base files, a shell, node, python, workspace binaries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail, ensure};

use super::tree::{MERGED, Tree};
use super::{cache_dir, workspace};
use crate::apt::{self, Index};

/// Folders and files every guest has.
pub(crate) fn base() -> Tree {
    let mut tree = Tree::default();
    for name in MERGED {
        tree.dir(format!("/usr/{name}"), 0o755);
        tree.link(format!("/{name}"), format!("usr/{name}"));
    }
    for dir in [
        "/dev",
        "/proc",
        "/sys",
        "/run",
        "/mnt",
        "/srv",
        "/home",
        "/opt",
        "/usr/local/bin",
        "/var/lib",
    ] {
        tree.dir(dir, 0o755);
    }
    tree.dir("/root", 0o700);
    tree.dir("/tmp", 0o1777);
    tree.link("/var/run", "/run");
    let passwd = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n\
                  nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    let group = "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n";
    let hosts = "127.0.0.1 localhost guard-vm\n::1 localhost\n";
    for (name, text) in [
        ("passwd", passwd),
        ("group", group),
        ("hosts", hosts),
        ("hostname", "guard-vm\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        ("machine-id", "0123456789abcdef0123456789abcdef\n"),
    ] {
        tree.bytes(format!("/etc/{name}"), text.as_bytes(), 0o644);
    }
    tree
}

/// Debian's static busybox as `/bin/busybox`, with links for the tools it has.
pub(crate) fn shell() -> Result<Tree> {
    let dir = cache_dir().join("busybox");
    let program = ["usr/bin/busybox", "bin/busybox"].map(|path| dir.join(path));
    if !program.iter().any(|path| path.is_file()) {
        let index = Index::open(&cache_dir().join("index/bookworm"), super::kernel::BOOKWORM)?;
        let found = index.search("^busybox-static$")?;
        let package = found.first().context("Debian bookworm has no `busybox-static`")?;
        let deb = index.download(package, &dir)?;
        apt::extract(&deb, &dir, &["./bin/busybox", "./usr/bin/busybox"])?;
    }
    let program = program
        .into_iter()
        .find(|path| path.is_file())
        .context("`busybox-static` has no busybox")?;
    let tools = apt::output(Command::new(&program).arg("--list"))?;
    let mut tree = Tree::default();
    tree.file("/bin/busybox", &program, 0o755);
    for tool in tools.lines().filter(|tool| *tool != "busybox") {
        tree.link(format!("/bin/{tool}"), "busybox");
    }
    Ok(tree)
}

/// The host's node with its libraries; `modules` are folders (as `node_modules`) brought to the same place.
pub(crate) fn node(modules: &[&Path]) -> Result<Tree> {
    let node = Path::new("/usr/bin/node");
    ensure!(
        node.is_file(),
        "no `{}` on this machine: install Debian's `nodejs`",
        node.display()
    );
    let mut tree = Tree::default();
    tree.elf(node)?;
    for dir in modules {
        tree.host(dir)?;
    }
    Ok(tree)
}

/// The distribution's python with its standard library; `sites` are folders (virtual environments, site
/// packages) brought to the same place. Libraries their extension modules name come along.
pub(crate) fn python(sites: &[&Path]) -> Result<Tree> {
    let python = distribution_python()?;
    let name = python
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let library = Path::new("/usr/lib").join(&name);
    let mut tree = Tree::default();
    tree.elf(&python)?;
    tree.link("/usr/bin/python3", &name);
    let unwanted = ["test", "idlelib", "turtledemo", "ensurepip", "lib2to3", "tkinter"];
    tree.host_filtered(&library, &library, |path| {
        path.parent() != Some(&library) || !unwanted.iter().any(|name| path.ends_with(name))
    })?;
    for site in sites {
        tree.host(site)?;
    }
    let extensions: Vec<PathBuf> = tree
        .entries()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "so") && path.is_file())
        .map(|(path, _)| path.to_owned())
        .collect();
    for extension in extensions {
        tree.elf(&extension)?;
    }
    Ok(tree)
}

/// `/usr/bin/python3.N`, not a version manager's: the guest has no home to find that in.
fn distribution_python() -> Result<PathBuf> {
    let link = Path::new("/usr/bin/python3");
    if let Ok(real) = fs::canonicalize(link) {
        return Ok(real);
    }
    let found = fs::read_dir("/usr/bin")
        .context("list `/usr/bin`")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_prefix("python3."))
                .is_some_and(|minor| minor.parse::<u8>().is_ok())
        });
    found.context("no `/usr/bin/python3` on this machine: install Debian's `python3`")
}

/// The guest's init, built once a run.
pub(crate) fn init() -> Result<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if BUILT.get().is_none() {
        let _ = BUILT.set(build("guard-tests", &["--bin", "guard-vm-init"])?);
    }
    BUILT
        .get()
        .map(PathBuf::as_path)
        .context("the guest's init was not built")
}

/// Builds a workspace target and returns its executable, as cargo reports it.
pub(crate) fn build(package: &str, target: &[&str]) -> Result<PathBuf> {
    let what = target.last().copied().unwrap_or(package);
    eprintln!("[vm] building {what}");
    let test = target.first() == Some(&"--test");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(if test {
        &["test", "--no-run"][..]
    } else {
        &["build"][..]
    });
    cargo
        .args([
            "--quiet",
            "--message-format=json-render-diagnostics",
            "-p",
            package,
        ])
        .args(target);
    let done = cargo
        .current_dir(workspace())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("start `cargo`")?;
    ensure!(
        done.status.success(),
        "build `{what}` of `{package}`: cargo ended with {}",
        done.status
    );
    let report = String::from_utf8_lossy(&done.stdout);
    let executable = report.lines().filter_map(executable).next_back();
    let Some(path) = executable else {
        bail!("cargo reported no executable for `{what}` of `{package}`")
    };
    Ok(path)
}

fn executable(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(PathBuf::from(message.get("executable")?.as_str()?))
}
