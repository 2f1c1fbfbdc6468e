//! A session with a sandbox for each call. What a launch needs is held, and the gateway says when one more is wanted. It
//! says nothing else: what is launched, how many there are at a time (one) and how fast they follow is not for it to say.

use std::{rc::Rc, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout};

use super::{
    ending::ANSWER_LIMIT,
    events::Observation,
    sandbox::{self, Plan},
    serve::Warden,
    session::dynamic_uid,
};
use crate::{
    audit::AuditHandle,
    init::message::Ground,
    link::{
        asynchronous::AsyncLink,
        message::{Exited, FromWarden, Planned, ToWarden},
    },
    refusal::Refusal,
};

/// Sandboxes that may follow each other without a pause.
const BURST: u32 = 64;
/// How often one more is allowed after that. Each writes to the disk and takes the launcher's time from other sessions.
const EVERY: Duration = Duration::from_millis(100);
/// Requests that may be refused before one is granted. An honest gateway waits for the end of a call.
const MOST_REFUSED: u32 = 64;

/// The calls of one session, as its gateway asks for them.
pub(super) struct Calls {
    current: Option<u64>,
    /// Since the last one that was granted.
    refused: u32,
    rate: Rate,
    /// Why the session cannot go on.
    over: Option<&'static str>,
}

impl Calls {
    fn new() -> Self {
        Self {
            current: None,
            refused: 0,
            rate: Rate::new(Instant::now()),
            over: None,
        }
    }

    /// The one that runs, or was the last to.
    pub(super) fn current(&self) -> Option<u64> {
        self.current
    }

    pub(super) fn over(&self) -> Option<&'static str> {
        self.over
    }

    /// A request while no sandbox is there.
    fn grant(&mut self, call: u64, now: Instant) -> Result<(), Refusal> {
        self.rate.take(now).map_err(|wait| too_fast(call, wait))?;
        self.current = Some(call);
        self.refused = 0;
        Ok(())
    }

    /// A request while one is there.
    pub(super) async fn busy(&mut self, link: &AsyncLink, call: u64) {
        if self.is_new(call) {
            self.refuse(link, call, one_at_a_time(call)).await;
        }
    }

    /// Records tell sandboxes of a session apart by the call: a number is used once.
    fn is_new(&mut self, call: u64) -> bool {
        let new = self.current.is_none_or(|current| call > current);
        if !new {
            self.over = Some("gateway: it used the number of a call again");
        }
        new
    }

    async fn refuse(&mut self, link: &AsyncLink, call: u64, refusal: Refusal) {
        self.refused += 1;
        if self.refused > MOST_REFUSED {
            self.over = Some("gateway: it asks for calls without end");
            return;
        }
        tracing::info!(call, %refusal, "refused");
        self.tell(link, &FromWarden::CallRefused { call, refusal }).await;
    }

    /// A gateway that takes no answer is as good as dead.
    async fn tell(&mut self, link: &AsyncLink, message: &FromWarden) {
        let told = timeout(ANSWER_LIMIT, link.send(message, &[])).await;
        if !matches!(told, Ok(Ok(()))) {
            self.over = Some("gateway: it takes no answer");
        }
    }
}

/// The whole session. An error means that nothing was ever launched.
pub(super) async fn run(
    warden: &Rc<Warden>,
    link: &mut AsyncLink,
    mut plan: Plan,
    trail: &AuditHandle,
) -> Result<Exited, Refusal> {
    let held = warden.launcher.hold(plan.job(&plan.subject(None))).await?;
    plan.held = Some(Arc::new(held));
    // Attaching takes longer than a launch. What cannot be observed is said at each launch.
    let _observation = Observation::start(warden, &plan.request);
    let privileged = warden.context.ground == Ground::Machine;
    let mut calls = Calls::new();
    let planned = Planned {
        session: plan.session.clone(),
        gateway_uid: privileged.then(dynamic_uid).transpose()?,
    };
    calls.tell(link, &FromWarden::Planned(planned)).await;
    let mut stop = warden.stop.clone();
    loop {
        if let Some(cause) = calls.over {
            tracing::warn!(session = plan.session, cause, "the session ends");
            return Ok(over());
        }
        let message = tokio::select! {
            biased;
            _ = stop.wait_for(Option::is_some) => return Ok(over()),
            message = link.receive::<ToWarden>() => message,
        };
        let call = match message {
            Ok((ToWarden::Call { call }, _)) => call,
            // What it was meant for has just ended by itself.
            Ok((ToWarden::Terminate | ToWarden::Kill | ToWarden::LastWords { .. }, _)) => continue,
            Ok(_) => {
                calls.over = Some("gateway: it broke the protocol");
                continue;
            }
            Err(_) => return Ok(over()),
        };
        if !calls.is_new(call) {
            continue;
        }
        if let Err(refusal) = calls.grant(call, Instant::now()) {
            calls.refuse(link, call, refusal).await;
            continue;
        }
        let life = sandbox::run(warden, link, &plan, Some(&mut calls), trail).await;
        let message = match life.result {
            Ok(exited) => FromWarden::CallEnded { call, exited },
            Err(refusal) => {
                tracing::warn!(session = plan.session, call, %refusal, "launch refused");
                FromWarden::CallRefused { call, refusal }
            }
        };
        calls.tell(link, &message).await;
        if life.last {
            return Ok(over());
        }
    }
}

/// Said to a gateway whose session has no sandbox any more.
fn over() -> Exited {
    Exited {
        reason: "over".to_owned(),
        code: None,
        signal: None,
        cause: None,
        refused: Vec::new(),
    }
}

fn one_at_a_time(call: u64) -> Refusal {
    Refusal::usage(
        format!("cannot start a sandbox for call {call}"),
        "the sandbox of the call before it is still there: a session has one at a time",
        "wait until that call has ended, or end it",
    )
}

fn too_fast(call: u64, wait: Duration) -> Refusal {
    Refusal::usage(
        format!("cannot start a sandbox for call {call}"),
        format!(
            "the session has started {BURST} without a pause, and gets one more every {} ms",
            EVERY.as_millis()
        ),
        format!("wait {} ms", wait.as_millis().max(1)),
    )
}

/// So many at once, then one in every so often.
struct Rate {
    left: u32,
    /// Until when what has become free is counted.
    counted: Instant,
}

impl Rate {
    fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            counted: now,
        }
    }

    /// Takes one, or says how long it takes until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.counted);
        let free = u32::try_from(passed.as_millis() / EVERY.as_millis()).unwrap_or(BURST);
        if self.left.saturating_add(free) >= BURST {
            (self.left, self.counted) = (BURST, now);
        } else {
            self.left += free;
            self.counted += EVERY * free;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(EVERY.saturating_sub(now.saturating_duration_since(self.counted))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_in_every_so_often() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let at = |ms: u64| start + Duration::from_millis(ms);
        for number in 0..BURST {
            assert_eq!(rate.take(at(0)), Ok(()), "{number}");
        }
        assert_eq!(rate.take(at(0)), Err(EVERY));
        assert_eq!(rate.take(at(99)), Err(Duration::from_millis(1)));
        assert_eq!(rate.take(at(100)), Ok(()));
        assert_eq!(rate.take(at(150)), Err(Duration::from_millis(50)));
        // The time that was waited is not lost, and no more than a burst is saved up.
        assert_eq!(rate.take(at(250)), Ok(()));
        assert_eq!(rate.take(at(300)), Ok(()));
        assert_eq!(rate.take(at(399)), Err(Duration::from_millis(1)));
        let granted = (0..1000).filter(|_| rate.take(at(3_600_000)).is_ok()).count();
        assert_eq!(granted, BURST as usize);
        // Time does not run back.
        assert!(rate.take(at(0)).is_err());
    }

    #[test]
    fn a_number_is_used_once_and_only_upwards() {
        let mut calls = Calls::new();
        let now = Instant::now();
        for call in [0, 1, 7] {
            assert!(calls.is_new(call));
            assert!(calls.grant(call, now).is_ok());
            assert_eq!(calls.current(), Some(call));
        }
        for call in [7, 3, 0] {
            let mut calls = Calls {
                current: Some(7),
                ..Calls::new()
            };
            assert!(!calls.is_new(call), "{call}");
            assert_eq!(calls.over(), Some("gateway: it used the number of a call again"));
        }
    }
}
