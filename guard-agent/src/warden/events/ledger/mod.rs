//! The attempts of one sandbox on their way to records: the same ones collapse, each kind has a byte budget, and
//! everything is counted once, so that a hostile server can neither fill the disk nor silence the log.
//!
//! attempts = first records + their repeats + over budget + lost in the kernel, exactly.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet, VecDeque};

use super::{attempt::Key, backoff::Backoff, losses::Losses};
use crate::{
    audit::{Activity, Attribution, Body, Gap, GapKind, Kernel},
    warden::subject::Subject,
};

/// Bytes of records about denials a sandbox may write.
const DENIED_BUDGET: usize = 1 << 20;
/// The same of what was allowed: of its own, so that it never displaces a denial.
const ALLOWED_BUDGET: usize = 256 << 10;
/// What each call of the client adds, up to the whole: a server makes no calls by itself.
const DENIED_A_CALL: usize = 32 << 10;
const ALLOWED_A_CALL: usize = 16 << 10;
/// Different ones remembered; a further one is counted.
const MOST_DENIED: usize = 1024;
const MOST_ALLOWED: usize = 512;
/// What the envelope adds to a record.
const ENVELOPE: usize = 260;

#[derive(Debug)]
struct Row {
    record: Box<Kernel>,
    repeats: u64,
    when: Backoff,
}

/// Attempts that were recorded, and what they may cost.
#[derive(Debug)]
struct Book {
    rows: HashMap<Key, Row>,
    operations: HashSet<String>,
    spent: usize,
    budget: usize,
    /// The most that may be left of it.
    whole: usize,
    most: usize,
    /// Something had no room: nothing new is taken, what is left is for repeats.
    full: bool,
}

impl Book {
    fn new(budget: usize, most: usize) -> Self {
        Self {
            rows: HashMap::new(),
            operations: HashSet::new(),
            spent: 0,
            budget,
            whole: budget,
            most,
            full: false,
        }
    }

    /// The operation, when it was recorded before.
    fn repeated(&mut self, key: &Key) -> Option<&str> {
        let row = self.rows.get_mut(key)?;
        row.repeats += 1;
        Some(&row.record.op)
    }

    /// The record of an attempt not seen before, unless it is over the budget.
    fn first(
        &mut self,
        key: Key,
        op: &str,
        tick: u64,
        record: impl FnOnce(&Key) -> Kernel,
    ) -> Option<Box<Kernel>> {
        // The first of each operation is always written, or a thousand connects would buy silence for what follows.
        // There are as many operations as the filter and the programs have names for.
        let first = !self.operations.contains(op);
        // A record is not even made when there is no room: a flood of different attempts must stay cheap.
        if !first && (self.full || self.rows.len() >= self.most) {
            return None;
        }
        let record = Box::new(record(&key));
        let size = size(&record);
        if !first && self.spent + size > self.budget {
            self.full = true;
            return None;
        }
        if first {
            self.operations.insert(op.to_owned());
        }
        self.spent += size;
        let mut when = Backoff::default();
        when.told(tick);
        let row = Row {
            record: record.clone(),
            repeats: 0,
            when,
        };
        self.rows.insert(key, row);
        Some(record)
    }

    /// A call has begun.
    fn refill(&mut self, bytes: usize) {
        self.budget = (self.budget + bytes).min(self.spent + self.whole);
        self.full = false;
    }

    /// Records of the repeats that are due, and how many went over the budget.
    fn due(&mut self, tick: u64, last: bool) -> (Vec<Body>, u64) {
        let mut told = Repeats::default();
        for row in self.rows.values_mut() {
            if row.repeats > 0 && (last || row.when.is_due(tick)) {
                row.when.told(tick);
                told.tell(row, &mut self.spent, self.budget);
            }
        }
        (told.records, told.over)
    }

    /// The same of all that happened in a call, which cannot be repeated any more.
    fn retire(&mut self, call: u64) -> (Vec<Body>, u64) {
        let mut told = Repeats::default();
        let (spent, budget) = (&mut self.spent, self.budget);
        self.rows.retain(|key, row| {
            let over = key.during().calls.contains(&call);
            if over && row.repeats > 0 {
                told.tell(row, spent, budget);
            }
            !over
        });
        (told.records, told.over)
    }
}

#[derive(Default)]
struct Repeats {
    records: Vec<Body>,
    over: u64,
}

impl Repeats {
    fn tell(&mut self, row: &mut Row, spent: &mut usize, budget: usize) {
        let count = std::mem::take(&mut row.repeats);
        let mut record = row.record.clone();
        record.repeat = Some(count.into());
        let size = size(&record);
        if *spent + size > budget {
            self.over += count;
        } else {
            *spent += size;
            self.records.push(Body::Kernel(record));
        }
    }
}

/// Counts an attempt for the calls it may belong to, whether or not there is room for a record.
fn note(activities: &mut HashMap<u64, Activity>, key: &Key, op: &str) {
    for call in &key.during().calls {
        if let Some(activity) = activities.get_mut(call) {
            activity.note(op, key.allowed());
        }
    }
}

/// What a record costs, so that a budget is one of bytes on the disk.
fn size(record: &Kernel) -> usize {
    serde_json::to_vec(record).map_or(DENIED_BUDGET, |bytes| bytes.len() + ENVELOPE)
}

/// All of one sandbox.
#[derive(Debug)]
pub(in crate::warden) struct Ledger {
    subject: Subject,
    denied: Book,
    allowed: Book,
    losses: Losses,
    /// What happened so far in each call in flight.
    activities: HashMap<u64, Activity>,
    pending: VecDeque<Body>,
    tick: u64,
    /// The first gap of what is over the budget is the quarantine's to tell.
    quarantine: bool,
}

impl Ledger {
    pub(in crate::warden) fn new(subject: &Subject, quarantine: bool) -> Self {
        Self {
            subject: subject.clone(),
            denied: Book::new(DENIED_BUDGET, MOST_DENIED),
            allowed: Book::new(ALLOWED_BUDGET, MOST_ALLOWED),
            losses: Losses::default(),
            activities: HashMap::new(),
            pending: VecDeque::new(),
            tick: 0,
            quarantine,
        }
    }

    /// Counts an attempt that was recorded before. `false`: it was not.
    pub(super) fn repeated(&mut self, key: &Key) -> bool {
        let book = if key.allowed() {
            &mut self.allowed
        } else {
            &mut self.denied
        };
        let Some(op) = book.repeated(key) else {
            return false;
        };
        note(&mut self.activities, key, op);
        true
    }

    /// Takes an attempt that `repeated` does not know. Its record is made only if there is room.
    pub(super) fn first(&mut self, key: Key, op: &str, record: impl FnOnce(&Key) -> Kernel) {
        note(&mut self.activities, &key, op);
        let over = if key.allowed() {
            GapKind::AllowedLost
        } else {
            GapKind::OverBudget
        };
        let book = if key.allowed() {
            &mut self.allowed
        } else {
            &mut self.denied
        };
        let record = |key: &Key| {
            let mut record = record(key);
            record.session.clone_from(&self.subject.session);
            record.server.clone_from(&self.subject.server);
            // Whatever happens in the sandbox of one call is that call's: nothing else ever ran there.
            if let Some(call) = self.subject.call() {
                (record.calls, record.attribution) = (vec![call], Attribution::Exact);
            }
            record
        };
        match book.first(key, op, self.tick, record) {
            Some(record) => self.pending.push_back(Body::Kernel(record)),
            None => self.losses.add(over, 1),
        }
    }

    /// A call is in flight from now on.
    pub(super) fn call_begins(&mut self, call: u64) {
        self.activities.insert(call, Activity::default());
        self.denied.refill(DENIED_A_CALL);
        self.allowed.refill(ALLOWED_A_CALL);
    }

    /// It is over: what happened in it, or in others at the same time. What is not told of that yet is to be told first.
    pub(super) fn call_ends(&mut self, call: u64) -> Activity {
        let (records, over) = self.denied.retire(call);
        self.pending.extend(records);
        self.losses.add(GapKind::OverBudget, over);
        let (records, over) = self.allowed.retire(call);
        self.pending.extend(records);
        self.losses.add(GapKind::AllowedLost, over);
        self.activities.remove(&call).unwrap_or_default()
    }

    /// What the kernel had no room for since the session began, and what was reported but could not be read.
    pub(in crate::warden) fn lost(&mut self, denied: u64, allowed: u64, unread: u64) {
        self.losses.kernel(GapKind::RingFull, denied);
        self.losses.kernel(GapKind::AllowedLost, allowed);
        self.losses.kernel(GapKind::Unread, unread);
    }

    /// Runs of programs that the kernel has skipped since the session began.
    pub(in crate::warden) fn skipped(&mut self, telling: u64, decisions: u64) {
        self.losses.kernel(GapKind::ProgramsSkipped, telling);
        self.losses.kernel(GapKind::HooksSkipped, decisions);
    }

    /// A moment has passed: repeats and losses that are due become records.
    pub(in crate::warden) fn tick(&mut self) {
        self.tick += 1;
        self.tell(false);
    }

    /// All that is not told yet, at the end.
    pub(in crate::warden) fn finish(&mut self) {
        self.tell(true);
    }

    fn tell(&mut self, last: bool) {
        let (records, over) = self.denied.due(self.tick, last);
        self.pending.extend(records);
        self.losses.add(GapKind::OverBudget, over);
        let (records, over) = self.allowed.due(self.tick, last);
        self.pending.extend(records);
        self.losses.add(GapKind::AllowedLost, over);
        let held = self.quarantine.then_some(GapKind::OverBudget);
        let gaps = self.losses.due(&self.subject, self.tick, last, held);
        self.pending.extend(gaps.into_iter().map(Body::Gap));
    }

    pub(in crate::warden) fn has_news(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The next records to write, at most so many.
    pub(in crate::warden) fn take(&mut self, most: usize) -> Vec<Body> {
        let count = self.pending.len().min(most);
        self.pending.drain(..count).collect()
    }

    /// Whether denials went over the budget.
    pub(in crate::warden) fn is_over(&self) -> bool {
        self.losses.total(GapKind::OverBudget) > 0
    }

    /// The gap of what went over the budget, to be written at once.
    pub(in crate::warden) fn over(&mut self) -> Option<Gap> {
        self.quarantine = false;
        self.losses.now(&self.subject, GapKind::OverBudget)
    }
}

#[cfg(test)]
mod tests;
