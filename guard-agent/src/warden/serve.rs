//! The warden's event loop: connections in, kernel events in, one task a session, leave when idle.

use std::{
    cell::Cell,
    io::{self, Write as _},
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    path::PathBuf,
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::{
        Interest,
        unix::{AsyncFd, AsyncFdReadyGuard},
    },
    sync::{Notify, watch},
    task::LocalSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    events::Ring,
    hold::Parent,
    launch::{Context, report::KernelFacts},
    launcher::Launcher,
    session, start, state,
    trails::Trails,
};
use crate::{
    audit::{Body, Gap, GapKind},
    exit::ExitStatus,
    fault,
    link::{
        asynchronous::AsyncLink,
        channel::ChannelError,
        message::{FromWarden, ToWarden, VERSION},
    },
    refusal::{Refusal, chain},
    sys,
};

/// How long a connection may take to say what it wants.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// How long a session's end may wait for its last events; what is not read by then is counted.
const SETTLE: Duration = Duration::from_secs(10);

/// How long the first connection may take, however short the idle time is.
const FIRST: Duration = Duration::from_millis(500);

/// A launch holds two descriptors a mount, a session about ten.
const MOST_FILES: u64 = 1 << 16;

#[derive(Debug, Clone)]
pub struct Args {
    pub state: PathBuf,
    /// Leave after this long without a session or a connection.
    pub idle: Duration,
    /// Whether tier T1 is used where the machine has it.
    pub hooks: bool,
}

/// What all tasks share. One thread, so no locks.
pub(super) struct Warden {
    pub(super) context: std::sync::Arc<Context>,
    pub(super) facts: KernelFacts,
    pub(super) launcher: Launcher,
    pub(super) trails: Trails,
    pub(super) ring: Ring,
    pub(super) stop: watch::Receiver<Option<&'static str>>,
    busy: Cell<usize>,
    idle: Notify,
}

/// The role's whole life. `ready` is told once: an empty line, or a refusal as JSON.
pub fn main(args: &Args) -> ExitStatus {
    let mut ready = io::stdout();
    if let Err(error) = stand_alone() {
        let refusal = Refusal::internal(
            "cannot start the warden",
            error.to_string(),
            "report this with the kernel's version",
        );
        let _ = writeln!(ready, "{}", serde_json::to_string(&refusal).unwrap_or_default());
        return refusal.exit;
    }
    let started = match start::start(&args.state, args.hooks) {
        Ok(Some(started)) => started,
        Ok(None) => {
            let _ = writeln!(ready, "{}", state::TAKEN);
            return ExitStatus::Ok;
        }
        Err(refusal) => {
            tracing::error!(%refusal, "cannot start");
            let text = serde_json::to_string(&refusal).unwrap_or_default();
            let _ = writeln!(ready, "{text}");
            return refusal.exit;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let refusal = Refusal::internal(
                "cannot start the warden",
                error.to_string(),
                "look at the system's limits",
            );
            let _ = writeln!(ready, "{}", serde_json::to_string(&refusal).unwrap_or_default());
            return ExitStatus::Internal;
        }
    };
    let _ = ready.write_all(b"\n").and_then(|()| ready.flush());
    silence_stdout();
    // The start has read the kernel's types and loaded programs; none of that is needed again.
    sys::process::give_memory_back();
    let result = LocalSet::new().block_on(&runtime, run(args, started));
    match result {
        Ok(()) => ExitStatus::Ok,
        Err(error) => {
            tracing::error!(%error, "warden failed");
            ExitStatus::Internal
        }
    }
}

/// The warden outlives the `run` that started it and serves others: nothing of the starter's may stay with it.
fn stand_alone() -> io::Result<()> {
    // A group of its own: what is sent to the starter's group does not reach the warden.
    let _ = nix::unistd::setsid();
    // Descriptors the starter inherited from its client: whoever waits for their end would wait for ours.
    sys::process::close_from(3)?;
    // Where it has its servers' uid: none of them reads it, whatever else fails.
    sys::process::not_dumpable()?;
    nix::sys::signal::SigSet::empty().thread_set_mask()?;
    lift_limits()?;
    // Directories of the views must be passable for the server's user, whatever the starter's mask is.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_retain(0o022));
    Ok(())
}

/// Limits of the starter that would end the warden, or its trails' writes, in the middle of others' sessions.
fn lift_limits() -> io::Result<()> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
    for (limit, flag) in [
        (Resource::RLIMIT_FSIZE, 'f'),
        (Resource::RLIMIT_CPU, 't'),
        (Resource::RLIMIT_AS, 'v'),
        (Resource::RLIMIT_DATA, 'd'),
    ] {
        let (soft, most) = getrlimit(limit)?;
        if !nix::unistd::geteuid().is_root() {
            // It serves this user alone, who may have set them for all of theirs.
            setrlimit(limit, most, most)?;
            continue;
        }
        if (soft, most) != (RLIM_INFINITY, RLIM_INFINITY)
            && setrlimit(limit, RLIM_INFINITY, RLIM_INFINITY).is_err()
        {
            return Err(io::Error::other(format!(
                "root may not lift the limit that `ulimit -{flag}` shows; start it without that limit"
            )));
        }
    }
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = most.max(MOST_FILES);
    if setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_err() {
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    }
    Ok(())
}

/// The starter waits for the end of our stdout; the log is elsewhere from here on.
fn silence_stdout() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(&null);
    }
}

async fn run(args: &Args, started: start::Started) -> io::Result<()> {
    let start::Started {
        context,
        programs,
        reaper,
        listener,
        facts,
        lock,
    } = started;
    let (stop, stopped) = watch::channel(None);
    let (mut ring, mut watched) = (Ring::default(), None);
    if let Some(mut programs) = programs {
        let events = programs
            .take_events()
            .ok_or_else(|| io::Error::other("the ring is taken"))?;
        watched = Some(sys::ready::watch(programs.ring_fd()?, Interest::READABLE)?);
        ring = Ring::new(programs, events);
    }
    let warden = Rc::new(Warden {
        launcher: Launcher::start(context.clone())?,
        context,
        facts,
        trails: Trails::default(),
        ring,
        stop: stopped,
        busy: Cell::new(0),
        idle: Notify::new(),
    });
    let listener = sys::ready::watch(listener, Interest::READABLE)?;
    let reaper_fd = sys::ready::watch(reaper.pidfd.try_clone()?, Interest::READABLE)?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    // Whoever started this warden comes at once, but perhaps not as soon as a short idle time is over.
    let mut idle_since = Instant::now() + FIRST.saturating_sub(args.idle);
    let cause = loop {
        let idle_end = if warden.busy.get() == 0 {
            idle_since + args.idle
        } else {
            Instant::now() + args.idle
        };
        tokio::select! {
            accepted = accept(&listener) => {
                match accepted {
                    Ok(socket) => {
                        warden.busy.set(warden.busy.get() + 1);
                        tokio::task::spawn_local(connection(warden.clone(), socket));
                    }
                    Err(error) => tracing::warn!(%error, "cannot accept a connection"),
                }
            }
            ready = readable(watched.as_ref()) => {
                let mut ready = ready?;
                if warden.drain_events().await {
                    // As fast as it is read it is filled: others go first.
                    tokio::task::yield_now().await;
                } else {
                    ready.clear_ready();
                }
            }
            _ = reaper_fd.readable() => break "reaper: it died",
            _ = terminate.recv() => break "warden: it was told to end",
            () = warden.idle.notified() => idle_since = Instant::now(),
            () = sleep_until(idle_end), if warden.busy.get() == 0 => break "",
        }
    };
    // No new work: whoever connected and was not heard tries again with the next warden.
    let _ = std::fs::remove_file(warden.context.state.join(state::SOCKET));
    drop(listener);
    if !cause.is_empty() {
        tracing::warn!(cause, "ending all sessions");
        let _ = stop.send(Some(cause));
        while warden.busy.get() > 0 {
            if timeout(Duration::from_secs(10), warden.idle.notified())
                .await
                .is_err()
            {
                tracing::error!(sessions = warden.busy.get(), "sessions did not end in time");
                break;
            }
        }
    }
    warden.trails.close_all().await;
    leave(&warden.context.parent, &reaper);
    drop(lock);
    Ok(())
}

/// Readiness of the kernel's ring, where there is one.
async fn readable(ring: Option<&AsyncFd<OwnedFd>>) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
    match ring {
        Some(ring) => ring.readable().await,
        None => std::future::pending().await,
    }
}

/// The cgroup first. The reaper is told to go only when there is nothing left for it: until then this process may
/// die, and what did not end in order is the reaper's to end.
fn leave(parent: &Parent, reaper: &sys::clone::Born) {
    if let Err(error) = fault::point("warden.leave").and_then(|()| parent.remove()) {
        tracing::error!(path = %parent.path().display(), %error, "cannot remove the sandboxes' cgroup; the reaper does");
        return;
    }
    let _ = sys::process::pidfd_kill(&reaper.pidfd, libc::SIGKILL);
    let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(reaper.pid), None);
}

async fn accept(listener: &AsyncFd<OwnedFd>) -> io::Result<OwnedFd> {
    use nix::sys::socket::{SockFlag, accept4};
    loop {
        let mut ready = listener.readable().await?;
        match accept4(listener.get_ref().as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            Ok(fd) => return Ok(sys::process::adopt(fd)),
            Err(nix::Error::EWOULDBLOCK) => ready.clear_ready(),
            Err(nix::Error::EINTR | nix::Error::ECONNABORTED) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// One connection: who it is, what it wants, the session, its end.
async fn connection(warden: Rc<Warden>, socket: OwnedFd) {
    if let Err(error) = converse(&warden, socket).await {
        tracing::info!(error = %chain(&error), "connection ended early");
    }
    warden.busy.set(warden.busy.get().saturating_sub(1));
    warden.idle.notify_waiters();
    // `notify_waiters` wakes only those who wait now; the permit is for the loop that is elsewhere.
    warden.idle.notify_one();
}

async fn converse(warden: &Rc<Warden>, socket: OwnedFd) -> Result<(), ChannelError> {
    if !start::peer_is_ours(&socket.as_fd()) {
        tracing::warn!("refused a connection of another user");
        return Ok(());
    }
    let mut link = AsyncLink::new(socket).map_err(ChannelError::Receive)?;
    let (hello, _) = timeout(HELLO_LIMIT, link.receive::<ToWarden>())
        .await
        .map_err(|_| ChannelError::Timeout)??;
    let ToWarden::Hello { link: version, build } = hello else {
        return link
            .send(&refuse_protocol("the first message is not a hello"), &[])
            .await;
    };
    if (version, build.as_str()) != (VERSION, crate::BUILD) {
        return link.send(&other_build(version, &build), &[]).await;
    }
    link.send(
        &FromWarden::Welcome {
            link: VERSION,
            build: crate::BUILD.into(),
            files: state::files().map_err(ChannelError::Receive)?,
        },
        &[],
    )
    .await?;
    let (launch, _) = timeout(HELLO_LIMIT, link.receive::<ToWarden>())
        .await
        .map_err(|_| ChannelError::Timeout)??;
    let ToWarden::Launch(request) = launch else {
        return link
            .send(
                &refuse_protocol("the second message is not a launch request"),
                &[],
            )
            .await;
    };
    match session::run(warden, &mut link, *request).await {
        Ok(exited) => link.send(&FromWarden::Exited(exited), &[]).await,
        Err(refusal) => {
            tracing::warn!(%refusal, "launch refused");
            link.send(&FromWarden::Refused(refusal), &[]).await
        }
    }
}

fn refuse_protocol(why: &str) -> FromWarden {
    FromWarden::Refused(Refusal::internal(
        "cannot talk with this client",
        why,
        "use one build of guard-agent throughout",
    ))
}

fn other_build(version: u32, build: &str) -> FromWarden {
    FromWarden::Refused(Refusal::usage(
        "cannot use the running warden",
        format!(
            "it is build `{}` with link version {VERSION}, this program is build `{build}` with link version {version}",
            crate::BUILD
        ),
        "end the sessions of the other build, or give this run a state directory of its own with `--state`",
    ))
}

impl Warden {
    /// Takes out of the ring what it holds, for a moment, and says what it had no room for and belongs to no sandbox.
    /// `true`: there is more.
    pub(super) async fn drain_events(&self) -> bool {
        let more = self.ring.drain();
        let lost = self.ring.stray_losses();
        if lost > 0 {
            let gap = Gap::counted(None, GapKind::RingFull, lost);
            self.trails.broadcast(&Body::Gap(gap)).await;
        }
        more
    }

    /// The barrier of a sandbox whose last task is gone: what it reported before is in the ring, and is read.
    pub(super) async fn settle_events(&self, slot: u32) {
        let (since, until) = (self.ring.consumed(), Instant::now() + SETTLE);
        loop {
            let more = self.drain_events().await;
            if self.ring.is_settled(slot, since) || Instant::now() > until {
                return;
            }
            if more {
                tokio::task::yield_now().await;
            } else {
                // Another task's record, begun and not complete, stands before the rest: a moment's work.
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
}
