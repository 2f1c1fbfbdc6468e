//! The paths a sandbox was refused lately, for the message about a server that failed: which of them exist, and what
//! it would have taken. Read off the records, so it is never more than what is on record; nothing is decided by it.

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use guard_common::hooks::{self, REASON_GAIN, REASON_OUTSIDE, REASON_RIGHTS};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    audit::{Body, Decision, Kernel, Layer},
    config::rights::Rights,
    init::message::Ids,
    link::message::RefusedPath,
    octets::Octets,
    sys::fs::AsUser,
};

/// Paths remembered: the latest.
const MOST: usize = 24;
/// Longer ones are not worth a message.
const LONGEST: usize = 1024;
/// How long the look for what exists may take: a filesystem can hang.
const LOOK: Duration = Duration::from_millis(200);

/// What a path needs beside reading, by operation, where the record does not say it.
const EXECUTES: [&str; 3] = ["exec", "execve", "execveat"];
const WRITES: [&str; 24] = [
    "chmod",
    "chown",
    "creat",
    "fchmodat",
    "fchmodat2",
    "fchownat",
    "lchown",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "symlink",
    "symlinkat",
    "truncate",
    "unlink",
    "unlinkat",
    "utimensat",
    "setxattr",
];

/// Reasons of the security hooks that a root, or more rights of one, would do away with.
const ROOT_WOULD_DO: [u16; 3] = [REASON_OUTSIDE, REASON_RIGHTS, REASON_GAIN];

/// Of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Refused {
    latest: VecDeque<RefusedPath>,
    /// Whose rights the look is taken with. `None`: this process has no others.
    user: Option<Ids>,
}

impl Refused {
    /// The paths are the server's choice: root must not tell it, or who reads the message, what only root can see.
    pub(super) fn seen_by(user: Option<Ids>) -> Self {
        Self {
            latest: VecDeque::new(),
            user,
        }
    }

    /// Looks at a record on its way to the trail.
    pub(super) fn note(&mut self, body: &Body) {
        let Body::Kernel(kernel) = body else { return };
        // Repeats of what is known say nothing new, sockets are no files of a root.
        if kernel.decision != Decision::Deny || kernel.repeat.is_some() || kernel.family.is_some() {
            return;
        }
        let no_root_would_do = kernel.layer == Layer::BpfLsm
            && !ROOT_WOULD_DO
                .iter()
                .any(|reason| hooks::reason(*reason) == kernel.reason.as_deref());
        if no_root_would_do {
            return;
        }
        let Some(path) = &kernel.path else { return };
        // The top of the view is looked at by every runtime.
        if !path.0.starts_with(b"/") || path.0 == b"/" || path.0.len() > LONGEST {
            return;
        }
        self.latest.retain(|known| known.path != *path);
        if self.latest.len() == MOST {
            self.latest.pop_front();
        }
        self.latest.push_back(RefusedPath {
            path: path.clone(),
            op: kernel.op.clone(),
            errno: kernel.errno.clone(),
            rights: rights(kernel),
            exists: None,
            absent: false,
        });
    }

    /// What is left when those are taken away that do not exist outside either and were only to be read.
    pub(super) async fn told(self) -> Vec<RefusedPath> {
        if self.latest.is_empty() {
            return Vec::new();
        }
        let all: Vec<RefusedPath> = self.latest.into();
        let (looked, user) = (all.clone(), self.user);
        let (answer, found) = oneshot::channel();
        // A thread of its own: one that hangs in a filesystem is left behind.
        let look = thread::Builder::new().name("look".into()).spawn(move || {
            let entered = user.map(|ids| AsUser::enter(ids.uid, ids.gid, &ids.groups));
            if let Some(Err(error)) = &entered {
                // Without those rights nothing is looked at: the answer is then what is on record.
                tracing::warn!(%error, "cannot look at refused paths with the server's rights");
                return;
            }
            let _ = answer.send(examine(looked));
        });
        match (look, timeout(LOOK, found).await) {
            (Ok(_), Ok(Ok(found))) => found,
            _ => all,
        }
    }
}

fn rights(kernel: &Kernel) -> Rights {
    let wanted = kernel.rights.as_deref().unwrap_or_default();
    let op = kernel.op.as_str();
    // `c` and `t`: creates, truncates.
    let write = wanted.contains(['w', 'c', 't']) || WRITES.contains(&op);
    let exec = wanted.contains('x') || EXECUTES.contains(&op);
    Rights { write, exec }
}

/// What is there outside, one name for each thing.
fn examine(all: Vec<RefusedPath>) -> Vec<RefusedPath> {
    let mut found: Vec<(RefusedPath, PathBuf)> = Vec::new();
    for mut refused in all.into_iter().filter_map(place) {
        let path = refused.path.to_path_buf();
        let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        // A search through `PATH` is over with the first that is there: the later ones were tried only because that
        // one was refused.
        let searched = |other: &RefusedPath| {
            let (name, theirs) = (path.file_name(), other.path.as_path().file_name());
            EXECUTES.contains(&refused.op.as_str()) && other.op == refused.op && name == theirs
        };
        if found.iter().any(|(other, _)| searched(other)) {
            continue;
        }
        if let Some(at) = found.iter().position(|(_, known)| *known == real) {
            let (known, _) = found.remove(at);
            refused.rights.write |= known.rights.write;
            refused.rights.exec |= known.rights.exec;
        }
        found.push((refused, real));
    }
    found.into_iter().map(|(refused, _)| refused).collect()
}

/// `None`: it is not there, so it was not the sandbox that kept the server from reading it.
fn place(mut refused: RefusedPath) -> Option<RefusedPath> {
    let path = refused.path.to_path_buf();
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    if let Ok(metadata) = fs::symlink_metadata(&path) {
        // A root is never a link itself.
        let object = if metadata.is_symlink() {
            fs::canonicalize(&path).ok()?
        } else {
            path
        };
        refused.exists = Some(Octets::from(object));
        return Some(refused);
    }
    if !refused.rights.write {
        return None;
    }
    let ancestor = path.ancestors().skip(1).find(|ancestor| exists(ancestor))?;
    refused.exists = Some(Octets::from(ancestor));
    refused.absent = true;
    Some(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From its JSON form: fields that are not of interest here may come and go.
    fn denied(op: &str, path: &[u8], rights: Option<&str>) -> Body {
        let mut kernel = serde_json::json!({
            "kind": "kernel", "session": "s", "server": "x", "op": op, "decision": "deny", "layer": "view",
            "path": Octets(path.to_vec()), "pid": 1, "tid": 1, "errno": "ENOENT", "calls": [], "attribution": "idle",
        });
        if let Some(rights) = rights {
            kernel["rights"] = rights.into();
        }
        serde_json::from_value(kernel).unwrap()
    }

    fn told(refused: Refused) -> Vec<RefusedPath> {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(refused.told())
    }

    #[test]
    fn what_exists_is_told_with_what_it_takes_the_latest_last() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| Octets::from(place.path().join(name));
        fs::write(place.path().join("tool"), "").unwrap();
        fs::write(place.path().join("data"), "").unwrap();
        let mut refused = Refused::default();
        refused.note(&denied("open", &at("data").0, Some("r")));
        refused.note(&denied("exec", &at("tool").0, None));
        refused.note(&denied("open", &at("absent").0, Some("r")));
        refused.note(&denied("mkdir", &at("new/deep").0, None));
        refused.note(&denied("open", b"relative", Some("r")));
        refused.note(&denied("open", b"/", Some("r")));
        refused.note(&denied("open", &at("data").0, Some("rwc")));
        let told = told(refused);
        let short: Vec<(&Octets, &str, Rights, Option<Octets>)> = told
            .iter()
            .map(|one| (&one.path, one.op.as_str(), one.rights, one.exists.clone()))
            .collect();
        assert_eq!(
            short,
            [
                (&at("tool"), "exec", Rights::RX, Some(at("tool"))),
                (
                    &at("new/deep"),
                    "mkdir",
                    Rights::RW,
                    Some(Octets::from(place.path()))
                ),
                (&at("data"), "open", Rights::RW, Some(at("data"))),
            ]
        );
    }

    /// A security hook names the object, by the kernel's word; the same file refused by name before is the same.
    #[test]
    fn what_the_security_hooks_refuse_is_told_where_a_root_would_help() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| Octets::from(place.path().join(name));
        for name in ["tool", "data", "gain", "mode", "memory"] {
            fs::write(place.path().join(name), "").unwrap();
        }
        let hook = |op: &str, name: &str, rights: Option<&str>, reason: &str| {
            let mut body = denied(op, &at(name).0, rights);
            if let Body::Kernel(kernel) = &mut body {
                kernel.layer = Layer::BpfLsm;
                kernel.reason = Some(reason.to_owned());
                kernel.path_source = Some(crate::audit::PathSource::Kernel);
            }
            body
        };
        let mut refused = Refused::default();
        refused.note(&denied("open", &at("data").0, Some("r")));
        refused.note(&hook("exec", "tool", Some("rx"), "right-missing"));
        refused.note(&hook("rename", "gain", Some("rwx"), "would-gain-rights"));
        refused.note(&hook("mkdir", "new", Some("w"), "outside-roots"));
        refused.note(&hook("open", "data", Some("rw"), "outside-roots"));
        for (op, name, reason) in [
            ("chmod", "mode", "set-id"),
            ("mknod", "device", "device"),
            ("exec", "memory", "no-file"),
            ("open", "deep", "too-deep"),
            ("open", "over", "unknown-sandbox"),
        ] {
            refused.note(&hook(op, name, Some("rwx"), reason));
        }
        // Where its filesystem is mounted is not known.
        let mut unplaced = hook("open", "data", Some("rwx"), "outside-roots");
        if let Body::Kernel(kernel) = &mut unplaced {
            kernel.path = Some(Octets::from("some/data"));
            kernel.path_complete = Some(false);
        }
        refused.note(&unplaced);
        let told = told(refused);
        let short: Vec<_> = told
            .iter()
            .map(|one| (one.op.as_str(), one.rights, one.exists.clone()))
            .collect();
        assert_eq!(
            short,
            [
                ("exec", Rights::RX, Some(at("tool"))),
                (
                    "rename",
                    Rights {
                        write: true,
                        exec: true
                    },
                    Some(at("gain"))
                ),
                ("mkdir", Rights::RW, Some(Octets::from(place.path()))),
                ("open", Rights::RW, Some(at("data"))),
            ]
        );
    }

    /// The server names what it likes: what only root can see is as if it were not there.
    #[test]
    fn root_does_not_tell_what_the_servers_user_cannot_see() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, mode) in [("open", 0o755), ("closed", 0o700)] {
            fs::create_dir(place.path().join(name)).unwrap();
            fs::write(place.path().join(name).join("file"), "").unwrap();
            fs::set_permissions(place.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let nobody = Ids {
            uid: 65_534,
            gid: 65_534,
            groups: Vec::new(),
        };
        let names = |user: Option<Ids>| {
            let mut refused = Refused::seen_by(user);
            for name in ["closed/file", "open/file"] {
                refused.note(&denied(
                    "open",
                    &Octets::from(place.path().join(name)).0,
                    Some("r"),
                ));
            }
            told(refused).into_iter().map(|one| one.path).collect::<Vec<_>>()
        };
        let at = |name: &str| Octets::from(place.path().join(name));
        assert_eq!(names(None), [at("closed/file"), at("open/file")]);
        assert_eq!(names(Some(nobody)), [at("open/file")]);
    }

    #[test]
    fn a_search_through_path_names_the_program_that_would_have_been_found() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        for directory in ["usr/bin", "local"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        fs::write(top.join("usr/bin/git"), "").unwrap();
        std::os::unix::fs::symlink("usr/bin", top.join("bin")).unwrap();
        std::os::unix::fs::symlink("bin/git", top.join("git-link")).unwrap();
        let mut refused = Refused::default();
        for name in ["local/git", "usr/bin/git", "bin/git"] {
            refused.note(&denied("exec", &Octets::from(top.join(name)).0, None));
        }
        refused.note(&denied("open", &Octets::from(top.join("git-link")).0, Some("r")));
        let told = told(refused);
        let short: Vec<_> = told
            .iter()
            .map(|one| (one.path.clone(), one.exists.clone(), one.rights))
            .collect();
        let git = Octets::from(top.join("usr/bin/git"));
        // The link is the same file, refused later: it is named by what it is.
        assert_eq!(
            short,
            [(Octets::from(top.join("git-link")), Some(git), Rights::RX)]
        );
    }

    #[test]
    fn a_flood_is_bounded_and_other_records_do_not_matter() {
        let mut refused = Refused::default();
        for number in 0..10_000 {
            refused.note(&denied("open", format!("/{number}").as_bytes(), None));
        }
        refused.note(&denied(
            "open",
            &[b"/".as_slice(), &[b'x'; LONGEST]].concat(),
            None,
        ));
        let mut socket = denied("connect", b"/run/x.sock", None);
        if let Body::Kernel(kernel) = &mut socket {
            kernel.family = Some("AF_UNIX".into());
        }
        refused.note(&socket);
        assert_eq!(refused.latest.len(), MOST);
        assert_eq!(refused.latest.back().unwrap().path, Octets::from("/9999"));
    }
}
