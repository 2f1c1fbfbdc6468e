//! A sandbox from its release to the death of its last task: started, handed over, watched, ended, counted.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    cgroup::Sandbox,
    denials::{Denial, Denials},
    ending::{End, Told, out_of_memory, record_end, record_gateway_death, resource_use},
    kernel::NetEvent,
    launch::{Parked, report, step_failed},
    refused::Refused,
    serve::Warden,
    session::{TIER, dynamic_uid},
    trails::write,
};
use crate::{
    audit::{AuditHandle, Body, Gap, GapKind},
    confine::notify::Listener,
    fault,
    init::message::{FromInit, ToInit},
    link::{
        asynchronous::AsyncLink,
        channel::ChannelError,
        message::{Exited, FromWarden, LaunchRequest, Launched, ToWarden},
    },
    octets::Octets,
    refusal::{Refusal, chain},
    runtime::Culprit,
    sys,
};

/// How long `execve` may take once released.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a killed sandbox may take to be gone before the log says so.
const DEATH_LIMIT: Duration = Duration::from_secs(5);
/// Notifications answered in one turn. A server that makes them faster than they are answered must not keep the one
/// thread from its gateway's word, from other sessions and from the end.
const TURN: usize = 64;
/// After a full turn others go first; the callers wait in the kernel.
const BREATH: Duration = Duration::from_millis(2);
/// How often collapsed denials become records.
const FLUSH: Duration = Duration::from_secs(1);

/// A sandbox whose child was, or is about to be, released.
pub(super) struct Running {
    pub(super) session: String,
    pub(super) server: String,
    pub(super) started: Instant,
    pub(super) cgroup: Sandbox,
    pub(super) pid: i32,
    pub(super) pidfd: AsyncFd<OwnedFd>,
    pub(super) init: AsyncLink,
    pub(super) notifications: AsyncFd<Listener>,
    pub(super) events: mpsc::Receiver<NetEvent>,
    pub(super) denials: Denials,
    pub(super) refused: Refused,
    /// What the gateway says was the end of the server's stderr.
    pub(super) last_words: Option<Octets>,
    /// Our ends of the child's pipes until the gateway has them.
    pub(super) pipes: Option<[OwnedFd; 3]>,
}

impl Running {
    pub(super) fn new(
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
            refused: Refused::default(),
            last_words: None,
            pipes: Some(parked.pipes),
        })
    }

    /// The child's first instruction runs after this, or never.
    pub(super) async fn start(&mut self) -> Result<(), Refusal> {
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
            FromInit::NotExecuted(culprit) => Err(not_executed(&self.server, &culprit)),
            FromInit::Failed { step, error } => Err(step_failed(&step, error)),
            other => Err(step_failed(
                "launch.release",
                format!("unexpected message {other:?}"),
            )),
        }
    }

    /// The gateway gets the child's pipes. It may have died since it asked.
    pub(super) async fn hand_over(
        &mut self,
        link: &AsyncLink,
        facets: &report::Facets,
    ) -> Result<(), Refusal> {
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
    pub(super) async fn watch(&mut self, warden: &Warden, link: &mut AsyncLink, trail: &AuditHandle) -> End {
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
                self.refused.note(&record);
                if let Err(error) = write(trail, record).await {
                    // What cannot be recorded is not allowed to go on.
                    tracing::error!(session = self.session, error = %chain(&error), "cannot write a record");
                    return killed("warden: the audit cannot be written");
                }
            }
        }
    }

    /// Everything dead, counted, recorded, removed.
    pub(super) async fn finish(
        mut self,
        warden: &Warden,
        trail: &AuditHandle,
        mut end: End,
    ) -> (Exited, Told) {
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
        records.iter().for_each(|record| self.refused.note(record));
        let mut exit = end.record(
            &self.session,
            &self.server,
            self.started.elapsed(),
            Some(resource_use(&counters)),
        );
        if let Body::Exit(exit) = &mut exit {
            exit.stderr_tail = self.last_words.take();
        }
        records.push(exit);
        let told = record_end(trail, records, &self.session, 0).await;
        let refused = if end.failed() {
            self.refused.told().await
        } else {
            Vec::new()
        };
        (
            Exited {
                reason: end.reason.to_owned(),
                code: end.code,
                signal: end.signal,
                refused,
            },
            told,
        )
    }

    /// Kills the sandbox and waits until its last task is gone.
    pub(super) async fn die(&mut self) {
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

    pub(super) async fn remove(&self) -> io::Result<()> {
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

fn not_executed(server: &str, culprit: &Culprit) -> Refusal {
    Refusal::usage(
        format!("cannot execute the command of `{server}` in its sandbox"),
        culprit.why(),
        culprit.hint(),
    )
}

/// Takes what is pending (at most a turn's worth), refuses each, and tells what it was. Never ends without a denial
/// or an error.
pub(super) async fn notifications(listener: &AsyncFd<Listener>) -> io::Result<Vec<Denial>> {
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

pub(super) fn denial_of(event: &NetEvent) -> Denial {
    super::denials::of_event(event)
}
