//! Resolution on small made-up installations; the real runtimes are in the privileged suite.

mod commands;
mod elves;
mod nodes;
mod pythons;
mod runners;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    thread,
};

use nix::unistd::{Uid, geteuid, setfsuid};

use super::{Ask, Runtime, RuntimeKind, resolve};
use crate::{octets::Octets, refusal::Refusal};

/// A directory tree to resolve in, outside every shared directory.
struct Place {
    // Kept for its drop.
    _directory: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            _directory: directory,
            root,
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let place = self.at(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, content).unwrap();
        place
    }

    fn program(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let place = self.write(path, content);
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// A static program: nothing but itself is needed.
    fn elf(&self, path: &str) -> PathBuf {
        self.program(path, elves::Image::default().bytes())
    }

    fn link(&self, path: &str, target: &str) -> PathBuf {
        let place = self.at(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(target, &place).unwrap();
        place
    }

    fn ask(&self, command: &[&str]) -> Ask {
        Ask {
            command: command.iter().map(|word| Octets::from(*word)).collect(),
            kind: RuntimeKind::Auto,
            path: self.at("bin").into(),
            directory: self.root.clone().into(),
            environment: BTreeMap::new(),
            roots: Vec::new(),
        }
    }

    fn ask_with(&self, command: &[&str], variables: &[(&str, &str)]) -> Ask {
        let mut ask = self.ask(command);
        ask.environment.extend(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Octets::from(*value))),
        );
        ask
    }

    fn resolve(&self, command: &[&str]) -> Runtime {
        resolved(&self.ask(command))
    }

    fn refused(&self, command: &[&str]) -> Refusal {
        resolve(&self.ask(command)).expect_err("it must be refused")
    }
}

/// Without the data of the system, which every program gets.
fn resolved(ask: &Ask) -> Runtime {
    let mut runtime = resolve(ask).unwrap_or_else(|refusal| panic!("{refusal}"));
    runtime
        .grants
        .retain(|grant| !grant.reason.ends_with("of the system"));
    let of_system = ["/etc", "/usr/lib/ssl"];
    runtime.links.retain(|link| {
        !of_system
            .iter()
            .any(|place| link.path.as_path().starts_with(place))
    });
    runtime
}

fn granted(runtime: &Runtime) -> Vec<PathBuf> {
    runtime
        .grants
        .iter()
        .map(|grant| grant.path.to_path_buf())
        .collect()
}

fn grants(runtime: &Runtime, path: &Path) -> bool {
    granted(runtime).iter().any(|grant| grant == path)
}

fn linked(runtime: &Runtime) -> Vec<(PathBuf, PathBuf)> {
    runtime
        .links
        .iter()
        .map(|link| (link.path.to_path_buf(), link.target.to_path_buf()))
        .collect()
}

/// Runs `work` with an ordinary user's file rights, whoever runs the tests.
fn as_ordinary<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                if geteuid().is_root() {
                    setfsuid(Uid::from_raw(65534)); // Of this thread alone.
                }
                work()
            })
            .join()
            .unwrap()
    })
}
