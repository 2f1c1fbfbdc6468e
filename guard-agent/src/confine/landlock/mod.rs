//! Landlock: which files a process may open, change and execute, and whom it may signal.
//!
//! Nothing here is best effort. The rules ask for what the running kernel has, all of it; what the kernel lacks
//! is returned by name, so that the launch record can say it.

mod kernel;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use nix::sys::stat::{SFlag, fstat};

use super::ConfineError;
use crate::config::rights::Rights;
use kernel::missing;
pub use kernel::{Absence, LandlockProbe, LandlockState, Missing, probe};

/// The newest ABI this build has words for.
pub const NEWEST: u32 = 10;

/// What a rule allows beneath its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Open a file for reading.
    pub read: bool,
    /// List a directory.
    pub read_dir: bool,
    /// Open a file for writing, truncate it.
    pub write: bool,
    /// Make, remove and move files, directories, links, pipes and sockets. Never devices.
    pub change: bool,
    pub exec: bool,
    /// Device control on a device file.
    pub ioctl: bool,
}

impl Access {
    /// A directory that may be listed, such as a parent of roots.
    pub const LIST: Self = Self {
        read_dir: true,
        read: false,
        write: false,
        change: false,
        exec: false,
        ioctl: false,
    };
    /// `/dev/null` and its like.
    pub const DEVICE: Self = Self {
        read: true,
        write: true,
        ioctl: true,
        read_dir: false,
        change: false,
        exec: false,
    };

    fn bits(self) -> BitFlags<AccessFs> {
        let mut bits = BitFlags::EMPTY;
        let mut add = |asked: bool, rights: BitFlags<AccessFs>| {
            if asked {
                bits |= rights;
            }
        };
        add(self.read, AccessFs::ReadFile.into());
        add(self.read_dir, AccessFs::ReadDir.into());
        add(self.write, AccessFs::WriteFile | AccessFs::Truncate);
        add(self.change, CHANGE);
        add(self.exec, AccessFs::Execute.into());
        add(self.ioctl, AccessFs::IoctlDev.into());
        bits
    }
}

impl From<Rights> for Access {
    fn from(rights: Rights) -> Self {
        Self {
            read: true,
            read_dir: true,
            write: rights.write,
            change: rights.write,
            exec: rights.exec,
            ioctl: false,
        }
    }
}

const CHANGE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    MakeReg | MakeDir | MakeSym | MakeFifo | MakeSock | RemoveFile | RemoveDir | Refer
});

/// Rights that mean something on an object that is no directory; the kernel refuses the others there.
const OF_FILES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | WriteFile | Execute | Truncate | IoctlDev
});

/// The object of a rule.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// Already open (`O_PATH` is enough): what was checked is what the rule is for.
    Fd(BorrowedFd<'a>),
    Path(&'a Path),
}

#[derive(Debug, Clone, Copy)]
pub struct PathRule<'a> {
    pub target: Target<'a>,
    pub access: Access,
}

impl<'a> PathRule<'a> {
    pub fn fd(fd: BorrowedFd<'a>, access: Access) -> Self {
        Self {
            target: Target::Fd(fd),
            access,
        }
    }
    pub fn path(path: &'a Path, access: Access) -> Self {
        Self {
            target: Target::Path(path),
            access,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Take the network rights away, with no rule that gives any back: gateway and tier T3.
    ///
    /// Off at tier T2: there the cgroup programs refuse connections, and they see the address and report it.
    /// Landlock stands before them and would refuse without a trace.
    pub network: bool,
}

/// Confines the calling thread, for good, and sets `no_new_privs`. Call it while the process has one thread.
///
/// # Errors
/// `LandlockMissing` where the kernel has none: nothing is in force then. After any other error the process must
/// not go on to run a program.
pub fn restrict(rules: &[PathRule<'_>], settings: Settings) -> Result<LandlockState, ConfineError> {
    let probe = probe().map_err(ConfineError::LandlockMissing)?;
    let version = probe.abi.min(NEWEST);
    // The crate wants ABIs fixed at build time, lest behaviour differ by kernel. Here it is meant to: every right
    // the kernel can take is taken, and the difference is reported.
    let abi = ABI::from(i32::try_from(version).unwrap_or(0));
    let fs = AccessFs::from_all(abi);
    let net = if settings.network {
        AccessNet::from_all(abi)
    } else {
        BitFlags::EMPTY
    };
    let scopes = Scope::from_all(abi);

    let mut ruleset = create(fs, net, scopes)?;
    for rule in rules {
        ruleset = add(ruleset, rule, fs)?;
    }
    let status = ruleset
        .restrict_self()
        .map_err(step("enforce the landlock rules"))?;
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(ConfineError::LandlockIncomplete(format!("{:?}", status.ruleset)));
    }
    Ok(LandlockState {
        abi: probe.abi,
        handled_fs: fs.bits(),
        handled_net: net.bits(),
        scopes: !scopes.is_empty(),
        missing: missing(version, settings),
    })
}

fn step(step: &'static str) -> impl Fn(RulesetError) -> ConfineError {
    move |source| ConfineError::Landlock {
        step,
        source: Box::new(source),
    }
}

fn create(
    fs: BitFlags<AccessFs>,
    net: BitFlags<AccessNet>,
    scopes: BitFlags<Scope>,
) -> Result<RulesetCreated, ConfineError> {
    let asked = || {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(fs)?;
        if !net.is_empty() {
            ruleset = ruleset.handle_access(net)?;
        }
        if !scopes.is_empty() {
            ruleset = ruleset.scope(scopes)?;
        }
        ruleset.create()
    };
    asked().map_err(step("create a landlock ruleset"))
}

/// A target's descriptor, ours or lent.
enum Held<'a> {
    Lent(BorrowedFd<'a>),
    Own(OwnedFd),
}

impl AsFd for Held<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Lent(fd) => *fd,
            Self::Own(fd) => fd.as_fd(),
        }
    }
}

fn add(
    ruleset: RulesetCreated,
    rule: &PathRule<'_>,
    handled: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ConfineError> {
    let held = match rule.target {
        Target::Fd(fd) => Held::Lent(fd),
        Target::Path(path) => Held::Own(open(path)?),
    };
    let stat = fstat(held.as_fd()).map_err(|errno| ConfineError::StatRule(errno.into()))?;
    let directory = stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits();
    let mut allowed = rule.access.bits() & handled;
    if !directory {
        allowed &= OF_FILES;
    }
    if allowed.is_empty() {
        // Nothing to give: without a rule nothing is given.
        return Ok(ruleset);
    }
    ruleset
        .add_rule(PathBeneath::new(held, allowed))
        .map_err(step("add a landlock rule"))
}

fn open(path: &Path) -> Result<OwnedFd, ConfineError> {
    let failed = |source| ConfineError::OpenRule {
        path: path.to_owned(),
        source,
    };
    let fd = PathFd::new(path).map_err(|error| match error {
        landlock::PathFdError::OpenCall { source, .. } => failed(source),
        other => failed(io::Error::other(other)),
    })?;
    fd.as_fd().try_clone_to_owned().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_gives_devices_or_sockets_outside() {
        let everything = Access {
            read: true,
            read_dir: true,
            write: true,
            change: true,
            exec: true,
            ioctl: true,
        };
        let never = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::ResolveUnix;
        assert!((everything.bits() & never).is_empty());
        assert_eq!(everything.bits() | never, AccessFs::from_all(ABI::V10));
    }

    #[test]
    fn rights_map_to_kernel_rights() {
        let bits = |text: &str| Access::from(text.parse::<Rights>().unwrap()).bits();
        assert_eq!(bits("r"), AccessFs::ReadFile | AccessFs::ReadDir);
        assert_eq!(bits("rx"), bits("r") | AccessFs::Execute);
        assert_eq!(
            bits("rw"),
            bits("r") | AccessFs::WriteFile | AccessFs::Truncate | CHANGE
        );
        assert_eq!(bits("rwx"), bits("rw") | AccessFs::Execute);
    }

    #[test]
    fn an_older_kernel_is_named_for_what_it_lacks() {
        let what = |abi, network| {
            missing(abi, Settings { network })
                .iter()
                .map(|missing| missing.what)
                .collect::<Vec<_>>()
        };
        assert_eq!(what(10, true), Vec::<&str>::new());
        assert_eq!(what(7, false), ["unix sockets by path"]);
        assert_eq!(what(7, true), ["unix sockets by path", "UDP"]);
        assert_eq!(
            what(2, false),
            ["truncation", "device control", "unix sockets by path", "scopes"]
        );
        assert_eq!(what(1, true).len(), 7);
    }
}
