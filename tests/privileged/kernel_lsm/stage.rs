//! A sandbox under the security hooks and nothing else: no Landlock, no seccomp, no namespace, root's own rights. What
//! is refused there, the hooks have refused.

use std::{
    fs,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use guard_agent::warden::kernel::{Events, Programs};
use guard_tests::arena::{Arena, Subject};
use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

pub(crate) struct Stage {
    pub(crate) inside: Subject,
    /// The same program, in no sandbox.
    pub(crate) outside: Subject,
    pub(crate) programs: Programs,
    pub(crate) events: Events,
    pub(crate) sandbox: u64,
    pub(crate) slot: u32,
    held: Vec<OwnedFd>,
    pub(crate) arena: Arena,
    pub(crate) scratch: tempfile::TempDir,
}

impl Stage {
    /// With three roots: `r`, `rw` and `rwx`.
    pub(crate) fn set(name: &str) -> Self {
        let arena = Arena::make(name);
        let (mut programs, events) = arena.load();
        programs
            .hooks_start()
            .unwrap_or_else(|error| panic!("{}", guard_agent::refusal::chain(&error)));
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let (sandbox, slot, inside) = arena.watched("sandbox", &programs);
        let mut stage = Self {
            inside,
            outside: Subject::start(),
            programs,
            events,
            sandbox,
            slot,
            held: Vec::new(),
            arena,
            scratch,
        };
        for (name, rights) in [("r", 1), ("rw", 3), ("rwx", 15)] {
            fs::create_dir(stage.at(name)).unwrap();
            fs::write(stage.at(name).join("file"), "inside").unwrap();
            stage.enrol(&stage.at(name), rights);
        }
        fs::create_dir(stage.at("outside")).unwrap();
        fs::write(stage.at("outside/file"), "outside").unwrap();
        stage
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn enrol(&mut self, path: &Path, rights: u32) {
        let object = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).unwrap();
        self.programs
            .enrol(self.sandbox, object.as_fd(), rights)
            .unwrap_or_else(|error| panic!("{}: {}", path.display(), guard_agent::refusal::chain(&error)));
        self.held.push(object);
    }

    /// From here on the hooks decide for the subject.
    pub(crate) fn enforce(&mut self) {
        let pid = i32::try_from(self.inside.pid()).unwrap();
        let process = guard_agent::sys::process::pidfd_open(pid).unwrap();
        self.programs
            .enforce(self.sandbox, self.slot, false, process.as_fd())
            .unwrap_or_else(|error| panic!("{}", guard_agent::refusal::chain(&error)));
    }
}
