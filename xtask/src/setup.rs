//! What a fresh Debian machine lacks for the tasks, and the places they share. Safe to repeat.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use nix::unistd::Uid;

use crate::apt;

/// Where fixtures go when the checkout lies where only root can reach it.
const SHARED_FIXTURES: &str = "/var/cache/guard-agent-fixtures";

/// Fails with the command to use instead, unless this is root.
pub(crate) fn root(task: &str) -> Result<()> {
    ensure!(
        Uid::effective().is_root(),
        "`{task}` makes namespaces, cgroups and eBPF links, which takes root: \
         `sudo env \"PATH=$PATH\" \"HOME=$HOME\" {task}`"
    );
    Ok(())
}

/// The node that sandboxed users can reach: the distribution's, or the first in `PATH` that is not private to
/// somebody. Installs the distribution's where there is none; one that is there stays as it is.
pub(crate) fn node() -> Result<PathBuf> {
    let find = || {
        let system = ["/usr/bin/node", "/usr/local/bin/node"].map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let listed = std::env::split_paths(&path).map(|dir| dir.join("node"));
        system
            .into_iter()
            .chain(listed)
            .find(|node| node.is_file() && fs::canonicalize(node).is_ok_and(|real| public(&real)))
    };
    if find().is_none() {
        apt::install(&["nodejs"])?;
    }
    apt::ensure_programs(&[("npm", "npm")])?;
    find().context("no node that other users can reach: `apt-get install nodejs` gives one")
}

/// The distribution's python with virtual environments.
pub(crate) fn python() -> Result<()> {
    let works = || {
        Command::new("/usr/bin/python3")
            .args(["-c", "import venv, ensurepip"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !works() {
        apt::install(&["python3", "python3-venv"])?;
    }
    ensure!(
        works(),
        "`/usr/bin/python3` cannot make virtual environments: `apt-get install python3-venv`"
    );
    Ok(())
}

/// Everything `cargo xtask test` calls besides Rust.
pub(crate) fn tests() -> Result<()> {
    node()?;
    python()?;
    apt::ensure_programs(&[
        ("git", "git"),
        ("gcc", "gcc"),
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("mkfs.ext4", "e2fsprogs"),
        ("xz", "xz-utils"),
        ("setpriv", "util-linux"),
    ])
}

/// Where fixtures are kept: the checkout's `target`, unless the users that sandboxed servers run as could not
/// reach them there.
pub(crate) fn fixtures() -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("GUARD_FIXTURES") {
        return Ok(chosen.into());
    }
    let own = crate::workspace().join("target/fixtures");
    fs::create_dir_all(&own).with_context(|| format!("create `{}`", own.display()))?;
    if public(&own) {
        return Ok(own);
    }
    let shared = PathBuf::from(SHARED_FIXTURES);
    fs::create_dir_all(&shared).with_context(|| format!("create `{}`", shared.display()))?;
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("let others read `{}`", shared.display()))?;
    Ok(shared)
}

/// Whether anybody can reach a path.
pub(crate) fn public(path: &Path) -> bool {
    path.ancestors()
        .all(|at| fs::metadata(at).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_ancestor_makes_a_path_private() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let mode = |mode| fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        assert!(public(&inner));
        mode(0o700);
        assert!(!public(&inner));
        assert!(!public(Path::new("/no/such/place")));
    }
}
