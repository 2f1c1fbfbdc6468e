//! Tier T1's own programs, attacked by a process that nothing else confines: no Landlock, no seccomp, root's rights, on
//! targets that ordinary permissions allow. What is refused there, they have refused. Beside it: what they have to
//! allow works, and who is in no sandbox is not touched.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    time::Instant,
};

use guard_common::hooks::{self, Hook};
use libc::{EACCES, EPERM};
use nix::unistd::{Pid, pipe2};
use serde::{Deserialize, Serialize};

use super::{
    anybody::joined,
    attacks,
    attempt::{Answer, Attempt, Finding},
    child,
    verdict::Verdict,
};
use crate::{
    audit::Layer,
    confine::landlock::{self, Settings},
    link::message::Facet,
    refusal::chain,
    sys::{self, process},
    warden::{
        cgroup::Sandbox,
        kernel::{Event, Programs},
    },
};

pub(super) const FACETS: [Facet; 4] = [Facet::Fs, Facet::Net, Facet::Exec, Facet::Ipc];

/// Hooks that have to have refused something when all was tried: by their own count.
const REFUSED: [&Hook; 10] = [
    &hooks::FILE_OPEN,
    &hooks::MMAP_FILE,
    &hooks::PATH_MKNOD,
    &hooks::PATH_MKDIR,
    &hooks::PATH_LINK,
    &hooks::PATH_RENAME,
    &hooks::PATH_CHMOD,
    &hooks::SOCKET_CREATE,
    &hooks::TASK_KILL,
    &hooks::PTRACE_ACCESS_CHECK,
];

/// The places of the attacks: a directory that is enrolled, and one beside it that is not. Removed when dropped.
pub(super) struct Places {
    inside: PathBuf,
    outside: PathBuf,
}

impl Places {
    pub(super) fn in_directory(directory: &Path) -> io::Result<Self> {
        let place = |path: &Path| {
            let _ = fs::remove_dir_all(path);
            fs::create_dir(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
            fs::write(
                path.join("file"),
                b"planted by guard-agent to be attacked by itself\n",
            )
        };
        // Removed from here on, also when only one of them can be made.
        let places = Self {
            inside: directory.join("proof.inside"),
            outside: directory.join("proof.outside"),
        };
        place(&places.inside)?;
        place(&places.outside)?;
        Ok(places)
    }

    fn file(&self) -> PathBuf {
        self.outside.join("file")
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for path in [&self.inside, &self.outside] {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// What the attacker found, in the order of [`TRIES`].
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    without: Vec<Answer>,
    behind: Vec<Answer>,
    /// The first of what has to work all the same and did not.
    broken: Option<String>,
    /// What came of an open in a root when Landlock was in force, too; or why it is not.
    landlock: Result<Answer, String>,
}

type Try = fn(&Places, BorrowedFd<'_>) -> Answer;

/// Everything that is tried, the facet it is about and how it is refused. Each leaves things as they were, also when it works.
const TRIES: [(Facet, &str, i32, Try); 12] = [
    (Facet::Fs, "open a file outside", EACCES, |places, _| {
        attacks::read(&places.file())
    }),
    (
        Facet::Fs,
        "open a file outside for writing",
        EACCES,
        |places, _| attacks::write(&places.file()),
    ),
    (Facet::Fs, "make a file outside", EACCES, |places, _| {
        let new = places.outside.join("new");
        undone(File::create_new(&new).map(drop), || fs::remove_file(&new))
    }),
    (Facet::Fs, "make a directory outside", EACCES, |places, _| {
        let new = places.outside.join("new");
        undone(fs::create_dir(&new), || fs::remove_dir(&new))
    }),
    (Facet::Fs, "link a file into a root", EACCES, |places, _| {
        let link = places.inside.join("link");
        undone(fs::hard_link(places.file(), &link), || fs::remove_file(&link))
    }),
    (Facet::Fs, "move a file into a root", EACCES, |places, _| {
        let moved = places.inside.join("moved");
        undone(fs::rename(places.file(), &moved), || {
            fs::rename(&moved, places.file())
        })
    }),
    (Facet::Fs, "change a mode outside", EACCES, |places, _| {
        let mode = fs::Permissions::from_mode(0o600);
        Answer::of(fs::set_permissions(places.file(), mode))
    }),
    (Facet::Net, "make a netlink socket", EACCES, |_, _| {
        attacks::netlink()
    }),
    (Facet::Exec, "execute a program outside", EACCES, |_, program| {
        attacks::execute(program)
    }),
    (
        Facet::Exec,
        "map a program outside as code",
        EACCES,
        |_, program| Answer::of(sys::fs::map_code(program)),
    ),
    (Facet::Ipc, "signal a process outside", EACCES, |_, _| {
        attacks::signal(Pid::parent())
    }),
    (
        Facet::Ipc,
        "read the memory of a process outside",
        EPERM,
        |_, _| attacks::read_memory(Pid::parent()),
    ),
];

/// Takes back what should not have worked: the second try finds what the first one found.
fn undone(result: io::Result<()>, undo: impl FnOnce() -> io::Result<()>) -> Answer {
    Answer::of(result.and_then(|()| undo()))
}

/// What the hooks allow.
fn permitted(places: &Places) -> Option<String> {
    let file = places.inside.join("file");
    let own = places.inside.join("own");
    let tried = [
        ("open a file of a root", Answer::of(File::open(&file))),
        ("write to a file of a root", attacks::write(&file)),
        ("make a file in a root", Answer::of(File::create(&own))),
        ("remove it", Answer::of(fs::remove_file(&own))),
        ("reopen a pipe", Answer::of(reopen_a_pipe())),
    ];
    tried
        .iter()
        .find(|(_, answer)| *answer != Answer::WORKED)
        .map(|(what, answer)| format!("`{what}` is refused, too: {}", answer.said()))
}

/// No name leads to it: it is not for roots to say.
fn reopen_a_pipe() -> io::Result<File> {
    let (read, _write) = pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    File::options()
        .read(true)
        .custom_flags(flags)
        .open(format!("/proc/self/fd/{}", read.as_raw_fd()))
}

/// Attacks in a cgroup like a sandbox's, which nobody else is in. The slot is closed by the caller.
pub(super) fn attack(
    programs: &mut Programs,
    (cgroup, slot): (&Sandbox, u32),
    (places, program): (&Places, BorrowedFd<'_>),
    until: Instant,
) -> Result<(Vec<Finding>, Verdict), String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("{what}: {error}")
    };
    let pipe = || pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|error| format!("pipe: {error}"));
    let ((ready, tell), (wait, go)) = (pipe()?, pipe()?);
    let before = hits(programs)?;
    let path = cgroup.path().to_owned();
    let attacker = child::start(|| {
        attacker(&path, places, program, (File::from(tell), File::from(wait)))
            .map_err(|error| error.to_string())
    })?;
    wait_for(&ready, until)?;
    let object = File::open(&places.inside).map_err(failed("open its root"))?;
    let tell = |error| chain(&error);
    programs
        .enrol(cgroup.id(), object.as_fd(), hooks::READ | hooks::WRITE)
        .map_err(tell)?;
    let process = process::pidfd_open(attacker.pid()).map_err(failed("pidfd"))?;
    programs
        .enforce(cgroup.id(), slot, true, process.as_fd())
        .map_err(tell)?;
    let neighbour = File::open(places.outside.join("file"));
    File::from(go)
        .write_all(b"g")
        .map_err(failed("start its attacker"))?;
    let found = joined(Ok(attacker), until).and_then(|found| found);
    programs.forget(cgroup.id());
    let found = found?;
    neighbour.map_err(failed("who is in no sandbox is refused, too"))?;
    if let Some(broken) = found.broken {
        return Err(broken);
    }
    not_called(&before, &hits(programs)?)?;
    let planted = places.inside.join("file");
    let planted = fs::metadata(planted).map_err(failed("look at its file"))?;
    let told = told(found.landlock.clone(), planted.ino(), cgroup.id(), programs);
    Ok((findings(&found), told))
}

/// The attacker's whole work.
fn attacker(
    cgroup: &Path,
    places: &Places,
    program: BorrowedFd<'_>,
    (mut tell, mut wait): (File, File),
) -> io::Result<Found> {
    let answers = || TRIES.iter().map(|(.., attack)| attack(places, program)).collect();
    let without = answers();
    fs::write(cgroup.join("cgroup.procs"), "0")?;
    tell.write_all(b"r")?;
    wait.read_exact(&mut [0])?;
    Ok(Found {
        without,
        behind: answers(),
        broken: permitted(places),
        landlock: landlocked(places),
    })
}

/// Last of all: it is for good.
fn landlocked(places: &Places) -> Result<Answer, String> {
    let nothing = Settings { network: false };
    landlock::restrict(&[], nothing).map_err(|error| chain(&error))?;
    Ok(attacks::read(&places.inside.join("file")))
}

/// Whether a refusal by Landlock, which our hook was never asked about, was told: of that object, once.
fn told(landlocked: Result<Answer, String>, object: u64, sandbox: u64, programs: &mut Programs) -> Verdict {
    let failed = |why: &str| Verdict::not_enforced(format!("its self-test failed: {why}"));
    match landlocked {
        Err(why) => return failed(&format!("Landlock cannot be put in force: {why}")),
        Ok(answer) if answer != Answer::errno(libc::EACCES) => {
            return failed("Landlock did not refuse");
        }
        Ok(_) => {}
    }
    let mut seen = 0;
    super::root::drain(programs, |event| {
        if let Event::Verdict(event) = event
            && event.reason.is_none()
            && event.hook.id == hooks::FILE_OPEN.id
            && (event.ino, event.origin.cgroup_id) == (Some(object), sandbox)
        {
            seen += 1;
        }
    });
    match (programs.verdicts(), seen) {
        (Err(why), _) => Verdict::not_enforced(why),
        (Ok(()), 1) => Verdict::Enforced,
        (Ok(()), 0) => failed("a refusal by Landlock was not seen"),
        (Ok(()), _) => failed("a refusal by Landlock was seen more than once"),
    }
}

fn wait_for(ready: &OwnedFd, until: Instant) -> Result<(), String> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let left = until.saturating_duration_since(Instant::now());
    let mut ready = [PollFd::new(ready.as_fd(), PollFlags::POLLIN)];
    match poll(
        &mut ready,
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
    ) {
        Ok(1..) if was_told(&ready) => Ok(()),
        Ok(_) => Err("its attacker did not get ready".to_owned()),
        Err(error) => Err(format!("poll: {error}")),
    }
}

/// Readable, not only closed.
fn was_told(ready: &[nix::poll::PollFd<'_>; 1]) -> bool {
    let [ready] = ready;
    ready
        .revents()
        .is_some_and(|events| events.contains(nix::poll::PollFlags::POLLIN))
}

fn hits(programs: &Programs) -> Result<Vec<u64>, String> {
    REFUSED
        .iter()
        .map(|hook| programs.hits(hook).map(|hits| hits.denied))
        .collect::<Result<_, _>>()
        .map_err(|error| chain(&error))
}

/// A refusal that none of our programs counts was somebody else's.
fn not_called(before: &[u64], after: &[u64]) -> Result<(), String> {
    let silent: Vec<&str> = REFUSED
        .iter()
        .zip(before.iter().zip(after))
        .filter(|(_, (before, after))| before >= after)
        .map(|(hook, _)| hook.name)
        .collect();
    if silent.is_empty() {
        Ok(())
    } else {
        Err(format!("never refused by its own program: {}", silent.join(", ")))
    }
}

fn findings(found: &Found) -> Vec<Finding> {
    let attempts = |facet: Facet| {
        TRIES
            .iter()
            .zip(found.without.iter().zip(&found.behind))
            .filter(|((of, ..), _)| *of == facet)
            .map(|((_, what, errno, _), (without, behind))| {
                Attempt::new(what, &[*errno]).without(*without).behind(*behind)
            })
            .collect()
    };
    FACETS
        .into_iter()
        .map(|facet| Finding::attempts(facet, Layer::BpfLsm, attempts(facet)))
        .collect()
}
