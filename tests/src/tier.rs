//! Which tier the agent under test gets: `GUARD_TEST_TIER` is `T2` (default), `T1`, `T3`, or `T3-bare`, where ordinary
//! users have no user namespaces.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{control::User, programs, require::Leg};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Started by root, with the security hooks.
    T1,
    /// Started by root.
    T2,
    /// Started by an ordinary user.
    T3,
    /// The same on a machine that gives ordinary users no user namespaces.
    T3Bare,
}

impl Tier {
    /// # Errors
    /// When the variable names no tier.
    pub fn current() -> Result<Self> {
        match std::env::var("GUARD_TEST_TIER").as_deref() {
            Ok("T1") => Ok(Self::T1),
            Err(_) | Ok("T2") => Ok(Self::T2),
            Ok("T3") => Ok(Self::T3),
            Ok("T3-bare") => Ok(Self::T3Bare),
            Ok(other) => bail!("`GUARD_TEST_TIER`: no tier `{other}`"),
        }
    }

    #[must_use]
    pub fn is_root(self) -> bool {
        matches!(self, Self::T1 | Self::T2)
    }

    /// What `run` and `check` are to insist on. A virtual machine has the security hooks, and a leg that is not about
    /// them does without: they take seconds to come and to go there.
    ///
    /// # Errors
    /// When the variable names no tier.
    pub fn insisted() -> Result<&'static [&'static str]> {
        Ok(match Self::current()? {
            Self::T1 => &["--tier", "T1"],
            Self::T2 if in_a_guest() => &["--tier", "T2"],
            _ => &[],
        })
    }

    /// The views a server can have.
    #[must_use]
    pub fn views(self) -> &'static [&'static str] {
        match self {
            Self::T1 | Self::T2 | Self::T3 => &["private", "host"],
            Self::T3Bare => &["host"],
        }
    }

    /// The record that a refusal leaves here, when root's programs would leave `(op, layer)`.
    #[must_use]
    pub fn record(self, op: &str, layer: &str) -> (String, String) {
        if !self.is_root() && layer == "cgroup-bpf" {
            // There is no program to see an address: the socket is refused.
            return ("socket".to_owned(), "seccomp".to_owned());
        }
        (op.to_owned(), layer.to_owned())
    }
}

/// How the agent is started at a tier.
#[derive(Debug, Clone)]
pub struct Start {
    /// The agent, or what starts it.
    pub words: Vec<OsString>,
    /// Whom it runs as, when not as whoever runs the tests.
    pub identity: Option<User>,
    /// The first words see to that themselves.
    pub by_words: bool,
}

impl Start {
    /// At the tier of this run. A directory for its state and audit becomes the ordinary user's.
    ///
    /// # Errors
    /// When the directory cannot be given away, or a program is not built.
    pub fn current(directory: &Path) -> Result<Self> {
        match Tier::current()? {
            Tier::T1 | Tier::T2 => Ok(Self {
                words: vec![programs::agent()?.into()],
                identity: None,
                by_words: false,
            }),
            Tier::T3 => Self::as_user(directory, &User::of_tests()?),
            Tier::T3Bare => Self::as_user(directory, &User::of_tests()?)?.without_user_namespaces(),
        }
    }

    /// By an ordinary user: their ids, their groups alone, no capability.
    ///
    /// # Errors
    /// When the directory cannot be given away, or the agent cannot be brought where that user reaches it.
    pub fn as_user(directory: &Path, user: &User) -> Result<Self> {
        chown(directory, Some(user.uid), Some(user.gid))?;
        let mut agent = programs::agent()?;
        if !everybody_reaches(&agent) {
            let copy = directory.join("guard-agent");
            if !copy.exists() {
                fs::copy(&agent, &copy)?;
            }
            agent = copy;
        }
        Ok(Self {
            words: vec![agent.into()],
            identity: Some(user.clone()),
            by_words: false,
        })
    }

    /// Where ordinary users have no user namespaces: the whole machine if it is the test's own, otherwise for this
    /// process and all it starts.
    ///
    /// # Errors
    /// When the helper is not built.
    pub fn without_user_namespaces(mut self) -> Result<Self> {
        if machine_is_ours()? {
            deny_user_namespaces()?;
            return Ok(self);
        }
        let user = self.identity.as_ref().context("first say which user")?;
        let ids = [user.uid.to_string(), user.gid.to_string()];
        let around: [OsString; 2] = [programs::around()?.into(), "user-namespaces".into()];
        let mut words = around.to_vec();
        words.extend(ids.map(OsString::from));
        words.append(&mut self.words);
        self.words = words;
        self.by_words = true;
        Ok(self)
    }

    /// The command, before the agent's own arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        let (program, words) = self
            .words
            .split_first()
            .map_or((OsStr::new(""), &[][..]), |(first, rest)| {
                (first.as_os_str(), rest)
            });
        let mut command = Command::new(program);
        command.args(words);
        if let Some(user) = &self.identity {
            command.env("HOME", "/nonexistent");
            if !self.by_words {
                command.uid(user.uid).gid(user.gid);
            }
        }
        command
    }
}

/// Takes user namespaces from the ordinary users of this machine, where it is one of a test's own. On a shared
/// one what starts the agent does, for that process alone (`guard-around user-namespaces`).
///
/// # Errors
/// When the setting cannot be made.
pub fn deny_user_namespaces() -> Result<()> {
    if !machine_is_ours()? {
        return Ok(());
    }
    let debian = Path::new("/proc/sys/kernel/unprivileged_userns_clone");
    let (knob, value) = if debian.exists() {
        (debian, "0")
    } else {
        (Path::new("/proc/sys/user/max_user_namespaces"), "0")
    };
    fs::write(knob, value).with_context(|| format!("failed to write `{}`", knob.display()))
}

/// A virtual machine of `cargo xtask vm`.
///
/// # Errors
/// When the leg is unknown.
pub fn machine_is_ours() -> Result<bool> {
    Ok(Leg::current()?.name.starts_with("vm-"))
}

/// Whether this is a virtual machine of `cargo xtask vm`: its init says so.
#[must_use]
pub fn in_a_guest() -> bool {
    std::env::var_os("GUARD_TEST_GUEST").is_some()
}

/// Whether every user can start this program.
#[must_use]
pub fn everybody_reaches(program: &Path) -> bool {
    let open =
        |path: &Path, bits| fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & bits == bits);
    open(program, 0o005) && program.ancestors().skip(1).all(|path| open(path, 0o001))
}
