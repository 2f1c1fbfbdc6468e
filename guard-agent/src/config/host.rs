//! What resolving needs to know about the process and the machine; a value, so that tests give their own.

use std::{
    ffi::OsString,
    os::unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use nix::unistd;

use super::{env, raw::reason, user::Accounts};
use crate::refusal::Refusal;

/// Default of `--state` for root: one warden a host.
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
    pub xdg_runtime_dir: Option<PathBuf>,
    pub accounts: Accounts,
    /// Where something is mounted.
    pub mounts: Vec<PathBuf>,
}

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// The fifth field of each line, with its octal escapes undone.
pub(super) fn mount_points(mountinfo: &[u8]) -> Vec<PathBuf> {
    let point = |line: &[u8]| {
        let field = line.split(|byte| *byte == b' ').nth(4)?;
        Some(PathBuf::from(OsString::from_vec(unescaped(field))))
    };
    mountinfo.split(|byte| *byte == b'\n').filter_map(point).collect()
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal.filter(|_| *first == b'\\') {
            Some(byte) => {
                out.push(byte);
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

impl Host {
    /// This process, now.
    pub fn current() -> Result<Self, Refusal> {
        let directory = std::env::current_dir().map_err(|error| {
            Refusal::usage(
                "cannot tell the working directory",
                reason(&error),
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
        let mountinfo = std::fs::read(MOUNTINFO).map_err(|error| {
            Refusal::internal(
                format!("cannot read `{MOUNTINFO}`"),
                reason(&error),
                "mount `/proc`: without it nobody can tell what lies beneath a root",
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
            xdg_runtime_dir: absolute(env::XDG_RUNTIME_DIR.get()),
            accounts: Accounts::default(),
            mounts: mount_points(&mountinfo),
        })
    }

    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Where the warden is when nobody says: one a host, without root one a user. What lies there is checked when it
    /// is used; a runtime directory that is not this user's is none.
    pub fn default_state(&self) -> PathBuf {
        if self.is_root() {
            return PathBuf::from(STATE_DIR);
        }
        let own = |path: &&PathBuf| {
            std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == self.uid)
        };
        match self.xdg_runtime_dir.as_ref().filter(own) {
            Some(runtime) => runtime.join("guard-agent"),
            None => PathBuf::from(format!("/tmp/guard-agent-{}", self.uid)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_with_odd_names() {
        let text = b"22 1 8:1 / / rw shared:1 - ext4 /dev/vda rw\n\
            30 22 0:5 / /srv/a\\040b\\134c\\9 rw - tmpfs tmpfs rw\n\n";
        assert_eq!(
            mount_points(text),
            [PathBuf::from("/"), PathBuf::from("/srv/a b\\c\\9")]
        );
    }

    #[test]
    fn this_process() {
        let host = Host::current().unwrap();
        assert!(host.mounts.contains(&PathBuf::from("/proc")));
        assert!(host.directory.is_absolute());
    }
}
