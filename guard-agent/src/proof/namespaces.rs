//! Namespaces: what a process outside them has does not exist inside, and what is mounted inside is not seen outside.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    mount::MsFlags,
    sched::{CloneFlags, unshare},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use super::{
    attacks::{self, Loopback, Unix},
    attempt::{Answer, Attempt, Finding},
    child, host,
    verdict::Why,
};
use crate::{audit::Layer, fault, init, link::message::Facet, sys::ipc::Segment};

pub(super) const FACETS: [Facet; 3] = [Facet::Fs, Facet::Net, Facet::Ipc];

/// As a sandbox's: `sys::clone::SANDBOX_NAMESPACES`.
fn of_a_sandbox() -> CloneFlags {
    CloneFlags::from_bits_retain(crate::sys::clone::SANDBOX_NAMESPACES as i32)
}

/// Whose namespaces they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Root,
    /// A user namespace is made first: the caller has no privilege.
    Anybody,
}

impl Owner {
    /// Gives this process a mount namespace of its own, in which nothing it mounts is seen outside.
    pub(super) fn enter(self) -> Result<(), Why> {
        if self == Self::Anybody {
            user_namespace().map_err(|error| host::without_user_namespaces(&error))?;
        }
        let made = unshare(CloneFlags::CLONE_NEWNS)
            .map_err(io::Error::from)
            .and_then(|()| init::make_private());
        made.map_err(|error| match self {
            Self::Root => host::without_namespaces(&error),
            Self::Anybody => host::without_user_namespaces(&error),
        })
    }
}

/// A user namespace in which this process's ids are what they were.
fn user_namespace() -> io::Result<()> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    // A warden's own are root's: it may not be dumped.
    crate::sys::process::dumpable()?;
    unshare(CloneFlags::CLONE_NEWUSER)?;
    init::map_ids(uid.as_raw(), gid.as_raw())
}

/// What the process outside has.
struct Outside {
    loopback: Loopback,
    unix: Unix,
    segment: Segment,
    process: Pid,
}

impl Outside {
    fn make() -> io::Result<Self> {
        Ok(Self {
            loopback: Loopback::listen()?,
            unix: Unix::abstract_name()?,
            segment: Segment::make()?,
            process: nix::unistd::getpid(),
        })
    }

    fn all(&self) -> Answers {
        Answers {
            connect: self.loopback.connect(),
            socket: self.unix.connect(),
            segment: Answer::of(self.segment.look()),
            signal: attacks::signal(self.process),
            mount: None,
            execute_memory: None,
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Answers {
    connect: Answer,
    socket: Answer,
    segment: Answer,
    signal: Answer,
    /// Whether a mount could be made, and was seen there.
    mount: Option<Answer>,
    /// `None`: the kernel has no such setting.
    execute_memory: Option<Answer>,
}

const MARK: &str = "mounted-inside";

/// Attacks before and behind, on an empty directory `scaffold`.
pub(super) fn attack(owner: Owner, scaffold: &Path, limit: Duration) -> Vec<Finding> {
    let layer = Layer::Namespaces;
    if let Err(why) = owner.enter() {
        return FACETS
            .map(|facet| Finding::unavailable(facet, layer, &why))
            .into();
    }
    match both(scaffold, Instant::now() + limit) {
        Ok((without, behind, seen)) => findings(&without, &behind, seen),
        Err(Stopped::Unavailable(why)) => FACETS
            .map(|facet| Finding::unavailable(facet, layer, &why))
            .into(),
        Err(Stopped::Failed(cause)) => FACETS.map(|facet| Finding::failed(facet, layer, &cause)).into(),
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Stopped {
    Unavailable(Why),
    Failed(String),
}

impl From<String> for Stopped {
    fn from(cause: String) -> Self {
        Self::Failed(cause)
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Answers outside, answers inside, and whether the mount made inside is seen outside.
fn both(scaffold: &Path, until: Instant) -> Result<(Answers, Answers, Answer), Stopped> {
    let outside = Outside::make()?;
    let mut without = outside.all();
    without.execute_memory = Some(attacks::memory::executable());
    let inside = child::start(|| -> Result<Answers, Stopped> {
        // In a build without faults this is always so.
        let isolated = fault::point("proof.namespaces").is_ok();
        if isolated {
            unshare(of_a_sandbox())
                .map_err(|error| Stopped::Unavailable(host::without_namespaces(&error.into())))?;
        }
        // The first process of the new pid namespace is the next one.
        let first = child::start(|| inside(&outside, scaffold, isolated))?;
        Ok(first.join(until)?)
    })?;
    let mut behind = inside.join(until)??;
    without.mount = behind.mount.take();
    Ok((without, behind, attacks::read(&scaffold.join(MARK))))
}

fn inside(outside: &Outside, scaffold: &Path, isolated: bool) -> Answers {
    let mut answers = outside.all();
    answers.mount = Some(Answer::of(mount_mark(scaffold)));
    // The setting is the pid namespace's: not to be touched in the host's.
    answers.execute_memory = (isolated && init::forbid_memory_programs()).then(attacks::memory::executable);
    answers
}

fn mount_mark(scaffold: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    nix::mount::mount(Some("tmpfs"), scaffold, Some("tmpfs"), flags, Some("size=4k"))?;
    std::fs::write(scaffold.join(MARK), "x")
}

fn findings(without: &Answers, behind: &Answers, seen: Answer) -> Vec<Finding> {
    let layer = Layer::Namespaces;
    let attempt = |what, errnos: &[i32], of: fn(&Answers) -> Answer| {
        Attempt::new(what, errnos).without(of(without)).behind(of(behind))
    };
    let mut mount = Attempt::new("see a mount of the sandbox", &[libc::ENOENT]).behind(seen);
    if let Some(answer) = without.mount {
        mount = mount.without(answer);
    }
    let mut findings = vec![
        Finding::attempts(Facet::Fs, layer, vec![mount]),
        Finding::attempts(
            Facet::Net,
            layer,
            vec![attempt("connect to loopback", &[libc::ENETUNREACH], |answers| {
                answers.connect
            })],
        ),
        Finding::attempts(
            Facet::Ipc,
            layer,
            vec![
                attempt("signal a process outside", &[libc::ESRCH], |answers| {
                    answers.signal
                }),
                attempt(
                    "connect to an abstract socket outside",
                    &[libc::ECONNREFUSED],
                    |answers| answers.socket,
                ),
                attempt(
                    "look at a memory segment outside",
                    &[libc::EINVAL, libc::EIDRM],
                    |answers| answers.segment,
                ),
            ],
        ),
    ];
    if let (Some(without), Some(behind)) = (without.execute_memory, behind.execute_memory) {
        // A host may have forbidden it to itself; then the sandbox's setting cannot be told apart, and need not.
        let attempt = if without == Answer::errno(libc::EACCES) {
            return findings;
        } else {
            Attempt::new("make a memory file to be executed", &[libc::EACCES])
        };
        // Where the setting holds, the filter lets memory files pass.
        findings.push(Finding::attempts(
            Facet::Exec,
            Layer::Seccomp,
            vec![attempt.without(without).behind(behind)],
        ));
    }
    findings
}
