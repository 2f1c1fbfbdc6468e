//! How a session ends, and that the trail knows: what cannot be written is counted, and tried again.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    calls::Calls,
    cgroup::Counters,
    subject::Subject,
    trails::{write, write_all},
};
use crate::{
    audit::{AuditHandle, Body, Durability, Exit, Gap, GapKind, Number, Origin, ResourceUse},
    fault,
    link::{
        asynchronous::AsyncLink,
        message::{FromWarden, STDERR_TAIL, ToWarden},
    },
    octets::Octets,
    refusal::chain,
};

/// How long the gateway may take to say what the server wrote last.
const LAST_WORDS: Duration = Duration::from_millis(400);
/// How long a gateway may take to take an answer: it has a large buffer for them.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Before the second try to write an exit.
const RETRY: Duration = Duration::from_millis(150);

/// Whether the trail knows of a session's end. If not, its session file stays for the next warden.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Everything,
    ExitOwed,
}

/// Writes the last records of a session. `lost` were not written before; what cannot be written is counted.
pub(super) async fn record_end(
    trail: &AuditHandle,
    records: Vec<Body>,
    calls: Vec<(Body, Origin)>,
    subject: &Subject,
    lost: u64,
) -> Told {
    let sandbox = subject.name();
    record_lost(trail, subject, lost).await;
    let mut lost = 0;
    let (exit, others): (Vec<_>, Vec<_>) = records
        .into_iter()
        .partition(|record| matches!(record, Body::Exit(_)));
    if let Err((error, count)) = write_all(trail, others).await {
        lost += count;
        tracing::error!(sandbox, error = %chain(&error), "cannot write a record");
    }
    for (record, origin) in calls {
        if let Err(error) = trail.append(record, origin, Durability::Soon).await {
            lost += 1;
            tracing::error!(sandbox, error = %chain(&error), "cannot write a record of a call");
        }
    }
    let mut told = Told::ExitOwed;
    for record in exit {
        let mut written = append(trail, record.clone()).await;
        if written.is_err() {
            // A trail whose disk was busy or full a moment ago tries again by itself; so does the exit.
            sleep(RETRY).await;
            lost += 1;
            written = append(trail, record).await;
        }
        match written {
            Ok(()) => told = Told::Everything,
            Err(error) => tracing::error!(sandbox, error, "cannot write a record"),
        }
    }
    record_lost(trail, subject, lost).await;
    told
}

pub(super) async fn record_lost(trail: &AuditHandle, subject: &Subject, lost: u64) {
    let gap = Gap::counted(Some(subject.session.clone()), GapKind::WriteFailed, lost).of_call(subject.call);
    if lost > 0
        && let Err(error) = write(trail, Body::Gap(gap)).await
    {
        tracing::error!(sandbox = subject.name(), error = %chain(&error), "cannot write a record");
    }
}

pub(super) async fn record_gateway_death(trail: &AuditHandle, subject: &Subject) {
    let gap = Gap::unknown(Some(subject.session.clone()), GapKind::GatewayDied).of_call(subject.call);
    if let Err(error) = write(trail, Body::Gap(gap)).await {
        tracing::error!(sandbox = subject.name(), error = %chain(&error), "cannot write a record");
    }
}

pub(super) async fn append(trail: &AuditHandle, record: Body) -> Result<(), String> {
    fault::point("exit.record").map_err(|error| error.to_string())?;
    write(trail, record).await.map_err(|error| chain(&error))
}

/// Why a sandbox ends, as far as it is known.
#[derive(Default)]
pub(super) struct End {
    pub(super) reason: &'static str,
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) cause: Option<String>,
    /// The gateway asked for it.
    pub(super) asked: bool,
    /// The session has no other sandbox after this one.
    pub(super) last: bool,
}

impl End {
    /// Whether the server ended by itself, and not well.
    pub(super) fn failed(&self) -> bool {
        self.cause.is_none() && (self.reason != "exited" || self.code != Some(0))
    }

    pub(super) fn not_started(error: &dyn std::error::Error) -> Self {
        Self {
            reason: "not-started",
            cause: Some(chain(error)),
            ..Self::default()
        }
    }

    pub(super) fn killed(cause: &str) -> Self {
        Self {
            reason: "killed",
            signal: Some(libc::SIGKILL),
            cause: Some(cause.to_owned()),
            ..Self::default()
        }
    }

    pub(super) fn of_the_session(self) -> Self {
        Self { last: true, ..self }
    }

    pub(super) fn record(&self, subject: &Subject, lived: Duration, resources: Option<ResourceUse>) -> Body {
        Body::Exit(Box::new(Exit {
            session: subject.session.clone(),
            call: subject.call(),
            server: subject.server.clone(),
            reason: self.reason.to_owned(),
            code: self.code,
            signal: self.signal,
            duration_us: Number(u64::try_from(lived.as_micros()).unwrap_or(u64::MAX)),
            resources,
            stderr_tail: None,
            cause: self.cause.clone(),
            degraded: None,
        }))
    }
}

/// Asks the gateway for the end of the server's stderr, which it alone has read. The sandbox is dead. A gateway that
/// does not answer soon, or is gone, costs the record this field.
pub(super) async fn last_words(link: &mut AsyncLink, mut calls: Option<&mut Calls>) -> Option<Octets> {
    let asked = async {
        link.send(&FromWarden::Ending, &[]).await.ok()?;
        loop {
            match (link.receive::<ToWarden>().await.ok()?.0, &mut calls) {
                (ToWarden::LastWords { stderr }, _) => return Some(stderr),
                // Sent before it knew: the server has ended.
                (ToWarden::Terminate | ToWarden::Kill, _) => {}
                (ToWarden::Call { call }, Some(calls)) => calls.busy(link, call).await,
                _ => return None,
            }
        }
    };
    let Octets(mut words) = timeout(LAST_WORDS, asked).await.ok()??;
    // Its word is not trusted, also not in length.
    words.drain(..words.len().saturating_sub(STDERR_TAIL));
    (!words.is_empty()).then_some(Octets(words))
}

pub(super) fn out_of_memory(counters: &Counters) -> bool {
    counters.get("memory_events").is_some_and(|events| {
        ["oom_kill", "oom_group_kill"]
            .iter()
            .any(|name| events.get(*name).is_some_and(|count| *count > 0))
    })
}

pub(super) fn resource_use(counters: &Counters) -> ResourceUse {
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
