//! From a request to a parked, confined, verified init: one ordered function, each step its own error.
//!
//! Blocking; runs on the launcher thread, which lives as long as the warden does, since a sandbox's init
//! dies with the thread that made it.

pub mod enrol;
pub mod held;
pub mod protect;
pub mod report;
pub mod roots;
pub mod verify;
pub mod view;

use std::{
    ffi::CString,
    fs::File,
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use self::{
    enrol::Enrolled,
    held::{Held, hold},
    protect::Protection,
    view::Entry,
};
use super::{
    hold::{Parent, Sandbox},
    kernel::Enroller,
};
use crate::{
    fault,
    init::{
        self,
        message::{Confinement, FromInit, Ground, Ids, Setup, Source, ToInit},
    },
    link::{
        channel::Channel,
        message::{LaunchRequest, User, View},
    },
    octets::Octets,
    proof::Tier,
    refusal::{Refusal, chain},
    sys::{
        self,
        clone::{Image, SANDBOX_NAMESPACES, USER_NAMESPACES},
        mount::{clone_tree, set_attributes},
        seqpacket::MAX_DESCRIPTORS,
    },
};

/// How long init may take from birth to confined. Emulated machines are slow; a live one needs milliseconds.
const CONFINE_LIMIT: Duration = Duration::from_secs(20);

/// What every launch of one warden shares.
#[derive(Debug)]
pub struct Context {
    /// Our own program, held open since the warden started.
    pub program: File,
    pub null: File,
    pub state: PathBuf,
    pub scaffold: PathBuf,
    pub parent: Parent,
    /// What its sandboxes stand on.
    pub ground: Ground,
    /// Whether the kernel's cgroup hooks see IPv4 and IPv6 sockets.
    pub inet_hooks: bool,
    /// Whether the kernel's cgroup hooks see unix sockets.
    pub unix_hooks: bool,
    /// Tells the security hooks of roots; none below tier T1.
    pub enroller: Option<Mutex<Enroller>>,
}

/// A request with what only the warden decides.
#[derive(Debug)]
pub struct Job {
    /// Of the sandbox: the session's, with the call's number where it is for one.
    pub name: String,
    pub request: Arc<LaunchRequest>,
    pub ids: Ids,
    /// What an earlier step of the session opened.
    pub held: Option<Arc<Held>>,
}

/// A sandbox that is complete, its child not yet started.
#[derive(Debug)]
pub struct Parked {
    pub cgroup: Sandbox,
    pub pid: i32,
    pub pidfd: OwnedFd,
    pub channel: Channel,
    pub listener: OwnedFd,
    /// Our ends of the child's stdin, stdout and stderr.
    pub pipes: [OwnedFd; 3],
    pub confinement: Confinement,
    pub roots: Vec<report::RootFacts>,
    pub protected: Vec<Octets>,
    /// How many names were found that should be read-only.
    pub pinned: usize,
    pub protection_incomplete: bool,
    pub grants: usize,
    /// What the security hooks know of it, at tier T1.
    pub enrolled: Option<Enrolled>,
    /// Why the hooks are not to be relied on all the same.
    pub doubt: Option<String>,
}

/// A launch that stops here is undone: the parked process killed, the cgroup removed.
struct Undo {
    cgroup: Option<Sandbox>,
    init: Option<i32>,
}

impl Drop for Undo {
    fn drop(&mut self) {
        let Some(cgroup) = self.cgroup.take() else { return };
        if let Err(error) = cgroup.destroy(Duration::from_secs(2)) {
            tracing::error!(error = %chain(&error), "cannot undo a launch");
        }
        if let Some(pid) = self.init {
            // Killed just now: no zombie stays.
            let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
        }
    }
}

/// The refusal for a failed step.
pub fn step_failed(step: &str, cause: impl std::fmt::Display) -> Refusal {
    Refusal::internal(
        format!("launch step `{step}` failed"),
        cause.to_string(),
        "nothing was started; run with GUARD_AGENT_LOG=debug, or see docs/troubleshooting.md for this step",
    )
}

fn step<T>(name: &'static str, work: impl FnOnce() -> io::Result<T>) -> Result<T, Refusal> {
    tracing::debug!(step = name, "launch");
    fault::point(name)
        .and_then(|()| work())
        .map_err(|error| step_failed(name, error))
}

/// Builds a sandbox up to the point where only the release is missing.
pub fn park(context: &Arc<Context>, job: &Job) -> Result<Parked, Refusal> {
    let request = &job.request;
    // 1. Ceilings before anything can use them up.
    step("launch.cgroup", || Ok(()))?;
    let cgroup = context
        .parent
        .sandbox(&job.name, &request.limits)
        .map_err(|error| step_failed("launch.cgroup", chain(&error)))?;
    let mut undo = Undo {
        cgroup: Some(cgroup),
        init: None,
    };
    // 2. What the child may use, opened with the child's own rights.
    step("launch.roots", || Ok(()))?;
    let (entries, facts) = open_all(context, job)?;
    // 3. Copies of the mounts, with their final attributes, attached nowhere yet. Without privilege init makes them,
    // in its own namespaces, and gets the objects to compare with.
    let host = request.view == View::Host && context.ground == Ground::Machine;
    let base = step("launch.mounts", || host.then(init::host_base).transpose())?;
    let trees = entries
        .iter()
        .map(|entry| match context.ground {
            Ground::Machine => detach(entry),
            Ground::UserNamespace | Ground::Bare => entry
                .object
                .try_clone()
                .map_err(|error| step_failed("launch.mounts", error)),
        })
        .collect::<Result<Vec<_>, Refusal>>()?;
    // 4. Born in its cgroup and its namespaces.
    let pipes = step("launch.pipes", Pipes::make)?;
    let (channel, theirs) = step("launch.channel", Channel::pair)?;
    let Some(cgroup) = &mut undo.cgroup else {
        return Err(step_failed("launch.clone", "no cgroup"));
    };
    let namespaces = match context.ground {
        Ground::Machine => SANDBOX_NAMESPACES,
        Ground::UserNamespace => USER_NAMESPACES,
        Ground::Bare => 0,
    };
    let born = step("launch.clone", || {
        let environment: Vec<CString> = fault::inherited()
            .and_then(|spec| CString::new(format!("GUARD_AGENT_FAULT={spec}")).ok())
            .into_iter()
            .collect();
        let image = Image {
            program: context.program.as_fd(),
            argv: &[CString::new(init::ROLE)?],
            environment: &environment,
            channel: theirs.as_fd(),
            null: context.null.as_fd(),
        };
        cgroup.birth(|cgroup| sys::clone::spawn(namespaces, cgroup, &image))
    })?;
    let scratch = cgroup.scratch().map(Octets::from);
    drop(theirs);
    tracing::debug!(
        sandbox = job.name,
        init = born.pid,
        mounts = entries.len(),
        "init is born"
    );
    undo.init = Some(born.pid);
    // 5. Init does the rest inside; it reports when it is as confined as the child will be.
    step("launch.setup", || Ok(()))?;
    let mut setup = setup(context, job, &entries);
    if let Some(directory) = &scratch {
        setup.environment.retain(|(name, _)| name.0 != b"TMPDIR");
        setup
            .environment
            .push((Octets::from("TMPDIR"), directory.clone()));
    }
    setup.scratch = scratch;
    let hooked = context.enroller.is_some() && request.tier != Some(Tier::T2);
    let rules = hooked.then(|| enrol::Rules::of(&setup, &entries)).transpose();
    let rules = rules.map_err(|error| step_failed("launch.enrol", error))?;
    send_setup(&channel, setup, base, trees, &pipes.theirs)
        .map_err(|error| step_failed("launch.setup", error))?;
    let (listener, confinement) = wait_confined(&channel)?;
    // 6. Believed only after a look from outside.
    step("launch.verify", || Ok(()))?;
    let seen = undo
        .cgroup
        .as_ref()
        .map(|cgroup| verify::verify(born.pid, &job.ids, context.ground, cgroup));
    let (Some(Ok(())), Some(cgroup)) = (&seen, undo.cgroup.take_if(|_| matches!(seen, Some(Ok(()))))) else {
        let cause = seen
            .and_then(Result::err)
            .map_or_else(|| "no cgroup".to_owned(), |error| error.to_string());
        return Err(step_failed("launch.verify", cause));
    };
    tracing::debug!(sandbox = job.name, "verified from outside");
    undo.cgroup = Some(cgroup);
    // 7. The security hooks learn what it may use; they decide for it from its release on.
    let enrolled = match (rules, &undo.cgroup) {
        (Some(rules), Some(cgroup)) => Some(step("launch.enrol", || {
            enrol::enrol(context, cgroup.id(), born.pid, rules)
        })?),
        _ => None,
    };
    let Some(cgroup) = undo.cgroup.take() else {
        return Err(step_failed("launch.enrol", "no cgroup"));
    };
    Ok(Parked {
        enrolled,
        cgroup,
        pid: born.pid,
        pidfd: born.pidfd,
        channel,
        listener,
        pipes: pipes.ours,
        confinement,
        roots: facts.roots,
        pinned: facts.protected.len(),
        protected: if context.ground == Ground::Bare {
            Vec::new()
        } else {
            facts.protected
        },
        protection_incomplete: facts.incomplete,
        grants: facts.grants,
        doubt: None,
    })
}

/// The child's three pipes, both ends.
struct Pipes {
    ours: [OwnedFd; 3],
    theirs: [OwnedFd; 3],
}

impl Pipes {
    fn make() -> io::Result<Self> {
        let pipe = || nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(io::Error::from);
        let (stdin, to_child) = pipe()?;
        let (from_child, stdout) = pipe()?;
        let (errors, stderr) = pipe()?;
        Ok(Self {
            ours: [to_child, from_child, errors],
            theirs: [stdin, stdout, stderr],
        })
    }
}

/// What the launch record says of the roots.
struct Facts {
    roots: Vec<report::RootFacts>,
    protected: Vec<Octets>,
    incomplete: bool,
    grants: usize,
}

/// Roots, grants and protected names, as the child's user reaches them, ordered into mounts.
fn open_all(context: &Context, job: &Job) -> Result<(Vec<Entry>, Facts), Refusal> {
    let request = &job.request;
    let Held { roots, grants } = match &job.held {
        Some(held) => held.again(context, job)?,
        None => hold(context, job)?,
    };
    // Looked for at every launch: an earlier sandbox of the session may have made one, or replaced it.
    let user = held::as_user(context, &job.ids)?;
    let mut protection = Protection::default();
    for (opened, rights) in &roots {
        if rights.write {
            protect::find(opened, &request.free_names, &mut protection).map_err(|error| {
                step_failed(
                    "launch.protected-names",
                    format!("`{}`: {error}", opened.path.display()),
                )
            })?;
        }
    }
    drop(user);
    let grants = view::needed(grants, &roots);
    let facts = Facts {
        roots: roots
            .iter()
            .map(|(opened, rights)| report::RootFacts::new(opened, *rights))
            .collect(),
        protected: protection
            .pinned
            .iter()
            .filter(|pinned| pinned.read_only)
            .map(|pinned| Octets::from(pinned.path.as_path()))
            .collect(),
        incomplete: protection.incomplete,
        grants: grants.len(),
    };
    let entries = view::entries(request.view, roots, grants, protection)
        .map_err(|error| step_failed("launch.roots", error))?;
    Ok((entries, facts))
}

fn detach(entry: &Entry) -> Result<OwnedFd, Refusal> {
    clone_tree(&entry.object, entry.recursive)
        .and_then(|tree| set_attributes(&tree, entry.attributes).map(|()| tree))
        .map_err(|error| step_failed("launch.mounts", format!("`{}`: {error}", entry.point.path)))
}

fn setup(context: &Context, job: &Job, entries: &[Entry]) -> Setup {
    let request = &job.request;
    let (name, home) = match &request.user {
        User::Account { name, home, .. } => (name.clone(), Some(home.clone())),
        User::Dynamic => ("sandbox".to_owned(), None),
    };
    let home = home.filter(|home| {
        let path = home.as_path();
        path.is_absolute()
            && path != Path::new("/")
            && view::private_tree(path).is_none()
            && !path.starts_with("/tmp")
    });
    let shown = home
        .as_ref()
        .map_or_else(|| "/tmp".to_owned(), ToString::to_string);
    let Ids { uid, gid, .. } = job.ids;
    let files = vec![
        (
            Octets::from("/etc/passwd"),
            format!(
                "root:x:0:0:root:/root:/usr/sbin/nologin\n{name}:x:{uid}:{gid}::{shown}:/bin/sh\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        (
            Octets::from("/etc/group"),
            format!("root:x:0:\n{name}:x:{gid}:\nnogroup:x:65534:\n"),
        ),
        (
            Octets::from("/etc/hosts"),
            "127.0.0.1 localhost\n::1 localhost\n".to_owned(),
        ),
        (
            Octets::from("/etc/nsswitch.conf"),
            "passwd: files\ngroup: files\nhosts: files\n".to_owned(),
        ),
        (Octets::from("/etc/resolv.conf"), "# no network\n".to_owned()),
    ];
    let mut directories = vec![request.directory.clone()];
    directories.extend(request.roots.iter().map(|root| root.path.clone()));
    let mounts = entries.iter().map(|entry| mount_point(context.ground, entry));
    Setup {
        ground: context.ground,
        scaffold: Octets::from(context.scaffold.as_path()),
        view: request.view,
        mounts: mounts.collect(),
        links: view::links(request.runtime.links.clone(), entries),
        files,
        home,
        tmp_bytes: request.limits.tmp,
        ids: job.ids.clone(),
        program: request.runtime.program.clone(),
        argv: request.runtime.argv.clone(),
        environment: request.environment.clone(),
        directories,
        // Where a cgroup holds the limit it also counts the refusals. One more than asked: init has the same uid.
        // Other processes of an account would count too, but not in a user namespace.
        processes: (report::counted_alone(context.ground, matches!(request.user, User::Dynamic))
            && context.parent.limits_unavailable().is_some())
        .then(|| u64::from(request.limits.pids) + 1),
        inet_sockets: context.inet_hooks,
        unix_sockets: context.unix_hooks,
        scratch: None,
    }
}

fn mount_point(ground: Ground, entry: &Entry) -> init::message::MountPoint {
    let source = (ground == Ground::UserNamespace).then(|| Source {
        path: Octets::from(entry.source.as_path()),
        attributes: entry.attributes,
        recursive: entry.recursive,
    });
    init::message::MountPoint {
        source,
        ..entry.point.clone()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what was sent is closed here")]
fn send_setup(
    channel: &Channel,
    setup: Setup,
    base: Option<OwnedFd>,
    trees: Vec<OwnedFd>,
    pipes: &[OwnedFd; 3],
) -> Result<(), String> {
    let descriptors: Vec<_> = base
        .iter()
        .chain(&trees)
        .chain(pipes)
        .map(|fd| fd.as_fd())
        .collect();
    let mut chunks = descriptors.chunks(MAX_DESCRIPTORS);
    let first = chunks.next().unwrap_or_default();
    let sent = channel.send(&ToInit::Setup(Box::new(setup)), first);
    sent.and_then(|()| chunks.try_for_each(|chunk| channel.send(&ToInit::Descriptors, chunk)))
        .map_err(|error| chain(&error))
}

/// Init's report, and the seccomp listener that comes before it.
fn wait_confined(channel: &Channel) -> Result<(OwnedFd, Confinement), Refusal> {
    let mut listener = None;
    loop {
        let (message, mut descriptors) = channel
            .receive_within::<FromInit>(CONFINE_LIMIT)
            .map_err(|error| step_failed("launch.init", format!("init did not report: {}", chain(&error))))?;
        match message {
            FromInit::Listener => listener = descriptors.pop(),
            FromInit::Ready(confinement) => {
                let listener = listener
                    .ok_or_else(|| step_failed("launch.init", "init is ready without a seccomp listener"))?;
                return Ok((listener, confinement));
            }
            FromInit::Failed { step, error } => return Err(step_failed(&step, error)),
            other => {
                return Err(step_failed(
                    "launch.init",
                    format!("unexpected message {other:?}"),
                ));
            }
        }
    }
}
