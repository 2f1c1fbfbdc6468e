//! One sandbox from its session file to its removal: launch, record, release, watch, end, record. The order of the
//! record and the act is the point: a launch is on disk before its first instruction, an exit before the client hears
//! of it.

use std::{rc::Rc, sync::Arc, time::Duration};

use super::{
    calls::Calls,
    ending::{End, Told, last_words, record_end, record_gateway_death},
    events::Admission,
    launch::{Job, Parked, held::Held, report, step_failed},
    registry,
    running::{Running, Sight},
    serve::Warden,
    subject::Subject,
    trails::write,
};
use crate::{
    audit::{AuditHandle, Body, Launch, LaunchUser},
    fault,
    init::message::Ids,
    link::{
        asynchronous::AsyncLink,
        message::{Exited, Isolation, LaunchRequest, User},
    },
    octets::Octets,
    proof::Tier,
    refusal::Refusal,
};

/// What every sandbox of a session is made from.
pub(super) struct Plan {
    pub(super) session: String,
    pub(super) request: Arc<LaunchRequest>,
    pub(super) ids: Ids,
    /// With a sandbox a call: what the first step of the session opened.
    pub(super) held: Option<Arc<Held>>,
}

impl Plan {
    pub(super) fn subject(&self, call: Option<u64>) -> Subject {
        Subject {
            session: self.session.clone(),
            server: self.request.server.clone(),
            call,
        }
    }

    pub(super) fn job(&self, subject: &Subject) -> Job {
        Job {
            name: subject.name(),
            request: self.request.clone(),
            ids: self.ids.clone(),
            held: self.held.clone(),
        }
    }

    /// The longest its sandboxes may run.
    fn limit(&self) -> Option<Duration> {
        match self.request.isolation {
            Isolation::Session => None,
            Isolation::Call { limit_ms } => Some(Duration::from_millis(limit_ms)),
        }
    }
}

/// What came of a sandbox.
pub(super) struct Life {
    /// An error means that its program was not started, and that nothing is left.
    pub(super) result: Result<Exited, Refusal>,
    /// Whether the session cannot go on after it.
    pub(super) last: bool,
}

impl Life {
    fn refused(refusal: Refusal) -> Self {
        Self {
            result: Err(refusal),
            last: false,
        }
    }
}

/// The whole life of one. `calls`: of a session that has one a call, and that this one is for the latest of them.
pub(super) async fn run(
    warden: &Rc<Warden>,
    link: &mut AsyncLink,
    plan: &Plan,
    calls: Option<&mut Calls>,
    trail: &AuditHandle,
) -> Life {
    let state = &warden.context.state;
    let subject = plan.subject(calls.as_ref().and_then(|calls| calls.current()));
    let mut entry = registry::Entry {
        session: subject.session.clone(),
        call: subject.call,
        server: subject.server.clone(),
        cgroup: Octets::from(warden.context.parent.path().join(subject.name())),
        audit: plan.request.audit.clone(),
        started_us: jiff::Timestamp::now().as_microsecond(),
        launched: false,
        init: None,
    };
    let registered = |entry: &registry::Entry| {
        fault::point("launch.register")
            .and_then(|()| registry::write(state, entry))
            .map_err(|error| step_failed("launch.register", error))
    };
    let doubt = warden.ring.skipped_now().why();
    if let Err(refusal) =
        report::tier(&plan.request, &warden.facts, doubt.as_deref()).and_then(|()| registered(&entry))
    {
        return Life::refused(refusal);
    }
    let unregister = |entry: &registry::Entry| {
        if let Err(error) = registry::remove(state, entry) {
            tracing::error!(sandbox = subject.name(), %error, "cannot remove the session file");
        }
    };
    let parked = match warden.launcher.park(plan.job(&subject)).await {
        Ok(parked) => Parked { doubt, ..parked },
        Err(refusal) => {
            unregister(&entry);
            return Life::refused(refusal);
        }
    };
    entry.launched = true;
    if parked.cgroup.cgroup().is_none() {
        entry.init = crate::sys::family::stat(parked.pid).map(|stat| (parked.pid, stat.started));
    }
    if let Err(refusal) = registered(&entry) {
        parked.abandon();
        unregister(&entry);
        return Life::refused(refusal);
    }
    let (mut life, told) = live(warden, link, plan, parked, (&subject, calls), trail).await;
    match told {
        Told::Everything => unregister(&entry),
        Told::ExitOwed => {
            life.last = true;
            tracing::error!(
                sandbox = subject.name(),
                "its end is not on record; the next warden writes it"
            );
        }
    }
    life
}

/// From parked to gone.
async fn live(
    warden: &Rc<Warden>,
    link: &mut AsyncLink,
    plan: &Plan,
    parked: Parked,
    (subject, mut calls): (&Subject, Option<&mut Calls>),
    trail: &AuditHandle,
) -> (Life, Told) {
    let (request, ids) = (&*plan.request, &plan.ids);
    let facets = report::facets(&parked, &warden.facts);
    let admitted = fault::point("launch.observe")
        .map_err(|error| error.to_string())
        .and_then(|()| Admission::new(warden, subject, request, &parked));
    let admission = match admitted {
        Ok(admission) => admission,
        Err(why) => {
            parked.abandon();
            return (
                Life::refused(step_failed("launch.observe", why)),
                Told::Everything,
            );
        }
    };
    let record = launch_record(warden, plan, &parked, subject, &facets, &admission);
    let allowed = report::require(request, &warden.facts, &facets, warden.facts.tier(&parked))
        .and_then(|()| fault::point("launch.record").map_err(|error| step_failed("launch.record", error)));
    if let Err(refusal) = allowed {
        parked.abandon();
        return (Life::refused(refusal), Told::Everything);
    }
    if let Err(error) = write(trail, Body::Launch(Box::new(record))).await {
        parked.abandon();
        // It may stand in the trail all the same, unsynced; then its end must too.
        let end = End::not_started(&error);
        let told = record_end(
            trail,
            vec![end.record(subject, Duration::ZERO, None)],
            Vec::new(),
            subject,
            1,
        )
        .await;
        let life = Life {
            result: Err(error.refusal()),
            last: true,
        };
        return (life, told);
    }
    let mut running = match Running::new(warden, parked, admission, subject, request, ids) {
        Ok(running) => running,
        Err((error, parked)) => {
            parked.abandon();
            let end = End::not_started(&error).record(subject, Duration::ZERO, None);
            return (
                Life::refused(step_failed("launch.watch", error)),
                record_end(trail, vec![end], Vec::new(), subject, 0).await,
            );
        }
    };
    tracing::debug!(sandbox = subject.name(), "the launch is on record");
    let started = running.start().await;
    tracing::debug!(sandbox = subject.name(), started = started.is_ok(), "released");
    let (handed, end) = match &started {
        Err(refusal) => (
            false,
            End {
                reason: "not-started",
                cause: Some(refusal.why.clone()),
                ..End::default()
            },
        ),
        Ok(()) => match running.hand_over(warden, link, &facets).await {
            Ok(()) => {
                let sight = Sight {
                    limit: plan.limit(),
                    calls: calls.as_deref_mut(),
                };
                (true, running.watch(warden, link, sight, trail).await)
            }
            Err(refusal) => {
                record_gateway_death(trail, subject).await;
                let cause = format!("gateway: it ended during the launch: {}", refusal.why);
                (false, End::killed(&cause).of_the_session())
            }
        },
    };
    if handed {
        // Its stderr ends with its last task.
        running.die().await;
        // Who asked for the end of a call waits for that alone.
        if !(end.asked && calls.is_some()) {
            let words = last_words(link, calls).await;
            running.last_words = words.filter(|_| end.code != Some(0));
        }
    }
    tracing::debug!(
        sandbox = subject.name(),
        reason = end.reason,
        code = end.code,
        signal = end.signal,
        cause = end.cause,
        "the sandbox ends"
    );
    let last = end.last;
    let (exited, told) = running.finish(trail, end).await;
    tracing::debug!(
        sandbox = subject.name(),
        recorded = told == Told::Everything,
        "nothing of the sandbox is left"
    );
    let result = match started {
        Ok(()) if handed => Ok(exited),
        Ok(()) => Err(step_failed("launch.hand-over", "the gateway is gone")),
        Err(refusal) => Err(refusal),
    };
    (Life { result, last }, told)
}

fn launch_record(
    warden: &Warden,
    plan: &Plan,
    parked: &Parked,
    subject: &Subject,
    facets: &report::Facets,
    admission: &Admission,
) -> Launch {
    let (request, ids) = (&*plan.request, &plan.ids);
    let (name, dynamic) = match &request.user {
        User::Account { name, .. } => (Some(name.clone()), false),
        User::Dynamic => (None, true),
    };
    Launch {
        session: subject.session.clone(),
        call: subject.call(),
        server: request.server.clone(),
        command: request.runtime.argv.clone(),
        user: LaunchUser {
            name,
            uid: ids.uid,
            gid: ids.gid,
            dynamic,
        },
        tier: warden.facts.tier(parked).to_string(),
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
        observation: admission.observation().to_owned(),
        observation_missing: admission
            .missing()
            .or(admission.verdicts_missing())
            .map(str::to_owned),
        over_budget: request.over_budget,
        protocol: request.protocol,
        tool_rights: request.tool_rights.then(|| warden.facts.tier(parked) == Tier::T1),
        kernel_release: warden.facts.release.clone(),
        landlock_abi: parked.confinement.landlock_abi,
        grants: u32::try_from(parked.grants).unwrap_or(u32::MAX),
    }
}
