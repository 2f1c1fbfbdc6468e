//! What cases need besides themselves: the guest's base files, a shell, node, python, workspace binaries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};

use super::cache_dir;
use super::tree::{MERGED, Tree};
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
    tree.dir("/home/user", 0o755);
    tree.own(Path::new("/home/user"), 1000);
    tree.dir("/tmp", 0o1777);
    tree.bytes("/etc/shadow", b"root:*:20000:0:99999:7:::\n", 0o640);
    tree.link("/var/run", "/run");
    let passwd = "root:x:0:0:root:/root:/bin/sh\ngames:x:5:60:games:/usr/games:/usr/sbin/nologin\nuser:x:1000:1000:user:/home/user:/bin/sh\n\
                  nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    let group = "root:x:0:\ntty:x:5:\ngames:x:60:\nuser:x:1000:\nnogroup:x:65534:\n";
    let hosts = "127.0.0.1 localhost guard-vm\n::1 localhost\n";
    for (name, text) in [
        ("passwd", passwd),
        ("group", group),
        ("hosts", hosts),
        ("hostname", "guard-vm\n"),
        ("login.defs", "UMASK 022\nENCRYPT_METHOD YESCRYPT\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        ("machine-id", "0123456789abcdef0123456789abcdef\n"),
    ] {
        tree.bytes(format!("/etc/{name}"), text.as_bytes(), 0o644);
    }
    tree
}

/// Debian's static busybox as `/bin/busybox`, with links for the tools it has.
pub(crate) fn shell() -> Result<Tree> {
    let _lock = super::lock(&cache_dir())?;
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

/// The host's shell and the tools of `coreutils` and `findutils` that start programs, instead of busybox's.
pub(crate) fn coreutils() -> Result<Tree> {
    let mut tree = Tree::default();
    for program in ["/usr/bin/dash", "/usr/bin/env", "/usr/bin/xargs"] {
        tree.elf(Path::new(program))?;
    }
    tree.link("/bin/sh", "dash");
    Ok(tree)
}

/// The host's node with its libraries; `modules` are folders (as `node_modules`) and where the guest has them.
pub(crate) fn node(modules: &[(&Path, &Path)]) -> Result<Tree> {
    let node = Path::new("/usr/bin/node");
    ensure!(
        node.is_file(),
        "no `{}` on this machine: install Debian's `nodejs`",
        node.display()
    );
    let mut tree = Tree::default();
    tree.elf(node)?;
    for (dir, guest) in modules {
        tree.host_at(dir, guest)?;
    }
    Ok(tree)
}

/// The distribution's python with its standard library; `sites` are folders (virtual environments, site
/// packages) and where the guest has them. Libraries their extension modules name come along.
pub(crate) fn python(sites: &[(&Path, &Path)]) -> Result<Tree> {
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
    for (site, guest) in sites {
        tree.host_at(site, guest)?;
    }
    let extensions: Vec<PathBuf> = tree
        .sources()
        .filter(|path| path.extension().is_some_and(|extension| extension == "so"))
        .map(Path::to_owned)
        .collect();
    for extension in extensions {
        tree.libraries(&extension)?;
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
        let mut built = build(&["build", "-p", "guard-tests", "--bin", "guard-vm-init"])?;
        let _ = BUILT.set(built.pop().context("cargo reported no `guard-vm-init`")?.path);
    }
    BUILT
        .get()
        .map(PathBuf::as_path)
        .context("the guest's init was not built")
}

/// A program cargo built.
pub(crate) struct Built {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Runs cargo and returns the programs it says it built.
pub(crate) fn build(args: &[&str]) -> Result<Vec<Built>> {
    eprintln!("[vm] cargo {}", args.join(" "));
    let done = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(args)
        .args(["--quiet", "--message-format=json-render-diagnostics"])
        .current_dir(crate::workspace())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("start `cargo`")?;
    ensure!(
        done.status.success(),
        "`cargo {}` ended with {}",
        args.join(" "),
        done.status
    );
    Ok(String::from_utf8_lossy(&done.stdout)
        .lines()
        .filter_map(built)
        .collect())
}

/// A copy of a program without its debug information. What a guest does not carry it does not unpack: nine tenths of a
/// debug build.
pub(crate) fn stripped(program: &Path) -> Result<PathBuf> {
    // Beside it: another checkout that shares the kernels has others of the same name.
    let dir = program
        .parent()
        .context("a program in no folder")?
        .join("stripped");
    fs::create_dir_all(&dir).context("create a folder for stripped programs")?;
    let name = program.file_name().context("a program without a name")?;
    let at = dir.join(name);
    let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified());
    let source = changed(program).with_context(|| format!("find `{}`", program.display()))?;
    // Of this very one: cargo puts an older build in place again when its features are asked for again.
    if changed(&at).is_ok_and(|made| made == source) {
        return Ok(at);
    }
    // Two runs at once must not read a half-made one.
    let new = tempfile::NamedTempFile::new_in(&dir).context("create a file for a stripped program")?;
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg("-o").arg(new.path()).arg(program);
    apt::output(&mut strip).with_context(|| format!("strip `{}`", program.display()))?;
    // `strip` may have put another file in its place.
    fs::File::options()
        .write(true)
        .open(new.path())
        .and_then(|file| file.set_modified(source))
        .with_context(|| format!("date `{}`", at.display()))?;
    new.persist(&at)
        .with_context(|| format!("keep `{}`", at.display()))?;
    Ok(at)
}

fn built(line: &str) -> Option<Built> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let name = message.get("target")?.get("name")?.as_str()?.to_owned();
    Some(Built { name, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_build_is_stripped_again_though_it_is_older() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let put = |from: &str, age: u64| {
            fs::copy(from, &program).unwrap();
            let file = fs::File::options().write(true).open(&program).unwrap();
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(time).unwrap();
            fs::read(stripped(&program).unwrap()).unwrap()
        };
        let (first, second) = (put("/usr/bin/true", 10), put("/usr/bin/env", 20));
        assert_ne!(first, second);
        assert_eq!(put("/usr/bin/true", 30), first);
    }

    #[test]
    fn programs_are_taken_from_what_cargo_says() {
        let line = r#"{"reason":"compiler-artifact","target":{"name":"kernel","kind":["test"]},"executable":"/t/deps/kernel-1f"}"#;
        let found = built(line).unwrap();
        assert_eq!(
            (found.name.as_str(), found.path.as_path()),
            ("kernel", Path::new("/t/deps/kernel-1f"))
        );
        let library = r#"{"reason":"compiler-artifact","target":{"name":"guard"},"executable":null}"#;
        assert!(built(library).is_none() && built("{}").is_none() && built("text").is_none());
    }
}
