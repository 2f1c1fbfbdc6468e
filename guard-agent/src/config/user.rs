//! Who the server runs as, from `/etc/passwd` and `/etc/group`.
//!
//! The agent is a static program, so accounts that only a directory service knows (NSS: LDAP, sssd) are not seen.

use std::{ffi::OsStr, fs, io, path::PathBuf};

use super::{host::Host, raw::reason, shown};
use crate::{link::message::User, octets::Octets, refusal::Refusal};

/// What the kernel shows for an id that a user namespace does not map: no account of its own.
const OVERFLOW_UID: u32 = 65534;
/// "No id" to the kernel.
const INVALID_ID: u32 = u32::MAX;
/// The home of who has none.
pub const NO_HOME: &str = "/tmp";

/// One line of the account file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub home: Octets,
}

/// Where accounts are read from.
#[derive(Debug, Clone)]
pub struct Accounts {
    pub passwd: PathBuf,
    pub group: PathBuf,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            passwd: "/etc/passwd".into(),
            group: "/etc/group".into(),
        }
    }
}

impl Accounts {
    pub fn by_name(&self, name: &str) -> io::Result<Option<Account>> {
        self.find(|account| account.name == name)
    }

    pub fn by_uid(&self, uid: u32) -> io::Result<Option<Account>> {
        self.find(|account| account.uid == uid)
    }

    /// The first match, as the C library does it. A line that is not well formed is nobody.
    fn find(&self, wanted: impl Fn(&Account) -> bool) -> io::Result<Option<Account>> {
        let bytes = existing(&self.passwd)?;
        Ok(bytes
            .split(|byte| *byte == b'\n')
            .filter_map(account)
            .find(|account| wanted(account)))
    }

    /// Supplementary groups, sorted, never group 0.
    pub fn groups_of(&self, account: &Account) -> io::Result<Vec<u32>> {
        let bytes = existing(&self.group)?;
        let groups = bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| member(line, &account.name))
            .collect();
        Ok(without_root(groups, account.gid))
    }
}

/// A machine without the file has no accounts.
fn existing(path: &PathBuf) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// `name:password:uid:gid:comment:home:shell`
fn account(line: &[u8]) -> Option<Account> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
    let [name, _, uid, gid, _, home, _] = fields[..] else {
        return None;
    };
    let name = String::from_utf8(name.to_vec()).ok()?;
    // Lines that begin with these were once references to a directory service.
    if name.is_empty() || name.starts_with(['+', '-', '#']) {
        return None;
    }
    Some(Account {
        name,
        uid: id(uid)?,
        gid: id(gid)?,
        home: Octets(home.to_vec()),
    })
}

/// `name:password:gid:member,member`: the gid when `user` is a member.
fn member(line: &[u8], user: &str) -> Option<u32> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
    let [_, _, gid, members] = fields[..] else {
        return None;
    };
    if members
        .split(|byte| *byte == b',')
        .any(|member| member == user.as_bytes())
    {
        id(gid)
    } else {
        None
    }
}

/// Digits only, and an id that exists.
fn id(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits)
        .ok()?
        .parse()
        .ok()
        .filter(|id| *id != INVALID_ID)
}

fn without_root(mut groups: Vec<u32>, primary: u32) -> Vec<u32> {
    groups.retain(|group| *group != 0 && *group != primary && *group != INVALID_ID);
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// `asked` is `caller`, `dynamic`, a name or a uid; nothing asked means `caller`.
pub fn resolve(asked: Option<&str>, host: &Host) -> Result<User, Refusal> {
    match asked.unwrap_or("caller") {
        "caller" => caller(host),
        _ if !host.is_root() => other_without_root(asked.unwrap_or_default(), host),
        "dynamic" => Ok(User::Dynamic),
        name => named(name, host),
    }
}

/// The person who asked.
fn caller(host: &Host) -> Result<User, Refusal> {
    if !host.is_root() {
        return unprivileged(host);
    }
    let Some(uid) = &host.sudo_uid else {
        return Ok(User::Dynamic);
    };
    let uid = sudo_id("SUDO_UID", uid)?;
    if uid == 0 {
        return Ok(User::Dynamic);
    }
    let what = format!("cannot run the server as uid {uid}");
    check_uid(&what, uid)?;
    match host
        .accounts
        .by_uid(uid)
        .map_err(|error| unreadable_accounts(&error))?
    {
        Some(account) => account_user(&what, account, host),
        None => {
            let gid = host.sudo_gid.as_deref().ok_or_else(|| {
                Refusal::usage(
                    what.clone(),
                    format!(
                        "`SUDO_UID` is {uid}, no line of `/etc/passwd` has it, and `SUDO_GID` is not set"
                    ),
                    "name an account: `--user NAME`, or `--user dynamic`",
                )
            })?;
            let gid = sudo_id("SUDO_GID", gid)?;
            check_gid(&what, gid)?;
            Ok(User::Account {
                name: uid.to_string(),
                uid,
                gid,
                groups: Vec::new(),
                home: NO_HOME.into(),
            })
        }
    }
}

/// We are that person: the process has the groups that count.
fn unprivileged(host: &Host) -> Result<User, Refusal> {
    let what = format!("cannot run the server as uid {}", host.uid);
    check_uid(&what, host.uid)?;
    check_gid(&what, host.gid)?;
    let account = host
        .accounts
        .by_uid(host.uid)
        .map_err(|error| unreadable_accounts(&error))?;
    let (name, home) = match account {
        Some(account) => (account.name, home_or_none(account.home)),
        None => (host.uid.to_string(), NO_HOME.into()),
    };
    // Without privilege none of them can be dropped.
    let mut groups = host.groups.clone();
    groups.sort_unstable();
    if groups.contains(&0) {
        return Err(Refusal::usage(
            what,
            "it is a member of group 0, which an ordinary user cannot leave and no server may have",
            "start it as a user who is not in that group, or as root with `--user`",
        ));
    }
    Ok(User::Account {
        name,
        uid: host.uid,
        gid: host.gid,
        groups,
        home,
    })
}

fn other_without_root(asked: &str, host: &Host) -> Result<User, Refusal> {
    let own = host
        .accounts
        .by_uid(host.uid)
        .map_err(|error| unreadable_accounts(&error))?;
    if asked == host.uid.to_string() || own.is_some_and(|own| own.name == asked) {
        return unprivileged(host);
    }
    Err(Refusal::usage(
        format!("cannot run the server as `{}`", shown(asked)),
        "only root may choose another user",
        "leave the user out, or run guard-agent with `sudo`",
    ))
}

fn named(asked: &str, host: &Host) -> Result<User, Refusal> {
    let what = format!("cannot run the server as `{}`", shown(asked));
    let digits = !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit());
    let account = if digits {
        let uid = asked.parse().map_err(|_| {
            Refusal::usage(
                what.clone(),
                "a uid has 32 bits",
                "name an account: `--user NAME`, or `--user dynamic`",
            )
        })?;
        check_uid(&what, uid)?;
        host.accounts.by_uid(uid)
    } else {
        host.accounts.by_name(asked)
    };
    match account.map_err(|error| unreadable_accounts(&error))? {
        Some(account) => account_user(&what, account, host),
        None => Err(Refusal::usage(
            what,
            format!(
                "`{}` has no such account (directory services are not asked)",
                shown(&host.accounts.passwd)
            ),
            "name a local account, or use `dynamic` for a uid of its own",
        )),
    }
}

fn account_user(what: &str, account: Account, host: &Host) -> Result<User, Refusal> {
    check_uid(what, account.uid)?;
    check_gid(what, account.gid)?;
    let groups = host
        .accounts
        .groups_of(&account)
        .map_err(|error| unreadable_accounts(&error))?;
    let Account { name, uid, gid, home } = account;
    Ok(User::Account {
        name,
        uid,
        gid,
        groups,
        home: home_or_none(home),
    })
}

fn home_or_none(home: Octets) -> Octets {
    if home.as_path().is_absolute() {
        home
    } else {
        NO_HOME.into()
    }
}

fn check_uid(what: &str, uid: u32) -> Result<(), Refusal> {
    let why = match uid {
        0 => "it is root, and no sandbox runs as root",
        OVERFLOW_UID => {
            "uid 65534 stands for files of nobody in particular, on this machine and over the network"
        }
        INVALID_ID => "uid 4294967295 is no user",
        _ => return Ok(()),
    };
    Err(Refusal::usage(
        what,
        why,
        "name another account, or use `dynamic` for a uid of its own",
    ))
}

fn check_gid(what: &str, gid: u32) -> Result<(), Refusal> {
    let why = match gid {
        0 => "its primary group is 0, root's",
        INVALID_ID => "gid 4294967295 is no group",
        _ => return Ok(()),
    };
    Err(Refusal::usage(
        what,
        why,
        "name another account, or use `dynamic` for ids of its own",
    ))
}

fn sudo_id(variable: &str, value: &OsStr) -> Result<u32, Refusal> {
    value
        .to_str()
        .and_then(|text| id(text.as_bytes()))
        .ok_or_else(|| {
            Refusal::usage(
                "cannot tell who asks",
                format!("`{variable}` is `{}`, not an id", shown(value)),
                format!("unset `{variable}`, or name the user: `--user NAME`"),
            )
        })
}

fn unreadable_accounts(error: &io::Error) -> Refusal {
    Refusal::internal(
        "cannot read the accounts of this machine",
        reason(error),
        "let root read `/etc/passwd` and `/etc/group`",
    )
}
