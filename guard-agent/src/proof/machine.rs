//! `check`'s look at a machine: what `run` would stand on, proved in directories and cgroups of its own.

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use nix::sys::signal::{SigSet, Signal};

use super::{Facets, LsmList, Privileged, Proofs, Tier, Why, facets, privileged, unprivileged};
use crate::{
    config::REQUIRED,
    init::message::Ground,
    refusal::{Refusal, chain},
    warden::{start, state},
};

/// All that `check` has to say.
#[derive(Debug)]
pub struct Machine {
    pub release: String,
    pub root: bool,
    pub lsm: LsmList,
    pub proofs: Proofs,
    /// As the launch record of a server with nothing special about it would have them.
    pub facets: Facets,
    /// What `run` would say instead of launching such a server.
    pub refusal: Option<Refusal>,
    /// Whether `run` gets as far as to look at the facets; if not, `--allow-unenforced` does not help.
    begins: bool,
}

impl Machine {
    /// The tier that `run` uses here.
    pub fn tier(&self) -> Tier {
        if self.begins { self.proofs.tier() } else { Tier::T4 }
    }
}

/// A directory of this process's own, removed with everything in it.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let places = ["/run", "/tmp", "/dev/shm", "/var/tmp"].map(Path::new);
        for place in places {
            match nix::unistd::mkdtemp(&place.join("guard-agent-check-XXXXXX")) {
                Ok(path) => return Ok(Self(path)),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Signals that would end this process wait until everything is removed.
struct Held(SigSet);

impl Held {
    fn hold() -> io::Result<Self> {
        let mut signals = SigSet::empty();
        for signal in [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
            Signal::SIGPIPE,
        ] {
            signals.add(signal);
        }
        let mut before = SigSet::empty();
        nix::sys::signal::sigprocmask(
            nix::sys::signal::SigmaskHow::SIG_BLOCK,
            Some(&signals),
            Some(&mut before),
        )?;
        Ok(Self(before))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask();
    }
}

/// Proves what this process could enforce. `refused`: why `run` would not even begin. `hooks`: whether tier T1 is
/// wanted.
///
/// # Errors
/// When there is no place for the proof.
pub fn examine(refused: Option<Refusal>, hooks: bool) -> Result<Machine, Refusal> {
    let failed = |error: io::Error| {
        Refusal::internal(
            "cannot check this machine",
            format!("no directory can be made for it: {error}"),
            "make `/tmp` writable",
        )
    };
    let root = nix::unistd::geteuid().is_root();
    let held = Held::hold().map_err(failed)?;
    let scratch = Scratch::make().map_err(failed)?;
    let place = scratch.0.canonicalize().map_err(failed)?;
    let (proofs, refused) = match refused {
        Some(refusal) => (nothing(root, &refusal), Some(refusal)),
        None if root => as_root(&place, hooks)?,
        None => (anybody(&place).map_err(failed)?, None),
    };
    drop(scratch);
    drop(held);
    let facets = facets::facets(&proofs, &proofs.expected());
    let begins = refused.is_none();
    let refusal = refused.or_else(|| {
        let unmet = facets::unmet(&REQUIRED, &proofs, &facets)?;
        let what = format!(
            "cannot launch: the facet `{}` is required",
            facets::name(unmet.facet)
        );
        Some(Refusal::not_enforced(what, unmet.why, unmet.hint))
    });
    Ok(Machine {
        release: nix::sys::utsname::uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        root,
        lsm: LsmList::read(),
        proofs,
        facets,
        refusal,
        begins,
    })
}

/// `run` would not begin: nothing is tried.
fn nothing(root: bool, refusal: &Refusal) -> Proofs {
    let mut proofs = Proofs::new(if root { Ground::Machine } else { Ground::Bare });
    proofs.unavailable(&why(refusal));
    proofs
}

fn why(refusal: &Refusal) -> Why {
    Why {
        why: refusal.why.clone(),
        change: Some(refusal.hint.clone()),
    }
}

/// As a warden starts, without becoming one.
fn as_root(place: &Path, hooks: bool) -> Result<(Proofs, Option<Refusal>), Refusal> {
    let directory = state::prepare(&place.join("state"))?;
    let scaffold = state::scaffold(&directory);
    let prove = |kernel| {
        privileged(Privileged {
            kernel,
            hooks: start::wanted(hooks),
            directory: &directory,
            scaffold: &scaffold,
        })
    };
    let begun = start::kernel_ready().and_then(|()| start::cgroup(&directory));
    let parent = match begun {
        Ok(parent) => parent,
        Err(refusal) => return Ok((prove(Err(why(&refusal))), Some(refusal))),
    };
    let result = match start::load(&parent) {
        Ok(mut programs) => (prove(Ok((&parent, &mut programs))), None),
        Err(refusal) => (prove(Err(why(&refusal))), Some(refusal)),
    };
    parent.remove().map_err(|error| {
        let why = format!("cannot remove `{}`: {}", parent.path().display(), chain(&error));
        Refusal::internal("cannot clear up after the check", why, "remove that cgroup")
    })?;
    Ok(result)
}

fn anybody(place: &Path) -> io::Result<Proofs> {
    let scaffold = place.join("scaffold");
    std::fs::create_dir(&scaffold)?;
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o700))?;
    Ok(unprivileged(place, &scaffold))
}
