//! One session: launch, record, release, watch, end, record. The order of the record and the act is the point:
//! a launch is on disk before its first instruction, an exit before the client hears of it.

use std::{rc::Rc, time::Duration};

use super::{
    ending::{End, Told, last_words, record_end, record_gateway_death},
    events::Admission,
    launch::{Job, Parked, report, step_failed},
    registry,
    running::Running,
    serve::Warden,
    trails::{Trails, write},
};
use crate::{
    audit::{AuditHandle, Body, Launch, LaunchUser},
    fault,
    init::message::Ids,
    link::{
        asynchronous::AsyncLink,
        message::{Exited, LaunchRequest, User},
    },
    octets::Octets,
    refusal::Refusal,
};

/// Uids for children and gateways. No account lies here (it is above every range that distributions and
/// systemd assign), and a number is drawn anew for each session, so none is shared or soon reused.
const DYNAMIC_BASE: u32 = 2_100_000_000;
const DYNAMIC_SPAN: u32 = 40_000_000;

fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| step_failed("launch.random", error))?;
    Ok(bytes)
}

pub(super) fn dynamic_uid() -> Result<u32, Refusal> {
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
    let request = super::unprivileged::with_view(&warden.facts, request)?;
    let trail = warden.trails.acquire(&audit).await?;
    tracing::debug!(
        server = request.server,
        roots = request.roots.len(),
        grants = request.runtime.grants.len(),
        "a launch is asked for"
    );
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
        init: None,
    };
    let registered = |entry: &registry::Entry| {
        fault::point("launch.register")
            .and_then(|()| registry::write(state, entry))
            .map_err(|error| step_failed("launch.register", error))
    };
    let ids = ids(&request.user)?;
    super::unprivileged::same_ids(warden.context.ground, &ids)?;
    let doubt = warden.ring.skipped_now().why();
    report::tier(&request, &warden.facts, doubt.as_deref())?;
    registered(&entry)?;
    let unregister = || {
        if let Err(error) = registry::remove(state, &session) {
            tracing::error!(session, %error, "cannot remove the session file");
        }
    };
    let job = Job {
        session: session.clone(),
        request: request.clone(),
        ids: ids.clone(),
    };
    let parked = match warden.launcher.park(job).await {
        Ok(parked) => Parked { doubt, ..parked },
        Err(refusal) => {
            unregister();
            return Err(refusal);
        }
    };
    entry.launched = true;
    if parked.cgroup.cgroup().is_none() {
        entry.init = crate::sys::family::stat(parked.pid).map(|stat| (parked.pid, stat.started));
    }
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
    let admitted = fault::point("launch.observe")
        .map_err(|error| error.to_string())
        .and_then(|()| Admission::new(warden, session, request, &parked));
    let admission = match admitted {
        Ok(admission) => admission,
        Err(why) => {
            parked.abandon();
            return (Err(step_failed("launch.observe", why)), Told::Everything);
        }
    };
    let record = launch_record(warden, request, ids, &parked, session, &facets, &admission);
    let allowed = report::require(request, &warden.facts, &facets)
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
    let mut running = match Running::new(warden, parked, admission, session, request, ids) {
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
    tracing::debug!(session, "the launch is on record");
    let started = running.start().await;
    tracing::debug!(session, started = started.is_ok(), "released");
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
    if handed {
        // Its stderr ends with its last task.
        running.die().await;
        let words = last_words(link).await;
        running.last_words = words.filter(|_| end.code != Some(0));
    }
    tracing::debug!(
        session,
        reason = end.reason,
        code = end.code,
        signal = end.signal,
        cause = end.cause,
        "the session ends"
    );
    let (exited, told) = running.finish(trail, end).await;
    tracing::debug!(
        session,
        recorded = told == Told::Everything,
        "nothing of the session is left"
    );
    let result = match started {
        Ok(()) if handed => Ok(exited),
        Ok(()) => Err(step_failed("launch.hand-over", "the gateway is gone")),
        Err(refusal) => Err(refusal),
    };
    (result, told)
}

fn launch_record(
    warden: &Warden,
    request: &LaunchRequest,
    ids: &Ids,
    parked: &Parked,
    session: &str,
    facets: &report::Facets,
    admission: &Admission,
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
        kernel_release: warden.facts.release.clone(),
        landlock_abi: parked.confinement.landlock_abi,
        grants: u32::try_from(parked.grants).unwrap_or(u32::MAX),
    }
}
