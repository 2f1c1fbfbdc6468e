//! The calls of a session: each told to the warden before it is passed on and after its answer, and marked in the
//! sandbox's stamp in between.
//!
//! A call nobody waits for any more keeps its bit for a while: the server may still be at it, and what it does is to be
//! told of the right call.

use std::{
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    exchange::{Begun, Left, Method, Outcome, Refused, Step, Text},
    redact,
    stamp::{self, Stamp},
};
use crate::{
    audit::{self, Identity, Number, Phase, Status, Verdict},
    config::rights::Rights,
    link::{
        channel::{Channel, ChannelError},
        told::{Noted, Told},
    },
    refusal::chain,
};

/// How long a server may be at a call that nobody waits for, as far as the trail is concerned.
const LINGER: Duration = Duration::from_secs(10);
/// Refusals by one rule that have a record each; later ones are counted.
const EACH: u64 = 64;

/// Who asks, as far as a session knows.
#[derive(Debug, Clone)]
pub struct Asker {
    pub identity: Identity,
    pub flow: String,
}

/// One call between its first byte and its end on record.
#[derive(Debug)]
pub(super) struct Live {
    call: u64,
    mark: stamp::Call,
    since: Instant,
    /// It is on record, and passed on.
    begun: bool,
    left: Option<(Instant, Status)>,
    /// Answered by a server that guessed its number before it was passed on.
    early: Option<Box<audit::Call>>,
}

/// What is still to be told of calls whose marks are taken.
#[derive(Debug)]
pub(super) enum Unmarked {
    Over(u64, Taken, Outcome, Instant),
    Step(Step),
}

/// A call that is over, if it is one.
#[derive(Debug)]
pub(super) enum Taken {
    Nobody,
    NotBegun,
    Begun(Live),
}

#[derive(Debug, Default)]
struct State {
    /// By the number of its request.
    live: HashMap<u64, Live>,
    last: u64,
}

/// Refusals by one rule.
#[derive(Debug, Default)]
struct Count {
    all: u64,
    told: u64,
}

#[derive(Debug)]
pub(super) struct Calls {
    link: Channel,
    stamp: Stamp,
    /// What a call may do whose tool has no rights of its own: what its server was launched with.
    rights: Rights,
    /// Without a call, once the server has answered.
    idle: Option<Rights>,
    asker: Asker,
    redact: redact::Rules,
    state: Mutex<State>,
    refused: Mutex<HashMap<String, Count>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can be left half done happens under any of them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    /// From now on every call is told.
    pub(super) fn new(
        link: Channel,
        stamp: Option<OwnedFd>,
        rights: Rights,
        idle: Option<Rights>,
        asker: Asker,
    ) -> io::Result<Self> {
        let stamp = stamp.map_or_else(Stamp::unread, Stamp::map)?;
        stamp.mark();
        Ok(Self {
            link,
            stamp,
            rights,
            idle,
            asker,
            redact: redact::Rules::default(),
            state: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    /// The server's start is over.
    pub(super) fn answered(&self) {
        if let Some(idle) = self.idle {
            self.stamp.answered(idle);
        }
    }

    /// Tells what happened. `false`: a call could not be put on record, and must not be passed on.
    #[must_use]
    pub(super) fn tell(&self, steps: Vec<Step>) -> bool {
        let mut passes = true;
        for step in steps {
            match step {
                Step::Begun(begun) => {
                    if let Err(error) = self.begin(&begun) {
                        tracing::debug!(error = %chain(&error), "a call cannot be put on record");
                        passes = false;
                    }
                }
                Step::Left(number, why) => self.leave(number, why),
                Step::Over(number, outcome) => self.over(number, &outcome),
                Step::Refused(refused) => self.refuse(&refused),
            }
        }
        passes
    }

    fn begin(&self, begun: &Begun) -> Result<(), ChannelError> {
        let since = Instant::now();
        let mark = self.stamp.reserve(begun.terms.rights.unwrap_or(self.rights));
        let bit = mark.bit();
        let call = {
            let mut state = lock(&self.state);
            state.last += 1;
            let live = Live {
                call: state.last,
                mark,
                since,
                begun: false,
                left: None,
                early: None,
            };
            state.live.insert(begun.number, live);
            state.last
        };
        let record = Box::new(self.beginning(begun));
        self.link.send(&Told::Begin { call, bit, record }, &[])?;
        // Whoever passes calls on is one thread, so the word is ours.
        let (noted, _) = self.link.receive::<Noted>()?;
        if noted.call != call {
            return Err(ChannelError::Closed);
        }
        let mut state = lock(&self.state);
        if let Some(live) = state.live.get_mut(&begun.number) {
            if live.early.is_none() {
                live.begun = true;
                self.stamp.begin(&live.mark);
            } else if let Some(live) = state.live.remove(&begun.number)
                && let Some(record) = live.early
            {
                self.send_end(call, record);
                self.stamp.free(live.mark);
            }
        }
        Ok(())
    }

    fn leave(&self, number: u64, why: Left) {
        let status = match why {
            Left::Cancelled => Status::Cancelled,
            Left::TimedOut => Status::Timeout,
        };
        if let Some(live) = lock(&self.state).live.get_mut(&number) {
            live.left = Some((Instant::now(), status));
            self.stamp.leave(&live.mark);
        }
    }

    /// Takes the marks of the calls that are over, before their clients know: what the server does for a next one is not
    /// theirs.
    pub(super) fn unmark(&self, steps: Vec<Step>) -> Vec<Unmarked> {
        let unmark = |step| match step {
            Step::Over(number, outcome) => Unmarked::Over(number, self.take(number), outcome, Instant::now()),
            other => Unmarked::Step(other),
        };
        steps.into_iter().map(unmark).collect()
    }

    /// Tells of them.
    pub(super) fn tell_unmarked(&self, unmarked: Vec<Unmarked>) {
        for unmarked in unmarked {
            match unmarked {
                Unmarked::Over(number, taken, outcome, now) => self.ended(number, taken, &outcome, now),
                Unmarked::Step(step) => {
                    // The server begins no call.
                    let _ = self.tell(vec![step]);
                }
            }
        }
    }

    fn over(&self, number: u64, outcome: &Outcome) {
        let now = Instant::now();
        self.ended(number, self.take(number), outcome, now);
    }

    fn ended(&self, number: u64, taken: Taken, outcome: &Outcome, now: Instant) {
        if matches!(taken, Taken::Nobody) {
            return;
        }
        let mut record = Box::new(self.end(outcome));
        let live = match taken {
            Taken::Nobody => return,
            Taken::Begun(live) => live,
            Taken::NotBegun => {
                let mut state = lock(&self.state);
                if let Some(live) = state.live.get_mut(&number)
                    && !live.begun
                {
                    record.duration_us = Some(micros(now.saturating_duration_since(live.since)));
                    live.early = Some(record);
                    return;
                }
                drop(state);
                // Passed on in the meantime.
                match self.take(number) {
                    Taken::Begun(live) => live,
                    _ => return,
                }
            }
        };
        let until = match live.left {
            Some((at, status)) => {
                record.status = Some(status);
                at
            }
            None => now,
        };
        record.duration_us = Some(micros(until.saturating_duration_since(live.since)));
        self.send_end(live.call, record);
        // Told before its bit can be another's.
        self.stamp.free(live.mark);
    }

    fn take(&self, number: u64) -> Taken {
        let mut state = lock(&self.state);
        match state.live.get(&number) {
            None => Taken::Nobody,
            Some(live) if !live.begun => Taken::NotBegun,
            Some(live) => {
                self.stamp.end(&live.mark, live.left.is_some());
                state.live.remove(&number).map_or(Taken::Nobody, Taken::Begun)
            }
        }
    }

    /// A warden that is gone closes it by itself.
    fn send_end(&self, call: u64, record: Box<audit::Call>) {
        if let Err(error) = self.link.send(&Told::End { call, record }, &[]) {
            tracing::debug!(error = %chain(&error), "the end of a call is not told");
        }
    }

    /// Requests whose calls have taken longer than this.
    pub(super) fn overdue(&self, limit: Duration) -> Vec<u64> {
        let state = lock(&self.state);
        let overdue = state
            .live
            .iter()
            .filter(|(_, live)| live.begun && live.left.is_none() && live.since.elapsed() >= limit);
        overdue.map(|(number, _)| *number).collect()
    }

    /// Those that nobody has waited for in a long time are over.
    pub(super) fn forget_left(&self) {
        self.end_left(LINGER);
    }

    /// Nothing is answered any more: what waited to be told is.
    pub(super) fn finish(&self) {
        self.end_left(Duration::ZERO);
        let counts: Vec<(String, u64)> = lock(&self.refused)
            .iter_mut()
            .map(|(rule, count)| {
                (
                    rule.clone(),
                    count.all - std::mem::replace(&mut count.told, count.all),
                )
            })
            .filter(|(_, repeat)| *repeat > 0)
            .collect();
        for (rule, repeat) in counts {
            let mut record = self.blank(Phase::End);
            record.status = Some(Status::Denied);
            record.gates = vec![Verdict::deny("form", &rule, "refused alike")];
            record.repeat = Some(repeat.into());
            self.send_refused(record);
        }
    }

    fn end_left(&self, after: Duration) {
        let left: Vec<u64> = lock(&self.state)
            .live
            .iter()
            .filter(|(_, live)| live.left.is_some_and(|(since, _)| since.elapsed() >= after))
            .map(|(number, _)| *number)
            .collect();
        for number in left {
            self.over(number, &Outcome::Late);
        }
    }

    fn refuse(&self, refused: &Refused) {
        // A call that was denied has its record, however many there are.
        let repeat = if refused.call.is_some() {
            None
        } else {
            let mut counts = lock(&self.refused);
            let count = counts.entry(refused.rule.to_string()).or_default();
            count.all += 1;
            if count.all > EACH && !count.all.is_power_of_two() {
                return;
            }
            let since = count.all - count.told;
            count.told = count.all;
            (since > 1).then_some(since - 1)
        };
        let mut record = match &refused.call {
            Some(call) => self.beginning(call),
            None => self.blank(Phase::End),
        };
        record.phase = Phase::End;
        let method = refused
            .method
            .as_deref()
            .map(|method| self.text(method, &mut record));
        record.method = method;
        if refused.call.is_none() {
            record.arguments_bytes = Some(number(refused.bytes));
        }
        // It may name what was asked for.
        let why = self.text(&refused.why, &mut record);
        record.gates = vec![Verdict::deny(refused.gate, &refused.rule, &why)];
        record.status = Some(Status::Denied);
        record.repeat = repeat.map(Into::into);
        self.send_refused(record);
    }

    fn send_refused(&self, record: audit::Call) {
        let record = Box::new(record);
        if let Err(error) = self.link.send(&Told::Refused { record }, &[]) {
            tracing::debug!(error = %chain(&error), "a refusal is not told");
        }
    }

    fn blank(&self, phase: Phase) -> audit::Call {
        audit::Call {
            session: String::new(),
            server: String::new(),
            call: None,
            phase,
            flow: self.asker.flow.clone(),
            identity: self.asker.identity.clone(),
            method: None,
            tool: None,
            prompt: None,
            uri: None,
            arguments: None,
            arguments_bytes: None,
            gates: Vec::new(),
            status: None,
            duration_us: None,
            result: None,
            error: None,
            output_bytes: None,
            redacted: std::collections::BTreeMap::new(),
            kernel: None,
            repeat: None,
        }
    }

    fn beginning(&self, begun: &Begun) -> audit::Call {
        let mut record = self.blank(Phase::Begin);
        record.method = Some(begun.method.name().to_owned());
        let name = begun.name.as_deref().map(|name| self.text(name, &mut record));
        match begun.method {
            Method::ToolsCall => record.tool = name,
            Method::PromptsGet => record.prompt = name,
            Method::ResourcesRead => record.uri = name,
        }
        if let Some(arguments) = &begun.arguments {
            let told = self.json(arguments, &mut record);
            record.arguments = told;
            record.arguments_bytes = Some(number(arguments.bytes));
        }
        record.gates = vec![Verdict::allow("form")];
        if let Some(rule) = &begun.terms.rule {
            let impact = Verdict {
                rule: Some(rule.clone()),
                ..Verdict::allow("impact")
            };
            record.gates.extend([Verdict::allow("identity"), impact]);
        }
        record
    }

    fn end(&self, outcome: &Outcome) -> audit::Call {
        let mut record = self.blank(Phase::End);
        match outcome {
            Outcome::Answered { result, failed, text } => {
                record.status = Some(if *failed { Status::Error } else { Status::Ok });
                record.output_bytes = Some(number(text.bytes));
                let told = self.json(text, &mut record);
                if *result {
                    record.result = told;
                } else {
                    record.error = told;
                }
            }
            Outcome::Failed(rule) => {
                record.status = Some(Status::Error);
                record.error = Some(serde_json::json!({ "rule": rule }).to_string());
            }
            Outcome::Late => record.status = Some(Status::Cancelled),
        }
        record
    }

    /// Without secrets and personal data. What cannot be looked through is not told.
    fn json(&self, text: &Text, record: &mut audit::Call) -> Option<String> {
        let redacted = self.redact.json(text.text.as_deref()?).ok()?;
        counted(record, &redacted);
        String::from_utf8(redacted.bytes).ok()
    }

    fn text(&self, text: &str, record: &mut audit::Call) -> String {
        let redacted = self.redact.text(text);
        counted(record, &redacted);
        String::from_utf8_lossy(&redacted.bytes).into_owned()
    }
}

fn counted(record: &mut audit::Call, redacted: &redact::Redacted) {
    for (rule, count) in &redacted.matches {
        let counts = record.redacted.entry(rule.name().to_owned()).or_default();
        counts.0 += *count as u64;
    }
}

fn number(bytes: usize) -> Number {
    Number(bytes as u64)
}

fn micros(duration: Duration) -> Number {
    Number(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}
