//! Observation: a failing open in a sandbox is seen with its path, one outside is not.

use std::{
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    attacks,
    attempt::Answer,
    verdict::{Verdict, Why},
};
use crate::{
    fault,
    warden::kernel::{CallEvent, Event},
};

/// Names that are not there.
pub(super) struct Names {
    outside: PathBuf,
    inside: PathBuf,
}

impl Names {
    pub(super) fn below(directory: &Path) -> Self {
        Self {
            outside: directory.join("proof.missing-outside"),
            inside: directory.join("proof.missing-inside"),
        }
    }
}

/// How the two opens ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Found {
    outside: Answer,
    inside: Answer,
}

/// Opens one name outside the cgroup and the other in it.
pub(super) fn attack(cgroup: &Path, names: &Names) -> io::Result<Found> {
    let outside = attacks::read(&names.outside);
    if fault::point("proof.observation").is_ok() {
        fs::write(cgroup.join("cgroup.procs"), "0")?;
    }
    Ok(Found {
        outside,
        inside: attacks::read(&names.inside),
    })
}

/// What was seen of them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    outside: bool,
    inside: bool,
}

impl Seen {
    pub(super) fn look(&mut self, event: &Event, cgroup: u64, names: &Names) {
        let Event::Call(CallEvent {
            origin,
            errno,
            path: Some(path),
            ..
        }) = event
        else {
            return;
        };
        let is = |name: &Path| path.bytes == name.as_os_str().as_bytes();
        self.outside |= is(&names.outside);
        self.inside |= is(&names.inside) && i32::from(*errno) == libc::ENOENT && origin.cgroup_id == cgroup;
    }
}

/// What it shows. A path that is cut is told apart from others by nobody: names of this length are not.
pub(super) fn verdict(found: &Found, seen: &Seen) -> Verdict {
    let missing = Answer::errno(libc::ENOENT);
    let failed = |what| Verdict::not_enforced(format!("its self-test failed: {what}"));
    if found.outside != missing || found.inside != missing {
        return failed("a file that is not there could be opened");
    }
    match (seen.inside, seen.outside) {
        (true, false) => Verdict::Enforced,
        (false, _) => failed("a failing open in a sandbox was not seen"),
        (true, true) => failed("an open outside every sandbox was seen too"),
    }
}

/// The kernel's fixed number (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The kernel reports the numbers of its first pid namespace; elsewhere they are other processes' or nobody's.
pub(super) fn in_the_first_pid_namespace() -> Result<(), Why> {
    let here = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    if here == FIRST_PID_NAMESPACE {
        return Ok(());
    }
    Err(Why {
        why: "this process lives in a pid namespace of its own, where the kernel's process numbers mean nothing"
            .to_owned(),
        change: Some("start it in the machine's first pid namespace".to_owned()),
    })
}

/// Without privilege.
pub(super) fn needs_root() -> Verdict {
    Verdict::not_available(
        "without root no eBPF program can be loaded; what seccomp refuses is recorded all the same",
        "run as root",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_inside_is_seen() {
        let missing = Answer::errno(libc::ENOENT);
        let found = Found {
            outside: missing,
            inside: missing,
        };
        let holds = |inside, outside| verdict(&found, &Seen { outside, inside }).holds();
        assert!(holds(true, false));
        assert!(!holds(true, true));
        assert!(!holds(false, false));
        assert!(!holds(false, true));
        let there = Found {
            outside: missing,
            inside: Answer::WORKED,
        };
        let seen = Seen {
            inside: true,
            outside: false,
        };
        assert!(!verdict(&there, &seen).holds());
    }
}
