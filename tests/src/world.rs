//! The ground of an escape attempt: roots of each right, an outside that ordinary permissions would allow,
//! a neighbour to reach, and a picture of the outside before and after.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    bystander::Neighbour,
    control::User,
    guards::{Scratch, TempCgroup},
    picture::Picture,
    programs,
    suite::Declared,
    tiny_elf::{self, Tiny},
};

/// One ground. Each probe works in directories of its own name, so that none sees what another did.
pub struct World {
    pub user: User,
    scratch: Scratch,
    cgroup: Option<TempCgroup>,
    neighbour: Mutex<Neighbour>,
    common: BTreeMap<String, String>,
    /// Inherited by everything the test starts, on purpose.
    _planted: OwnedFd,
}

const PLANTED: &str = "GUARD_PLANTED";

impl World {
    /// # Errors
    /// When the machine lacks a piece of the ground.
    pub fn new(name: &str) -> Result<Self> {
        let user = User::of_tests()?;
        let scratch = Scratch::new(name)?;
        for dir in [
            "outside",
            "outside/neighbour",
            "roots",
            "roots/rw",
            "roots/rw-sibling",
            "roots/r",
            "roots/rx",
            "bin",
            "roots/rw/neighbour",
        ] {
            fs::create_dir(scratch.path().join(dir))?;
        }
        give(&scratch.path().join("roots/rw"), &user)?;
        give(&scratch.path().join("roots/rw/neighbour"), &user)?;
        give(&scratch.path().join("outside/neighbour"), &user)?;
        // The build tree may lie where the user cannot go.
        fs::copy(programs::probe()?, scratch.path().join("bin/guard-probe"))?;
        let (planted, device, inode) = plant_descriptor(&scratch.path().join("outside/planted"))?;
        let neighbour = Neighbour::start(scratch.path(), &user)?;
        let cgroup = TempCgroup::new().ok();
        let mut common = neighbour.names.clone();
        let tmp = fs::metadata("/tmp")?;
        let network = fs::metadata("/proc/self/ns/net")?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
        common.extend([
            ("planted".to_owned(), PLANTED.to_owned()),
            ("planted_dev".to_owned(), device.to_string()),
            ("planted_ino".to_owned(), inode.to_string()),
            ("tmp_dev".to_owned(), tmp.dev().to_string()),
            ("tmp_ino".to_owned(), tmp.ino().to_string()),
            ("host_name".to_owned(), host),
            ("net_ns".to_owned(), network.ino().to_string()),
            // Outside, this process stands in for the sandbox's pid 1: root's, and not a child's to read.
            ("first".to_owned(), std::process::id().to_string()),
        ]);
        if let Some(cgroup) = &cgroup {
            common.insert("cgroup".into(), cgroup.path().display().to_string());
        }
        if let Some(account) = User::another_of_the_host(&user)? {
            common.insert("account".into(), account);
        }
        if let Some(interface) = first_interface() {
            common.insert("interface".into(), interface);
        }
        Ok(Self {
            user,
            scratch,
            cgroup,
            neighbour: Mutex::new(neighbour),
            common,
            _planted: planted,
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }
    #[must_use]
    pub fn root(&self, rights: &str) -> PathBuf {
        self.path().join("roots").join(rights)
    }
    /// The probe program where everybody can run it.
    #[must_use]
    pub fn public_probe(&self) -> PathBuf {
        self.path().join("bin/guard-probe")
    }
    #[must_use]
    pub fn planted_name(&self) -> &'static str {
        PLANTED
    }
    #[must_use]
    pub fn has_cgroup(&self) -> bool {
        self.cgroup.is_some()
    }
    pub fn keep(&mut self) {
        self.scratch.keep();
    }

    /// Lays out the probe's own places and names them.
    ///
    /// # Errors
    /// When a file cannot be made.
    pub fn prepare(&self, probe: &Declared) -> Result<BTreeMap<String, String>> {
        self.prepare_named(&probe.name)
            .with_context(|| format!("failed to lay out the ground of `{}`", probe.name))
    }

    /// As `prepare`, for a check that is no probe.
    ///
    /// # Errors
    /// When a file cannot be made.
    pub fn prepare_named(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let place = |kind: &str| self.path().join(kind).join(name);
        let (outside, rw, r, rx) = (
            place("outside"),
            place("roots/rw"),
            place("roots/r"),
            place("roots/rx"),
        );
        let sibling = place("roots/rw-sibling");
        let program = tiny_elf::program(Tiny::Exit);
        for dir in [&outside, &rw, &r, &rx, &sibling, &outside.join("empty")] {
            fs::create_dir(dir)?;
        }
        for dir in [&outside, &sibling] {
            fs::write(dir.join("secret"), "GUARD-SECRET outside")?;
            fs::write(dir.join("victim"), "victim")?;
            write_program(&dir.join("prog"), &program)?;
            symlink("secret", dir.join("pointer"))?;
        }
        for dir in [&rw, &r, &rx] {
            fs::write(dir.join("own"), "own file")?;
            write_program(&dir.join("prog"), &program)?;
        }
        for (link, target) in [("link", "secret"), ("dirlink", ""), ("victimlink", "victim")] {
            symlink(outside.join(target), rw.join(link))?;
        }
        write_program(
            &rw.join("script"),
            format!("#!{}\n", rx.join("prog").display()).as_bytes(),
        )?;
        self.special(name, &outside, &rw, &rx)?;
        for dir in [&outside, &rw, &r, &sibling] {
            give_tree(dir, &self.user)?;
        }
        let mut args = self.common.clone();
        for (key, dir) in [
            ("outside", &outside),
            ("rw", &rw),
            ("r", &r),
            ("rx", &rx),
            ("sibling", &sibling),
        ] {
            args.insert(key.into(), dir.display().to_string());
        }
        Ok(args)
    }

    fn special(&self, name: &str, outside: &Path, rw: &Path, rx: &Path) -> Result<()> {
        match name {
            "deep-30" => {
                let deep = outside.join("d/".repeat(30));
                fs::create_dir_all(&deep)?;
                fs::write(deep.join("secret"), "GUARD-SECRET deep")?;
            }
            "getxattr" | "removexattr" => {
                let file = format!("file={}", outside.join("secret").display());
                ensure!(
                    Command::new(self.public_probe())
                        .args(["plant", &file])
                        .status()?
                        .success(),
                    "no user xattr here"
                );
            }
            "setuid-program" => {
                let suid = rx.join("suid");
                write_program(&suid, &tiny_elf::program(Tiny::IsRoot))?;
                fs::set_permissions(&suid, Permissions::from_mode(0o4755))?;
            }
            "exec-loader" => {
                fs::create_dir(rx.join("lib"))?;
                fs::copy("/lib64/ld-linux-x86-64.so.2", rx.join("lib/ld.so"))?;
                fs::copy("/lib/x86_64-linux-gnu/libc.so.6", rx.join("lib/libc.so.6"))?;
                fs::copy("/bin/true", rw.join("dynamic"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// A picture of everything outside the roots that the probe could have changed.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn seen(&self, probe: &Declared) -> Result<Picture> {
        let mut picture = Picture::default();
        for kind in ["outside", "roots/rw-sibling", "roots/r", "roots/rx"] {
            picture.add(&self.path().join(kind).join(&probe.name))?;
        }
        Ok(picture)
    }

    /// How often something reached the neighbour's sockets.
    ///
    /// # Errors
    /// When the neighbour does not answer.
    pub fn reached(&self) -> Result<u64> {
        let mut neighbour = self
            .neighbour
            .lock()
            .map_err(|_| anyhow::anyhow!("the neighbour's lock is poisoned"))?;
        neighbour.reached()
    }
}

fn give(path: &Path, user: &User) -> Result<()> {
    chown(path, Some(user.uid), Some(user.gid))
        .with_context(|| format!("failed to give `{}` away", path.display()))
}

fn give_tree(path: &Path, user: &User) -> Result<()> {
    lchown(path, Some(user.uid), Some(user.gid))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give_tree(&entry?.path(), user)?;
        }
    }
    Ok(())
}

fn write_program(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))?;
    Ok(())
}

/// A descriptor without close-on-exec: what a careless client leaves open for its servers.
fn plant_descriptor(path: &Path) -> Result<(OwnedFd, u64, u64)> {
    fs::write(path, "GUARD-SECRET behind a descriptor")?;
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let planted = nix::unistd::dup(&file)?;
    Ok((planted, meta.dev(), meta.ino()))
}

fn first_interface() -> Option<String> {
    let names = fs::read_dir("/sys/class/net").ok()?;
    names
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name != "lo")
}
