//! What resolving needs to know about the process and the machine; a value, so that tests give their own.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use nix::unistd;

use super::{env, user::Accounts};
use crate::refusal::Refusal;

/// Default of `--state`: one warden a host.
pub const STATE_DIR: &str = "/run/guard-agent";
/// Default of `--audit` for root.
pub const AUDIT_DIR: &str = "/var/log/guard-agent";

/// The asking process and its surroundings.
#[derive(Debug, Clone)]
pub struct Host {
    pub directory: PathBuf,
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub sudo_uid: Option<OsString>,
    pub sudo_gid: Option<OsString>,
    pub home: Option<PathBuf>,
    pub xdg_state_home: Option<PathBuf>,
    pub accounts: Accounts,
}

impl Host {
    /// This process, now.
    pub fn current() -> Result<Self, Refusal> {
        let directory = std::env::current_dir().map_err(|error| {
            Refusal::usage(
                "cannot tell the working directory",
                error.to_string(),
                "start guard-agent from a directory that exists",
            )
        })?;
        if unistd::getuid() != unistd::geteuid() || unistd::getgid() != unistd::getegid() {
            return Err(Refusal::usage(
                "refusing to run with a set-user-id or set-group-id bit",
                "real and effective ids differ, so it is not clear who asks",
                "remove the bit from the guard-agent executable; use `sudo`",
            ));
        }
        let groups = unistd::getgroups().map_err(|error| {
            Refusal::internal(
                "cannot read the groups of this process",
                error.desc(),
                "report this",
            )
        })?;
        let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
        Ok(Self {
            directory,
            uid: unistd::geteuid().as_raw(),
            gid: unistd::getegid().as_raw(),
            groups: groups.into_iter().map(unistd::Gid::as_raw).collect(),
            sudo_uid: env::SUDO_UID.get(),
            sudo_gid: env::SUDO_GID.get(),
            home: absolute(env::HOME.get()),
            xdg_state_home: absolute(env::XDG_STATE_HOME.get()),
            accounts: Accounts::default(),
        })
    }

    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Where the audit goes when nobody says.
    pub fn default_audit(&self) -> Result<PathBuf, Refusal> {
        if self.is_root() {
            return Ok(PathBuf::from(AUDIT_DIR));
        }
        let state = self
            .xdg_state_home
            .clone()
            .or_else(|| Some(self.home.as_ref()?.join(".local/state")));
        state.map(|state| state.join("guard-agent")).ok_or_else(|| {
            Refusal::usage(
                "cannot choose an audit directory",
                "neither `XDG_STATE_HOME` nor `HOME` is an absolute path",
                "name one: `--audit DIR`",
            )
        })
    }

    /// The homes of the person who asks.
    pub fn homes(&self) -> Vec<PathBuf> {
        let mut homes: Vec<PathBuf> = self.home.iter().cloned().collect();
        let sudo_uid = self.sudo_uid.as_ref().and_then(|uid| uid.to_str()?.parse().ok());
        for uid in std::iter::once(self.uid).chain(sudo_uid.filter(|_| self.is_root())) {
            if let Ok(Some(account)) = self.accounts.by_uid(uid) {
                homes.push(account.home.to_path_buf());
            }
        }
        homes.retain(|home| home.is_absolute() && home != Path::new("/"));
        homes.sort();
        homes.dedup();
        homes
    }
}
