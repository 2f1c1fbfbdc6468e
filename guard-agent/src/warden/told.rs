//! The calls of a session as its gateway tells them: each on record before it is passed on, and closed once everything
//! that was reported during it is read. A call whose end nobody tells is closed by the warden.

use std::{collections::BTreeMap, io, os::fd::OwnedFd, time::Duration, time::Instant};

use tokio::time::timeout;

use super::{
    ending::{ANSWER_LIMIT, End},
    events::Admission,
    subject::Subject,
};
use crate::{
    audit::{self, AuditHandle, Body, Durability, Origin, Phase, Status, call_name},
    fault,
    link::{
        asynchronous::AsyncLink,
        channel::ChannelError,
        told::{BITS, Noted, Told},
    },
    refusal::chain,
    sys::seqpacket,
};

/// How long what was told last may take to be heard, once the sandbox is dead: the next of it, and all of it.
const LAST: Duration = Duration::from_millis(1);
const LAST_OF_ALL: Duration = Duration::from_millis(200);
/// Calls that may be open: as many as a gateway has requests in flight, and left ones. One that has more was taken over.
const MOST_OPEN: usize = 2048;
/// What is kept of a call until its end, as JSON.
const HEAD: usize = 32 << 10;

/// A call whose beginning is on record.
struct Begun {
    record: audit::Call,
    since: Instant,
}

/// One session's. Without a link there are none.
pub(super) struct Calls {
    link: Option<AsyncLink>,
    /// The gateway's end, until it has it.
    theirs: Option<OwnedFd>,
    subject: Subject,
    /// The number of the last one.
    last: u64,
    begun: BTreeMap<u64, Begun>,
    /// Over, by the gateway's word.
    closing: Vec<(u64, Box<audit::Call>)>,
}

impl Calls {
    pub(super) fn new(subject: &Subject, told: bool) -> io::Result<Self> {
        let (link, theirs) = if told {
            let (ours, theirs) = seqpacket::pair()?;
            (Some(AsyncLink::new(ours)?), Some(theirs))
        } else {
            (None, None)
        };
        Ok(Self {
            link,
            theirs,
            subject: subject.clone(),
            last: 0,
            begun: BTreeMap::new(),
            closing: Vec::new(),
        })
    }

    /// What the gateway gets.
    pub(super) fn take_theirs(&mut self) -> Option<OwnedFd> {
        self.theirs.take()
    }

    /// What is told next. Never, where nothing is.
    pub(super) async fn next(&mut self) -> Result<Told, ChannelError> {
        match &mut self.link {
            Some(link) => link.receive().await.map(|(told, _)| told),
            None => std::future::pending().await,
        }
    }

    /// Nothing more is told.
    pub(super) fn close(&mut self) {
        self.link = None;
    }

    /// An error ends the sandbox.
    pub(super) async fn take(
        &mut self,
        told: Told,
        admission: &Admission,
        trail: &AuditHandle,
    ) -> Result<(), End> {
        match told {
            Told::Begin { call, bit, record } => {
                if call <= self.last || bit >= BITS || self.begun.len() >= MOST_OPEN {
                    return Err(broken());
                }
                self.last = call;
                let record = self.named(*record, Some(call), Phase::Begin);
                self.append(trail, record.clone(), Origin::Gateway, fault::point("call.begin"))
                    .await
                    .map_err(|error| unwritten(&self.subject, &error))?;
                admission.desk().call_begins(call, bit);
                let since = Instant::now();
                let record = head(record).ok_or_else(broken)?;
                self.begun.insert(call, Begun { record, since });
                let Some(link) = &self.link else {
                    return Ok(());
                };
                match timeout(ANSWER_LIMIT, link.send(&Noted { call }, &[])).await {
                    Ok(Ok(())) => {}
                    // A gateway that is gone is seen by the other link.
                    Ok(Err(error)) => tracing::debug!(error = %chain(&error), "a call's gateway is gone"),
                    // It asks and does not listen: it must not hold up what ends its sandbox.
                    Err(_) => return Err(broken()),
                }
            }
            Told::End { call, record } => {
                // One that the warden has closed, or never heard of.
                if admission.desk().call_over(call) {
                    self.closing.push((call, record));
                }
            }
            Told::Refused { record } => {
                let mut record = self.named(*record, None, Phase::End);
                record.status = Some(Status::Denied);
                self.append(trail, record, Origin::Gateway, fault::point("call.refused"))
                    .await
                    .map_err(|error| unwritten(&self.subject, &error))?;
            }
        }
        Ok(())
    }

    pub(super) fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// The records of those that are over; everything reported during them is read, and is to be written first.
    pub(super) fn closed(&mut self, admission: &Admission) -> Vec<(audit::Call, Origin)> {
        let closing = std::mem::take(&mut self.closing);
        let close = |(call, record): (u64, Box<audit::Call>)| {
            let mut record = self.named(*record, Some(call), Phase::End);
            if let Some(begun) = self.begun.remove(&call) {
                record.method = begun.record.method;
                (record.tool, record.prompt, record.uri) =
                    (begun.record.tool, begun.record.prompt, begun.record.uri);
                record.identity = begun.record.identity;
            }
            record.kernel = Some(admission.desk().call_ends(call));
            (record, Origin::Gateway)
        };
        closing.into_iter().map(close).collect()
    }

    pub(super) async fn write(
        &self,
        records: Vec<(audit::Call, Origin)>,
        trail: &AuditHandle,
    ) -> Result<(), End> {
        for (record, origin) in records {
            let written = self.append(trail, record, origin, fault::point("call.end")).await;
            written.map_err(|error| unwritten(&self.subject, &error))?;
        }
        Ok(())
    }

    /// The last records: of those whose end was told, and, as the warden sees them, of all others. The sandbox is dead,
    /// and what it did was read.
    pub(super) async fn finish(&mut self, admission: &Admission, why: &str) -> Vec<(Body, Origin)> {
        let mut records = Vec::new();
        let until = Instant::now() + LAST_OF_ALL;
        while Instant::now() < until
            && let Ok(Ok(told)) = timeout(LAST, self.next()).await
        {
            match told {
                Told::End { call, record } if admission.desk().call_over(call) => {
                    self.closing.push((call, record));
                }
                Told::Refused { record } => {
                    let mut record = self.named(*record, None, Phase::End);
                    record.status = Some(Status::Denied);
                    records.push((Body::Call(Box::new(record)), Origin::Gateway));
                }
                // It will not be passed on: there is nobody any more.
                Told::Begin { .. } | Told::End { .. } => {}
            }
        }
        let boxed = |(record, origin)| (Body::Call(Box::new(record)), origin);
        records.extend(self.closed(admission).into_iter().map(boxed));
        for (call, begun) in std::mem::take(&mut self.begun) {
            admission.desk().call_over(call);
            let lived = u64::try_from(begun.since.elapsed().as_micros()).unwrap_or(u64::MAX);
            let record = audit::Call {
                phase: Phase::End,
                status: Some(Status::Error),
                error: Some(serde_json::json!({ "reason": why }).to_string()),
                duration_us: Some(lived.into()),
                kernel: Some(admission.desk().call_ends(call)),
                ..begun.record
            };
            records.push((Body::Call(Box::new(record)), Origin::Warden));
        }
        records
    }

    /// What the gateway has no say in.
    fn named(&self, record: audit::Call, call: Option<u64>, phase: Phase) -> audit::Call {
        audit::Call {
            session: self.subject.session.clone(),
            server: self.subject.server.clone(),
            call: call.map(call_name),
            phase,
            kernel: None,
            ..record
        }
    }

    async fn append(
        &self,
        trail: &AuditHandle,
        record: audit::Call,
        origin: Origin,
        point: io::Result<()>,
    ) -> Result<(), String> {
        point.map_err(|error| error.to_string())?;
        let body = Body::Call(Box::new(record));
        let written = trail.append(body, origin, Durability::Soon).await;
        written.map(drop).map_err(|error| chain(&error))
    }
}

/// What is kept of a beginning for an end that nobody tells. None: more than a call can have.
fn head(record: audit::Call) -> Option<audit::Call> {
    let head = audit::Call {
        arguments: None,
        arguments_bytes: None,
        result: None,
        error: None,
        gates: Vec::new(),
        redacted: BTreeMap::new(),
        ..record
    };
    let bytes = serde_json::to_vec(&head).ok()?;
    (bytes.len() <= HEAD).then_some(head)
}

fn broken() -> End {
    End::killed("gateway: it broke the protocol of calls").of_the_session()
}

/// What cannot be recorded is not allowed to go on.
fn unwritten(subject: &Subject, error: &str) -> End {
    tracing::error!(sandbox = subject.name(), error, "cannot write a record of a call");
    End::killed("warden: the audit cannot be written").of_the_session()
}
