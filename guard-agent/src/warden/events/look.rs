//! What of a process and of its view can be looked up after the fact, to complete a record: best effort, once for
//! each attempt that is new. It may be gone or changed by then; nothing is decided by it.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            ffi::{OsStrExt as _, OsStringExt as _},
            fs::OpenOptionsExt as _,
        },
    },
    path::{Path, PathBuf},
};

use super::places::{Places, clean, join, parent};
use crate::{octets::Octets, sys::fs::open_at};

/// Links of one path that are followed.
const MOST_LINKS: usize = 8;
/// What AppArmor says of a task that it has no profile for.
const UNCONFINED: &str = "unconfined";

/// One sandbox, to be looked into.
#[derive(Debug)]
pub(in crate::warden) struct Look {
    /// `pid:[…]` of its processes: a number that another process has by now is not asked.
    namespace: PathBuf,
    /// The root of its view.
    root: OwnedFd,
    init: i32,
}

impl Look {
    /// By the sandbox's init, which lives as long as the sandbox.
    pub(in crate::warden) fn into(init: i32) -> io::Result<Self> {
        let root = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(format!("/proc/{init}/root"))?;
        Ok(Self {
            namespace: fs::read_link(format!("/proc/{init}/ns/pid"))?,
            root: root.into(),
            init,
        })
    }

    /// A link of a thread in `/proc`, when it is the sandbox's thread and names a path.
    fn link(&self, tid: u32, name: &str) -> Option<Vec<u8>> {
        let of = format!("/proc/{tid}");
        let found = fs::read_link(format!("{of}/{name}"))
            .ok()?
            .into_os_string()
            .into_vec();
        let ours = fs::read_link(format!("{of}/ns/pid")).ok()? == self.namespace;
        (ours && found.first() == Some(&b'/')).then_some(found)
    }

    pub(super) fn working_directory(&self, tid: u32) -> Option<Vec<u8>> {
        self.link(tid, "cwd")
    }

    pub(super) fn descriptor(&self, tid: u32, fd: i32) -> Option<Vec<u8>> {
        self.link(tid, &format!("fd/{fd}"))
    }

    pub(super) fn program(&self, tid: u32) -> Option<Octets> {
        self.link(tid, "exe").map(Octets)
    }

    /// Whether AppArmor may have a profile for a thread. One that is gone had its init's, or one of its program's: that
    /// cannot be told any more.
    pub(super) fn has_profile(&self, tid: u32) -> bool {
        let of = |task: &str| fs::read_to_string(format!("/proc/{task}/attr/apparmor/current"));
        let ours = fs::read_link(format!("/proc/{tid}/ns/pid")).is_ok_and(|space| space == self.namespace);
        let found = if ours {
            of(&tid.to_string())
        } else {
            of(&self.init.to_string())
        };
        found.map_or(true, |profile| profile.trim_end() != UNCONFINED)
    }

    /// Whether a link on the way, inside the places, leads out of all of them: such a path is missing because of the
    /// view although it begins in it.
    pub(super) fn leads_out(&self, places: &Places, path: &[u8]) -> bool {
        let mut path = path.to_vec();
        for _ in 0..MOST_LINKS {
            let Some(next) = self.first_link(&path) else {
                return false;
            };
            if places.at(&next).is_none() {
                return true;
            }
            path = next;
        }
        false
    }

    /// The path with its first symbolic link followed, as text.
    fn first_link(&self, path: &[u8]) -> Option<Vec<u8>> {
        // Its links lead to whoever asks.
        if path.starts_with(b"/proc/") {
            return None;
        }
        match self.open(path) {
            Ok(object) => {
                let target = read_link(&object)?;
                return Some(clean(&join(parent(path), &target)));
            }
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {}
            Err(_) => return None,
        }
        let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        for (end, _) in ends {
            let (before, after) = path.split_at_checked(end)?;
            if let Some(target) = read_link(&self.open(before).ok()?) {
                let after = after.strip_prefix(b"/").unwrap_or(after);
                return Some(clean(&join(&join(parent(before), &target), after)));
            }
        }
        None
    }

    /// Only what the kernel has at hand: the program has just walked there, and a filesystem that must be asked could
    /// make the warden wait.
    fn open(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let name = Path::new(OsStr::from_bytes(path));
        let resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_CACHED;
        open_at(self.root.as_fd(), name, libc::O_PATH | libc::O_NOFOLLOW, resolve)
    }
}

fn read_link(object: &OwnedFd) -> Option<Vec<u8>> {
    nix::fcntl::readlinkat(object, "").ok().map(OsString::into_vec)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{config::rights::Rights, link::message::View};

    #[test]
    fn links_that_lead_out_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        fs::create_dir_all(top.join("docs/sub")).unwrap();
        fs::write(top.join("docs/sub/file"), "").unwrap();
        symlink("/outside/secret", top.join("docs/out")).unwrap();
        symlink("../../outside", top.join("docs/sub/up")).unwrap();
        symlink("sub", top.join("docs/in")).unwrap();
        symlink("loop", top.join("docs/loop")).unwrap();
        let mut places = Places::new(View::Private, b"/docs");
        places.root(b"/docs", Rights::RW);
        let look = Look {
            namespace: PathBuf::new(),
            root: File::open(top).unwrap().into(),
            init: 1,
        };
        for (path, wanted) in [
            (&b"/docs/out"[..], true),
            (b"/docs/out/deeper", true),
            (b"/docs/sub/up/x", true),
            (b"/docs/in/up/x", true),
            (b"/docs/in/missing", false),
            (b"/docs/sub/missing", false),
            (b"/docs/sub/file", false),
            (b"/docs/loop", false),
            (b"/missing", false),
        ] {
            // What the kernel has not at hand is not found: it has, after this.
            let _ = fs::metadata(top.join(Path::new(std::str::from_utf8(&path[1..]).unwrap())));
            assert_eq!(look.leads_out(&places, path), wanted, "{}", path.escape_ascii());
        }
    }
}
