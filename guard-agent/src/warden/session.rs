//! One session: launch, record, release, watch, end, record. The order of the record and the act is the point:
//! a launch is on disk before its first instruction, an exit before the client hears of it.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd as _, OwnedFd},
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    cgroup::{Counters, Sandbox},
    denials::{Denial, Denials},
    kernel::NetEvent,
    launch::{Job, Parked, report, step_failed},
    registry,
    serve::Warden,
    trails::{Trails, write},
};
use crate::{
    audit::{AuditHandle, Body, Exit, Gap, GapKind, Launch, LaunchUser, Number, ResourceUse},
    confine::notify::Listener,
    fault,
    init::message::{FromInit, Ids, ToInit},
    link::{
        asynchronous::AsyncLink,
        channel::ChannelError,
        message::{Exited, FromWarden, LaunchRequest, Launched, ToWarden, User},
    },
    octets::Octets,
    refusal::{Refusal, chain},
    sys,
};

/// How long `execve` may take once released.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a killed sandbox may take to be gone before the log says so.
const DEATH_LIMIT: Duration = Duration::from_secs(5);
/// Before the second try to write an exit.
const RETRY: Duration = Duration::from_millis(150);
/// Notifications answered in one turn. A server that makes them faster than they are answered must not keep the one
/// thread from its gateway's word, from other sessions and from the end.
const TURN: usize = 64;
/// After a full turn others go first; the callers wait in the kernel.
const BREATH: Duration = Duration::from_millis(2);
/// How often collapsed denials become records.
const FLUSH: Duration = Duration::from_secs(1);

/// Uids for children and gateways. No account lies here (it is above every range that distributions and
/// systemd assign), and a number is drawn anew for each session, so none is shared or soon reused.
const DYNAMIC_BASE: u32 = 2_100_000_000;
const DYNAMIC_SPAN: u32 = 40_000_000;

fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| step_failed("launch.random", error))?;
    Ok(bytes)
}

fn dynamic_uid() -> Result<u32, Refusal> {
    Ok(DYNAMIC_BASE + u32::from_ne_bytes(random()?) % DYNAMIC_SPAN)
}

fn ids(user: &User) -> Result<Ids, Refusal> {
    let ids = match user {
        User::Account { uid, gid, groups, .. } => Ids {
            uid: *uid,
            gid: *gid,
            groups: groups.clone(),
        },
        User::Dynamic => {
            let id = dynamic_uid()?;
            Ids {
                uid: id,
                gid: id,
                groups: Vec::new(),
            }
        }
    };
    // Checked where it counts, whatever the gateway sent.
    if ids.uid == 0 || ids.gid == 0 || ids.groups.contains(&0) {
        return Err(Refusal::usage(
            "cannot launch as root",
            "a contained server never has uid or gid 0",
            "name a user with `--user NAME`, or leave it out for an unprivileged one",
        ));
    }
    Ok(ids)
}

/// The whole session. An error means that nothing was started and nothing is left.
pub(super) async fn run(
    warden: &Rc<Warden>,
    link: &mut AsyncLink,
    request: LaunchRequest,
) -> Result<Exited, Refusal> {
    let audit = request.audit.to_path_buf();
    if !audit.is_absolute() {
        return Err(Refusal::usage(
            format!("cannot use audit directory `{}`", request.audit),
            "it is not an absolute path",
            "name it from `/` on",
        ));
    }
    let trail = warden.trails.acquire(&audit).await?;
    let result = with_trail(warden, link, request, &trail).await;
    Trails::release(warden, &audit).await;
    result
}

async fn with_trail(
    warden: &Rc<Warden>,
    link: &mut AsyncLink,
    request: LaunchRequest,
    trail: &AuditHandle,
) -> Result<Exited, Refusal> {
    let state = &warden.context.state;
    let session: String = random::<6>()?
        .iter()
        .fold("s-".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    let mut entry = registry::Entry {
        session: session.clone(),
        server: request.server.clone(),
        cgroup: Octets::from(warden.context.parent.path().join(&session)),
        audit: request.audit.clone(),
        started_us: jiff::Timestamp::now().as_microsecond(),
        launched: false,
    };
    let registered = |entry: &registry::Entry| {
        fault::point("launch.register")
            .and_then(|()| registry::write(state, entry))
            .map_err(|error| step_failed("launch.register", error))
    };
    registered(&entry)?;
    let unregister = || {
        if let Err(error) = registry::remove(state, &session) {
            tracing::error!(session, %error, "cannot remove the session file");
        }
    };
    let ids = ids(&request.user)?;
    let job = Job {
        session: session.clone(),
        request: request.clone(),
        ids: ids.clone(),
    };
    let parked = match warden.launcher.park(job).await {
        Ok(parked) => parked,
        Err(refusal) => {
            unregister();
            return Err(refusal);
        }
    };
    entry.launched = true;
    if let Err(refusal) = registered(&entry) {
        parked.abandon();
        unregister();
        return Err(refusal);
    }
    let (result, told) = live(warden, link, &request, &ids, parked, &session, trail).await;
    match told {
        Told::Everything => unregister(),
        Told::ExitOwed => tracing::error!(session, "its end is not on record; the next warden writes it"),
    }
    result
}

/// Whether the trail knows of a session's end. If not, its session file stays for the next warden.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Everything,
    ExitOwed,
}

/// From parked to gone.
async fn live(
    warden: &Rc<Warden>,
    link: &mut AsyncLink,
    request: &LaunchRequest,
    ids: &Ids,
    parked: Parked,
    session: &str,
    trail: &AuditHandle,
) -> (Result<Exited, Refusal>, Told) {
    let facets = report::facets(&parked, &warden.facts);
    let record = launch_record(warden, request, ids, &parked, session, &facets);
    let allowed = report::require(request, &facets)
        .and_then(|()| fault::point("launch.record").map_err(|error| step_failed("launch.record", error)));
    if let Err(refusal) = allowed {
        parked.abandon();
        return (Err(refusal), Told::Everything);
    }
    if let Err(error) = write(trail, Body::Launch(Box::new(record))).await {
        parked.abandon();
        // It may stand in the trail all the same, unsynced; then its end must too.
        let end = End::not_started(&error);
        let told = record_end(
            trail,
            vec![end.record(session, &request.server, Duration::ZERO, None)],
            session,
            1,
        )
        .await;
        return (Err(error.refusal()), told);
    }
    let mut running = match Running::new(warden, parked, session, request) {
        Ok(running) => running,
        Err((error, parked)) => {
            parked.abandon();
            let end = End::not_started(&error).record(session, &request.server, Duration::ZERO, None);
            return (
                Err(step_failed("launch.watch", error)),
                record_end(trail, vec![end], session, 0).await,
            );
        }
    };
    let started = running.start().await;
    let (handed, end) = match &started {
        Err(refusal) => (
            false,
            End {
                reason: "not-started",
                cause: Some(refusal.why.clone()),
                ..End::default()
            },
        ),
        Ok(()) => match running.hand_over(link, &facets).await {
            Ok(()) => (true, running.watch(warden, link, trail).await),
            Err(refusal) => {
                record_gateway_death(trail, session).await;
                (
                    false,
                    End::killed(&format!("gateway: it ended during the launch: {}", refusal.why)),
                )
            }
        },
    };
    let (exited, told) = running.finish(warden, trail, end).await;
    let result = match started {
        Ok(()) if handed => Ok(exited),
        Ok(()) => Err(step_failed("launch.hand-over", "the gateway is gone")),
        Err(refusal) => Err(refusal),
    };
    (result, told)
}

/// Writes the last records of a session. `lost` were not written before; what cannot be written is counted.
async fn record_end(trail: &AuditHandle, records: Vec<Body>, session: &str, lost: u64) -> Told {
    record_lost(trail, session, lost).await;
    let (mut told, mut lost) = (Told::ExitOwed, 0);
    for record in records {
        let is_exit = matches!(record, Body::Exit(_));
        let mut written = append(trail, record.clone()).await;
        if written.is_err() && is_exit {
            // A trail whose disk was busy or full a moment ago tries again by itself; so does the exit.
            sleep(RETRY).await;
            lost += 1;
            written = append(trail, record).await;
        }
        match written {
            Ok(()) if is_exit => told = Told::Everything,
            Ok(()) => {}
            Err(error) => {
                lost += u64::from(!is_exit);
                tracing::error!(session, error, "cannot write a record");
            }
        }
    }
    record_lost(trail, session, lost).await;
    told
}

async fn record_lost(trail: &AuditHandle, session: &str, lost: u64) {
    let gap = Gap::counted(Some(session.to_owned()), GapKind::WriteFailed, lost);
    if lost > 0
        && let Err(error) = write(trail, Body::Gap(gap)).await
    {
        tracing::error!(session, error = %chain(&error), "cannot write a record");
    }
}

async fn record_gateway_death(trail: &AuditHandle, session: &str) {
    let gap = Gap::unknown(Some(session.to_owned()), GapKind::GatewayDied);
    if let Err(error) = write(trail, Body::Gap(gap)).await {
        tracing::error!(session, error = %chain(&error), "cannot write a record");
    }
}

async fn append(trail: &AuditHandle, record: Body) -> Result<(), String> {
    fault::point("exit.record").map_err(|error| error.to_string())?;
    write(trail, record).await.map_err(|error| chain(&error))
}

fn launch_record(
    warden: &Warden,
    request: &LaunchRequest,
    ids: &Ids,
    parked: &Parked,
    session: &str,
    facets: &report::Facets,
) -> Launch {
    let (name, dynamic) = match &request.user {
        User::Account { name, .. } => (Some(name.clone()), false),
        User::Dynamic => (None, true),
    };
    Launch {
        session: session.to_owned(),
        server: request.server.clone(),
        command: request.runtime.argv.clone(),
        user: LaunchUser {
            name,
            uid: ids.uid,
            gid: ids.gid,
            dynamic,
        },
        tier: TIER.to_owned(),
        enforcement: facets.clone(),
        require: request.require.clone(),
        allow_unenforced: request.allow_unenforced,
        policy_hash: request.policy_hash.clone(),
        roots: parked.roots.iter().map(report::RootFacts::record).collect(),
        protected: parked.protected.clone(),
        environment: request.environment.iter().map(|(name, _)| name.clone()).collect(),
        view: request.view,
        limits: (&request.limits).into(),
        resources: report::resources(&warden.facts, dynamic),
        observation: "cgroup-bpf+seccomp".to_owned(),
        kernel_release: warden.facts.release.clone(),
        landlock_abi: parked.confinement.landlock_abi,
        grants: u32::try_from(parked.grants).unwrap_or(u32::MAX),
    }
}

/// The tier this build gives: root, no BPF LSM.
const TIER: &str = "T2";

/// Why a sandbox ends, as far as it is known.
#[derive(Default)]
struct End {
    reason: &'static str,
    code: Option<i32>,
    signal: Option<i32>,
    cause: Option<String>,
}

impl End {
    fn not_started(error: &dyn std::error::Error) -> Self {
        Self {
            reason: "not-started",
            cause: Some(chain(error)),
            ..Self::default()
        }
    }

    fn killed(cause: &str) -> Self {
        Self {
            reason: "killed",
            signal: Some(libc::SIGKILL),
            cause: Some(cause.to_owned()),
            ..Self::default()
        }
    }

    fn record(&self, session: &str, server: &str, lived: Duration, resources: Option<ResourceUse>) -> Body {
        Body::Exit(Box::new(Exit {
            session: session.to_owned(),
            server: server.to_owned(),
            reason: self.reason.to_owned(),
            code: self.code,
            signal: self.signal,
            duration_us: Number(u64::try_from(lived.as_micros()).unwrap_or(u64::MAX)),
            resources,
            stderr_tail: None,
            cause: self.cause.clone(),
        }))
    }
}

/// A sandbox whose child was, or is about to be, released.
struct Running {
    session: String,
    server: String,
    started: Instant,
    cgroup: Sandbox,
    pid: i32,
    pidfd: AsyncFd<OwnedFd>,
    init: AsyncLink,
    notifications: AsyncFd<Listener>,
    events: mpsc::Receiver<NetEvent>,
    denials: Denials,
    /// Our ends of the child's pipes until the gateway has them.
    pipes: Option<[OwnedFd; 3]>,
}

impl Running {
    fn new(
        warden: &Warden,
        parked: Parked,
        session: &str,
        request: &LaunchRequest,
    ) -> Result<Self, (io::Error, Box<Parked>)> {
        // Duplicates, so that on failure the parked sandbox is still whole.
        let watch = || -> io::Result<_> {
            let pidfd = sys::ready::watch(parked.pidfd.try_clone()?, Interest::READABLE)?;
            let init = AsyncLink::new(parked.channel.as_fd().try_clone_to_owned()?)?;
            let listener = Listener::new(parked.listener.try_clone()?)?;
            Ok((pidfd, init, sys::ready::watch(listener, Interest::READABLE)?))
        };
        let (pidfd, init, notifications) = match watch() {
            Ok(watched) => watched,
            Err(error) => return Err((error, Box::new(parked))),
        };
        Ok(Self {
            session: session.to_owned(),
            server: request.server.clone(),
            started: Instant::now(),
            events: warden.route(parked.cgroup.id()),
            cgroup: parked.cgroup,
            pid: parked.pid,
            pidfd,
            init,
            notifications,
            denials: Denials::new(session, &request.server),
            pipes: Some(parked.pipes),
        })
    }

    /// The child's first instruction runs after this, or never.
    async fn start(&mut self) -> Result<(), Refusal> {
        let failed = |error: &ChannelError| step_failed("launch.release", chain(error));
        fault::point("launch.release").map_err(|error| step_failed("launch.release", error))?;
        self.init
            .send(&ToInit::Release, &[])
            .await
            .map_err(|error| failed(&error))?;
        let answer = timeout(START_LIMIT, self.init.receive::<FromInit>())
            .await
            .map_err(|_| failed(&ChannelError::Timeout))?
            .map_err(|error| failed(&error))?;
        match answer.0 {
            FromInit::Started => Ok(()),
            FromInit::NotExecuted { errno } => Err(not_executed(&self.server, errno)),
            FromInit::Failed { step, error } => Err(step_failed(&step, error)),
            other => Err(step_failed(
                "launch.release",
                format!("unexpected message {other:?}"),
            )),
        }
    }

    /// The gateway gets the child's pipes. It may have died since it asked.
    async fn hand_over(&mut self, link: &AsyncLink, facets: &report::Facets) -> Result<(), Refusal> {
        let launched = Launched {
            session: self.session.clone(),
            tier: TIER.to_owned(),
            not_enforced: report::not_enforced(facets),
            gateway_uid: dynamic_uid()?,
        };
        let pipes = self
            .pipes
            .take()
            .ok_or_else(|| step_failed("launch.hand-over", "handed over twice"))?;
        let descriptors: Vec<_> = pipes.iter().map(|fd| fd.as_fd()).collect();
        let sent = link.send(&FromWarden::Launched(launched), &descriptors).await;
        sent.map_err(|error| step_failed("launch.hand-over", chain(&error)))
    }

    /// Until the child, its init, the gateway or the warden ends it.
    async fn watch(&mut self, warden: &Warden, link: &mut AsyncLink, trail: &AuditHandle) -> End {
        let mut stop = warden.stop.clone();
        let mut flush = interval(FLUSH);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let killed = End::killed;
        let mut flooded = false;
        loop {
            if std::mem::take(&mut flooded) {
                sleep(BREATH).await;
            }
            // In this order: a server that floods us with refused attempts must not keep us from hearing that it is
            // to be ended. What it can make come last.
            let records = tokio::select! {
                biased;
                stopped = stop.wait_for(Option::is_some) => {
                    return killed(stopped.ok().and_then(|cause| *cause).unwrap_or("warden: it ends"));
                }
                message = self.init.receive::<FromInit>() => match message {
                    Ok((FromInit::Exited { code, signal }, _)) => {
                        let reason = if signal.is_some() { "signaled" } else { "exited" };
                        return End { reason, code, signal, cause: None };
                    }
                    Ok((FromInit::Failed { step, error }, _)) => {
                        return End { reason: "init-failed", code: None, signal: None, cause: Some(format!("`{step}`: {error}")) };
                    }
                    Ok(_) | Err(_) => return End { reason: "init-died", code: None, signal: None, cause: None },
                },
                _ = self.pidfd.readable() => {
                    return End { reason: "init-died", code: None, signal: None, cause: None };
                }
                message = link.receive::<ToWarden>() => match message {
                    Ok((ToWarden::Terminate, _)) => {
                        // A dead init is seen by the branch above.
                        let _ = self.init.send(&ToInit::Terminate, &[]).await;
                        Vec::new()
                    }
                    Ok((ToWarden::Kill, _)) => return killed("gateway: it asked to"),
                    Ok(_) => return killed("gateway: it broke the protocol"),
                    Err(_) => {
                        record_gateway_death(trail, &self.session).await;
                        return killed("gateway: it ended before its server");
                    }
                },
                _ = flush.tick() => self.denials.flush(),
                Some(event) = self.events.recv() => self.denials.add(denial_of(&event)).into_iter().collect(),
                // Last: a hostile server makes it always ready.
                notified = notifications(&self.notifications) => match notified {
                    Ok(denials) => {
                        flooded = denials.len() >= TURN;
                        denials.into_iter().filter_map(|denial| self.denials.add(denial)).collect()
                    }
                    Err(error) => {
                        tracing::error!(session = self.session, %error, "seccomp notifications cannot be read");
                        return killed("warden: seccomp notifications cannot be read");
                    }
                },
            };
            for record in records {
                if let Err(error) = write(trail, record).await {
                    // What cannot be recorded is not allowed to go on.
                    tracing::error!(session = self.session, error = %chain(&error), "cannot write a record");
                    return killed("warden: the audit cannot be written");
                }
            }
        }
    }

    /// Everything dead, counted, recorded, removed.
    async fn finish(mut self, warden: &Warden, trail: &AuditHandle, mut end: End) -> (Exited, Told) {
        self.die().await;
        let counters = self.cgroup.counters();
        if out_of_memory(&counters) && end.code.is_none() {
            end.reason = "out-of-memory";
            end.signal = Some(libc::SIGKILL);
        }
        // The barrier: what the kernel reported before the last task died is in the ring by now.
        warden.drain_events().await;
        let overflow = warden.unroute(self.cgroup.id());
        let mut records: Vec<Body> = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            records.extend(self.denials.add(denial_of(&event)));
        }
        records.extend(self.denials.finish());
        if overflow > 0 {
            records.push(Body::Gap(Gap::counted(
                Some(self.session.clone()),
                GapKind::OverBudget,
                overflow,
            )));
        }
        if let Err(error) = self.remove().await {
            tracing::error!(session = self.session, %error, "cannot remove the cgroup");
        }
        records.push(end.record(
            &self.session,
            &self.server,
            self.started.elapsed(),
            Some(resource_use(&counters)),
        ));
        let told = record_end(trail, records, &self.session, 0).await;
        (
            Exited {
                reason: end.reason.to_owned(),
                code: end.code,
                signal: end.signal,
            },
            told,
        )
    }

    /// Kills the sandbox and waits until its last task is gone.
    async fn die(&mut self) {
        if let Err(error) = self.cgroup.kill() {
            tracing::error!(session = self.session, %error, "cgroup.kill failed; killing init alone");
            let _ = sys::process::pidfd_kill(self.pidfd.get_ref(), libc::SIGKILL);
        }
        if timeout(DEATH_LIMIT, self.pidfd.readable()).await.is_err() {
            tracing::error!(
                session = self.session,
                "the sandbox does not die; a task may be in uninterruptible sleep"
            );
            return;
        }
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(self.pid), None);
    }

    async fn remove(&self) -> io::Result<()> {
        let start = Instant::now();
        loop {
            if self.cgroup.is_empty() {
                match self.cgroup.remove() {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                    other => return other,
                }
            }
            if start.elapsed() > DEATH_LIMIT {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Parked {
    /// Undoes a launch whose child was never released. Blocks for the milliseconds a kill takes.
    pub(super) fn abandon(self) {
        if let Err(error) = super::cgroup::destroy(self.cgroup.path(), Duration::from_secs(2)) {
            tracing::error!(error = %chain(&error), "cannot undo a launch");
        }
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(self.pid), None);
    }
}

fn not_executed(server: &str, errno: i32) -> Refusal {
    let error = io::Error::from_raw_os_error(errno);
    Refusal::usage(
        format!("cannot execute the command of `{server}` in its sandbox"),
        error.to_string(),
        "check that its interpreter and libraries are among the roots, or choose another `--runtime`",
    )
}

fn out_of_memory(counters: &Counters) -> bool {
    counters.get("memory_events").is_some_and(|events| {
        ["oom_kill", "oom_group_kill"]
            .iter()
            .any(|name| events.get(*name).is_some_and(|count| *count > 0))
    })
}

fn resource_use(counters: &Counters) -> ResourceUse {
    let get = |name: &str| -> BTreeMap<String, Number> {
        counters
            .get(name)
            .map(|values| {
                values
                    .iter()
                    .map(|(key, value)| (key.clone(), Number(*value)))
                    .collect()
            })
            .unwrap_or_default()
    };
    ResourceUse {
        memory_events: get("memory_events"),
        pids_events: get("pids_events"),
        cpu_stat: get("cpu_stat"),
    }
}

/// Takes what is pending (at most a turn's worth), refuses each, and tells what it was. Never ends without a denial
/// or an error.
async fn notifications(listener: &AsyncFd<Listener>) -> io::Result<Vec<Denial>> {
    loop {
        let mut ready = listener.readable().await?;
        let mut denials = Vec::new();
        while denials.len() < TURN
            && let Some(notification) = listener.get_ref().recv()?
        {
            let denied = crate::confine::notify::describe(&notification);
            listener.get_ref().deny(notification.id, denied.errno)?;
            denials.push(super::denials::of_notification(&notification, denied));
        }
        // After a full turn there may be more: it stays ready.
        if denials.len() < TURN {
            ready.clear_ready();
        }
        if !denials.is_empty() {
            return Ok(denials);
        }
        // A hang-up stays readable for ever: the last task is gone, and its end comes by another descriptor.
        if listener.get_ref().is_over()? {
            return std::future::pending().await;
        }
    }
}

fn denial_of(event: &NetEvent) -> Denial {
    super::denials::of_event(event)
}
