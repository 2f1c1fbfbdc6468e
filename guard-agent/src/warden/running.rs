//! A sandbox from its release to the death of its last task: started, handed over, watched, ended, counted.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{MissedTickBehavior, interval, sleep, sleep_until, timeout},
};

use super::{
    calls::Calls,
    ending::{ANSWER_LIMIT, End, Told, out_of_memory, record_end, record_gateway_death, resource_use},
    events::{Admission, tells_calls},
    hold::Sandbox,
    launch::{Parked, enrol::Enrolled, report, step_failed},
    refused::Refused,
    serve::Warden,
    session::dynamic_uid,
    subject::Subject,
    told,
    trails::write_all,
};
use crate::{
    audit::{AuditHandle, Body},
    confine::notify::{Listener, answer},
    fault,
    init::message::{FromInit, Ground, Ids, ToInit},
    link::{
        asynchronous::AsyncLink,
        channel::ChannelError,
        message::{Exited, FromWarden, LaunchRequest, Launched, ToWarden},
    },
    octets::Octets,
    proof::Tier,
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
/// How often what was collapsed or lost becomes records: a tick of their backoff.
const FLUSH: Duration = Duration::from_secs(1);
/// Records written in one turn.
const BATCH: usize = 64;
/// How long a sandbox may take to stop once frozen. Then it is killed instead.
const FREEZE_LIMIT: Duration = Duration::from_secs(5);

/// A sandbox whose child was, or is about to be, released.
pub(super) struct Running {
    subject: Subject,
    pub(super) started: Instant,
    pub(super) cgroup: Sandbox,
    tier: Tier,
    /// What the security hooks know of it, held until its last task is gone.
    enrolled: Option<Enrolled>,
    pub(super) pid: i32,
    pub(super) pidfd: AsyncFd<OwnedFd>,
    pub(super) init: AsyncLink,
    pub(super) notifications: AsyncFd<Listener>,
    pub(super) admission: Admission,
    calls: told::Calls,
    /// Since when it is frozen.
    quarantined: Option<Instant>,
    /// Records that could not be written.
    unwritten: u64,
    refused: Refused,
    dead: bool,
    /// What the gateway says was the end of the server's stderr.
    pub(super) last_words: Option<Octets>,
    /// Our ends of the child's pipes until the gateway has them.
    pub(super) pipes: Option<[OwnedFd; 3]>,
    /// What the operator is told at the launch.
    notes: Vec<String>,
}

/// What ends a sandbox beside its own end and the gateway's word.
pub(super) struct Sight<'a> {
    pub(super) limit: Option<Duration>,
    /// In a session with a sandbox a call.
    pub(super) calls: Option<&'a mut Calls>,
}

impl Running {
    pub(super) fn new(
        warden: &Warden,
        parked: Parked,
        admission: Admission,
        subject: &Subject,
        request: &LaunchRequest,
        ids: &Ids,
    ) -> Result<Self, (io::Error, Box<Parked>)> {
        // Duplicates, so that on failure the parked sandbox is still whole.
        let watch = || -> io::Result<_> {
            let pidfd = sys::ready::watch(parked.pidfd.try_clone()?, Interest::READABLE)?;
            let init = AsyncLink::new(parked.channel.as_fd().try_clone_to_owned()?)?;
            let listener = Listener::new(parked.listener.try_clone()?)?;
            let calls = told::Calls::new(subject, tells_calls(request))?;
            let notifications = sys::ready::watch(listener, Interest::READABLE)?;
            Ok((pidfd, init, notifications, calls))
        };
        let (pidfd, init, notifications, calls) = match watch() {
            Ok(watched) => watched,
            Err(error) => return Err((error, Box::new(parked))),
        };
        let mut notes = super::unprivileged::notes(&warden.facts, &parked);
        if request.tier.is_none() && warden.facts.proofs.hooks_left_out() {
            notes.push(
                "not at tier T1: the run that started the warden said `--tier T2`; it ends some seconds after its last session"
                    .to_owned(),
            );
        }
        if let Some(why) = admission.verdicts_missing() {
            notes.push(format!("verdicts of other security modules: not observed: {why}"));
        }
        if request.tool_rights && warden.facts.tier(&parked) != Tier::T1 {
            notes.push("rights of tools: not enforced: only tier T1 does".to_owned());
        }
        if let Some(doubt) = &parked.doubt {
            notes.push(format!("not at tier T1: {doubt}"));
        }
        Ok(Self {
            subject: subject.clone(),
            started: Instant::now(),
            admission,
            calls,
            quarantined: None,
            unwritten: 0,
            tier: warden.facts.tier(&parked),
            enrolled: parked.enrolled,
            cgroup: parked.cgroup,
            pid: parked.pid,
            pidfd,
            init,
            notifications,
            refused: Refused::seen_by((warden.context.ground == Ground::Machine).then(|| ids.clone())),
            dead: false,
            last_words: None,
            notes,
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
            FromInit::NotExecuted(culprit) => Err(not_executed(&self.subject.server, &culprit)),
            FromInit::Failed { step, error } => Err(step_failed(&step, error)),
            other => Err(step_failed(
                "launch.release",
                format!("unexpected message {other:?}"),
            )),
        }
    }

    /// The gateway gets the child's pipes and its call stamp. It may have died since it asked.
    pub(super) async fn hand_over(
        &mut self,
        warden: &Warden,
        link: &AsyncLink,
        facets: &report::Facets,
    ) -> Result<(), Refusal> {
        // A gateway that asks for a sandbox a call has its uid since its session began.
        let privileged = warden.context.ground == Ground::Machine && self.subject.call.is_none();
        let calls = self.calls.take_theirs();
        let launched = Launched {
            session: self.subject.session.clone(),
            tier: self.tier.to_string(),
            not_enforced: report::not_enforced(warden.context.ground, facets),
            not_observed: self.admission.missing().map(str::to_owned),
            notes: std::mem::take(&mut self.notes),
            gateway_uid: privileged.then(dynamic_uid).transpose()?,
            tells_calls: calls.is_some(),
        };
        let pipes = self
            .pipes
            .take()
            .ok_or_else(|| step_failed("launch.hand-over", "handed over twice"))?;
        // The gateway maps it; nobody else has it after that.
        let stamp = self.admission.take_stamp();
        let descriptors: Vec<_> = pipes
            .iter()
            .chain(&calls)
            .chain(&stamp)
            .map(|fd| fd.as_fd())
            .collect();
        let message = match self.subject.call {
            None => FromWarden::Launched(launched),
            Some(call) => FromWarden::Called { call, launched },
        };
        let sent = timeout(ANSWER_LIMIT, link.send(&message, &descriptors)).await;
        sent.unwrap_or(Err(ChannelError::Timeout))
            .map_err(|error| step_failed("launch.hand-over", chain(&error)))
    }

    /// Until the child, its init, the gateway, its time or the warden ends it.
    pub(super) async fn watch(
        &mut self,
        warden: &Warden,
        link: &mut AsyncLink,
        mut sight: Sight<'_>,
        trail: &AuditHandle,
    ) -> End {
        let mut stop = warden.stop.clone();
        let mut flush = interval(FLUSH);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let killed = End::killed;
        let until = sight
            .limit
            .and_then(|limit| tokio::time::Instant::now().checked_add(limit));
        let mut flooded = false;
        loop {
            if std::mem::take(&mut flooded) {
                sleep(BREATH).await;
            }
            // In this order: a server that floods us with refused attempts must not keep us from hearing that it is
            // to be ended. What it can make come last.
            tokio::select! {
                biased;
                stopped = stop.wait_for(Option::is_some) => {
                    let cause = stopped.ok().and_then(|cause| *cause);
                    return killed(cause.unwrap_or("warden: it ends")).of_the_session();
                }
                message = self.init.receive::<FromInit>() => match message {
                    Ok((FromInit::Exited { code, signal }, _)) => {
                        let reason = if signal.is_some() { "signaled" } else { "exited" };
                        return End { reason, code, signal, ..End::default() };
                    }
                    Ok((FromInit::Failed { step, error }, _)) => {
                        return End { reason: "init-failed", cause: Some(format!("`{step}`: {error}")), ..End::default() };
                    }
                    Ok(_) | Err(_) => return End { reason: "init-died", ..End::default() },
                },
                _ = self.pidfd.readable() => {
                    return End { reason: "init-died", ..End::default() };
                }
                () = sleep_until(until.unwrap_or_else(tokio::time::Instant::now)), if until.is_some() => {
                    return killed("warden: the call took longer than its limit");
                }
                message = link.receive::<ToWarden>() => match message {
                    Ok((message, _)) => {
                        if let Some(end) = self.heard(message, link, &mut sight).await {
                            return end;
                        }
                    }
                    Err(_) => {
                        record_gateway_death(trail, &self.subject).await;
                        return killed("gateway: it ended before its server").of_the_session();
                    }
                },
                told = self.calls.next() => match told {
                    Ok(told) => {
                        if let Err(end) = self.calls.take(told, &self.admission, trail).await {
                            return end;
                        }
                    }
                    // Of a gateway that is gone the other link tells.
                    Err(_) => self.calls.close(),
                },
                _ = flush.tick() => {
                    self.admission.count();
                    self.admission.desk().tick();
                }
                () = self.admission.desk().news() => {}
                // Last: a hostile server makes it always ready.
                answered = notifications(&self.notifications, warden, &self.admission) => match answered {
                    Ok(count) => flooded = count >= TURN,
                    Err(error) => {
                        tracing::error!(sandbox = self.subject.name(), %error, "seccomp notifications cannot be read");
                        return killed("warden: seccomp notifications cannot be read");
                    }
                },
            }
            if let Err(end) = self.quarantine(link, trail).await {
                return end;
            }
            let records = self.admission.desk().take(BATCH);
            if let Err(end) = self.write(trail, records).await {
                return end;
            }
            if self.calls.is_closing() {
                match self.close_calls(warden, trail).await {
                    Ok(all) => flooded |= !all,
                    Err(end) => return end,
                }
            }
        }
    }

    /// The records of calls that are over, behind those of what happened in them. `false`: there is more to read first.
    async fn close_calls(&mut self, warden: &Warden, trail: &AuditHandle) -> Result<bool, End> {
        if warden.ring.drain() {
            return Ok(false);
        }
        let ends = self.calls.closed(&self.admission);
        let records = self.admission.desk().take(usize::MAX);
        self.write(trail, records).await?;
        self.calls.write(ends, trail).await?;
        Ok(true)
    }

    /// What the gateway said. `Some`: it ends the sandbox.
    async fn heard(&mut self, message: ToWarden, link: &AsyncLink, sight: &mut Sight<'_>) -> Option<End> {
        match (message, &mut sight.calls) {
            // What is frozen hears no signal.
            (ToWarden::Terminate, _) if self.quarantined.is_some() => {
                Some(End::killed("gateway: its client left a server in quarantine"))
            }
            (ToWarden::Terminate, _) => {
                // A dead init is seen by the loop.
                let _ = self.init.send(&ToInit::Terminate, &[]).await;
                None
            }
            (ToWarden::Kill, _) => Some(End {
                asked: true,
                ..End::killed("gateway: it asked to")
            }),
            (ToWarden::Call { call }, Some(calls)) => {
                calls.busy(link, call).await;
                calls.over().map(|cause| End::killed(cause).of_the_session())
            }
            _ => Some(End::killed("gateway: it broke the protocol").of_the_session()),
        }
    }

    async fn write(&mut self, trail: &AuditHandle, records: Vec<Body>) -> Result<(), End> {
        records.iter().for_each(|record| self.refused.note(record));
        write_all(trail, records).await.map_err(|(error, count)| {
            // What cannot be recorded is not allowed to go on.
            tracing::error!(sandbox = self.subject.name(), error = %chain(&error), "cannot write a record");
            self.unwritten += count;
            End::killed("warden: the audit cannot be written").of_the_session()
        })
    }

    /// Tells of a sandbox that was frozen since its denials went over their budget. An error ends it.
    async fn quarantine(&mut self, link: &AsyncLink, trail: &AuditHandle) -> Result<(), End> {
        if let Some(since) = self.quarantined {
            let stuck = since.elapsed() > FREEZE_LIMIT && !self.cgroup.is_frozen();
            return if stuck {
                Err(End::killed("warden: it was to be frozen and did not stop"))
            } else {
                Ok(())
            };
        }
        let Some(frozen) = self.admission.desk().frozen() else {
            return Ok(());
        };
        if let Err(error) = frozen {
            tracing::error!(sandbox = self.subject.name(), %error, "cannot freeze the sandbox");
            return Err(End::killed(
                "warden: it went over its budget and cannot be frozen",
            ));
        }
        self.quarantined = Some(Instant::now());
        tracing::warn!(sandbox = self.subject.name(), "quarantined");
        if let Some(mut gap) = self.admission.desk().over() {
            gap.gap.done = Some("quarantined".to_owned());
            self.write(trail, vec![Body::Gap(gap)]).await?;
        }
        let why = "what it was refused exceeds the budget of its records, and its policy says `over_budget = \"quarantine\"`";
        let message = FromWarden::Quarantined { why: why.to_owned() };
        if let Err(error) = link.send(&message, &[]).await {
            // A gateway that is gone is seen by the loop.
            tracing::warn!(sandbox = self.subject.name(), error = %chain(&error), "cannot tell of the quarantine");
        }
        Ok(())
    }

    /// Everything dead, counted, recorded, removed.
    pub(super) async fn finish(mut self, trail: &AuditHandle, mut end: End) -> (Exited, Told) {
        self.die().await;
        let counters = self.cgroup.counters();
        if out_of_memory(&counters) && end.code.is_none() {
            end.reason = "out-of-memory";
            end.signal = Some(libc::SIGKILL);
        }
        self.admission.settle().await;
        self.enrolled = None;
        let calls = self.calls.finish(&self.admission, end.reason).await;
        let mut records = self.admission.desk().take(usize::MAX);
        if let Err(error) = self.remove().await {
            tracing::error!(sandbox = self.subject.name(), %error, "cannot remove the cgroup");
        }
        records.iter().for_each(|record| self.refused.note(record));
        let mut exit = end.record(
            &self.subject,
            self.started.elapsed(),
            Some(resource_use(&counters)),
        );
        if let Body::Exit(exit) = &mut exit {
            exit.stderr_tail = self.last_words.take();
            exit.degraded = self.admission.degraded();
        }
        records.push(exit);
        let told = record_end(trail, records, calls, &self.subject, self.unwritten).await;
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
                cause: end.cause,
                refused,
            },
            told,
        )
    }

    /// Kills the sandbox and waits until its last task is gone.
    pub(super) async fn die(&mut self) {
        // Once: what has its pid after that is none of ours to wait for.
        if std::mem::replace(&mut self.dead, true) {
            return;
        }
        if let Err(error) = self.cgroup.kill() {
            tracing::error!(sandbox = self.subject.name(), %error, "cgroup.kill failed; killing init alone");
            let _ = sys::process::pidfd_kill(self.pidfd.get_ref(), libc::SIGKILL);
        }
        if timeout(DEATH_LIMIT, self.pidfd.readable()).await.is_err() {
            tracing::error!(
                sandbox = self.subject.name(),
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
        if let Err(error) = self.cgroup.destroy(Duration::from_secs(2)) {
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

/// Takes what is pending (at most a turn's worth), refuses each and passes it on; how many. Never ends without one or
/// an error.
async fn notifications(
    listener: &AsyncFd<Listener>,
    warden: &Warden,
    admission: &Admission,
) -> io::Result<usize> {
    loop {
        let mut ready = listener.readable().await?;
        let mut count = 0;
        while count < TURN
            && let Some(notification) = listener.get_ref().recv()?
        {
            let errno = answer(&notification);
            // Before its call ends: its end would be reported as well.
            warden.ring.answered(&notification, errno);
            // While it waits it can be looked at.
            admission.desk().notification(&notification);
            if !listener.get_ref().deny(notification.id, errno)? {
                warden.ring.unanswered(&notification);
            }
            count += 1;
        }
        // After a full turn there may be more: it stays ready.
        if count < TURN {
            ready.clear_ready();
        }
        if count > 0 {
            return Ok(count);
        }
        // A hang-up stays readable for ever: the last task is gone, and its end comes by another descriptor.
        if listener.get_ref().is_over()? {
            return std::future::pending().await;
        }
    }
}
