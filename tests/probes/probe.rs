//! What a probe declares, what it answers, and how one runs in a process of its own.
#![expect(unsafe_code, reason = "fork is the isolation between probes")]

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::PathBuf,
};

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, fork, pipe},
};
use serde::Serialize;
use serde_json::{Value, json};

/// Who runs the control outside.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Identity {
    /// The uid the sandboxed server has: the refusal inside cannot be the uid's doing.
    User,
    /// Only root can reach the call at all.
    Root,
}

/// In which view of the tree the refusal is promised.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Views {
    Both,
    /// What the host view leaves visible by design (metadata).
    Private,
}

/// One escape attempt.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    /// The row it stands for: a vector of the containment table, or a user's report.
    pub(crate) vector: &'static str,
    pub(crate) identity: Identity,
    /// Outcomes outside that prove the attempt reaches its target.
    pub(crate) control: &'static [&'static str],
    /// Outcomes inside that count as refused.
    pub(crate) refused: &'static [&'static str],
    /// `op` and `layer` of the audit record the refusal must leave.
    pub(crate) record: Option<(&'static str, &'static str)>,
    /// Address family that record must name.
    pub(crate) family: Option<&'static str>,
    /// `op` and address family of the record by seccomp it must leave instead on a kernel whose cgroup programs
    /// do not see unix addresses.
    pub(crate) unseen: Option<(&'static str, &'static str)>,
    /// The control must be seen to change the outside; the attempt inside must not.
    pub(crate) mutates: bool,
    pub(crate) views: Views,
    /// The kernel feature without which there is no control.
    pub(crate) needs: Option<&'static str>,
    #[serde(skip)]
    run: Run,
}

pub(crate) type Run = fn(&Args) -> Answer;
/// Reached its target (with what it saw), or not.
pub(crate) type Answer = Result<String, Failure>;

pub(crate) enum Failure {
    Errno(Errno),
    /// Refused in another way than by errno: `absent`, `not-raised`, `exit`.
    Word(&'static str, String),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or_else(
            || Self::Word("fault", error.to_string()),
            |raw| Self::Errno(Errno::from_raw(raw)),
        )
    }
}

/// A path outside the view is not there, or Landlock refuses it.
pub(crate) const GONE: &[&str] = &["ENOENT", "EACCES"];
/// As `GONE`, for changes, which a read-only host view refuses as well.
pub(crate) const FIXED: &[&str] = &["ENOENT", "EACCES", "EROFS", "EPERM"];
pub(crate) const EPERM: &[&str] = &["EPERM"];
pub(crate) const ENOSYS: &[&str] = &["ENOSYS"];
const OK: &[&str] = &["ok"];

pub(crate) const fn probe(name: &'static str, vector: &'static str, run: Run) -> Probe {
    Probe {
        name,
        vector,
        identity: Identity::User,
        control: OK,
        refused: GONE,
        record: None,
        family: None,
        unseen: None,
        mutates: false,
        views: Views::Both,
        needs: None,
        run,
    }
}

impl Probe {
    pub(crate) const fn root(mut self) -> Self {
        self.identity = Identity::Root;
        self
    }
    pub(crate) const fn control(mut self, outcomes: &'static [&'static str]) -> Self {
        self.control = outcomes;
        self
    }
    pub(crate) const fn refused(mut self, outcomes: &'static [&'static str]) -> Self {
        self.refused = outcomes;
        self
    }
    /// Refused by the allow-list of system calls, with a record.
    pub(crate) const fn seccomp(mut self, op: &'static str) -> Self {
        self.refused = EPERM;
        self.record = Some((op, "seccomp"));
        self
    }
    pub(crate) const fn record(mut self, op: &'static str, layer: &'static str) -> Self {
        self.record = Some((op, layer));
        self
    }
    pub(crate) const fn family(mut self, family: &'static str) -> Self {
        self.family = Some(family);
        self
    }
    pub(crate) const fn unseen(mut self, op: &'static str, family: &'static str) -> Self {
        self.unseen = Some((op, family));
        self
    }
    pub(crate) const fn mutates(mut self) -> Self {
        self.mutates = true;
        self
    }
    pub(crate) const fn private_only(mut self) -> Self {
        self.views = Views::Private;
        self
    }
    pub(crate) const fn needs(mut self, feature: &'static str) -> Self {
        self.needs = Some(feature);
        self
    }
}

/// The fixture's places, by name.
pub(crate) struct Args(pub(crate) BTreeMap<String, String>);

impl Args {
    pub(crate) fn text(&self, key: &str) -> Result<&str, Failure> {
        self.0
            .get(key)
            .map(String::as_str)
            .ok_or_else(|| Failure::Word("usage", format!("argument `{key}` is missing")))
    }
    pub(crate) fn path(&self, key: &str) -> Result<PathBuf, Failure> {
        self.text(key).map(PathBuf::from)
    }
    pub(crate) fn outside(&self, name: &str) -> Result<PathBuf, Failure> {
        Ok(self.path("outside")?.join(name))
    }
    pub(crate) fn rw(&self, name: &str) -> Result<PathBuf, Failure> {
        Ok(self.path("rw")?.join(name))
    }
    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T, Failure> {
        self.text(key)?
            .parse()
            .map_err(|_| Failure::Word("usage", format!("argument `{key}` is not a number")))
    }
}

/// What happened, as the line the harness reads.
fn line(probe: &Probe, answer: &Answer) -> Value {
    match answer {
        Ok(detail) => json!({"probe": probe.name, "result": "ok", "outcome": "ok", "detail": detail}),
        Err(Failure::Errno(errno)) => {
            let name = format!("{errno:?}");
            json!({"probe": probe.name, "result": "errno", "errno": name, "outcome": name, "detail": errno.desc()})
        }
        Err(Failure::Word(word, detail)) => {
            json!({"probe": probe.name, "result": "refused", "outcome": word, "detail": detail})
        }
    }
}

/// Seconds a probe may take: making ten thousand files on a busy disk is the longest.
const LIFE: u32 = 60;

/// Runs the probe in a child with so long to live: what it breaks dies with it, and a kill is an answer.
pub(crate) fn isolated(probe: &Probe, args: &Args) -> Value {
    match fork_and_read(probe, args) {
        Ok(value) => value,
        Err(error) => {
            json!({"probe": probe.name, "result": "error", "outcome": "fault", "detail": error.to_string()})
        }
    }
}

fn fork_and_read(probe: &Probe, args: &Args) -> io::Result<Value> {
    let (from, to) = pipe()?;
    // SAFETY: this program has one thread, so the child may use everything it inherits.
    match unsafe { fork()? } {
        ForkResult::Child => {
            drop(from);
            child(probe, args, to)
        }
        ForkResult::Parent { child } => {
            drop(to);
            let mut text = String::new();
            std::fs::File::from(from).read_to_string(&mut text)?;
            let status = waitpid(child, None)?;
            if let WaitStatus::Signaled(_, signal, _) = status {
                let outcome = if signal == Signal::SIGALRM {
                    "timeout"
                } else {
                    signal.as_str()
                };
                return Ok(
                    json!({"probe": probe.name, "result": "killed", "outcome": outcome, "detail": ""}),
                );
            }
            serde_json::from_str(&text).map_err(|_| io::Error::other(format!("{status:?}, said `{text}`")))
        }
    }
}

fn child(probe: &Probe, args: &Args, to: OwnedFd) -> ! {
    // No core files of the probes that are killed; refused inside, where it is set already.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_CORE) {
        setrlimit(Resource::RLIMIT_CORE, 0, most).ok();
    }
    nix::unistd::alarm::set(LIFE);
    let text = line(probe, &(probe.run)(args)).to_string();
    drop(std::fs::File::from(to).write_all(text.as_bytes()));
    // SAFETY: ends this process at once; no destructor of the parent's copies may run here.
    unsafe { libc::_exit(0) }
}
