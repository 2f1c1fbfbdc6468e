//! The attempts of one sandbox on their way to records: the same ones collapse, each kind has a byte budget, and
//! everything is counted once, so that a hostile server can neither fill the disk nor silence the log.
//!
//! attempts = first records + their repeats + over budget + lost in the kernel, exactly.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet, VecDeque};

use super::{attempt::Key, backoff::Backoff, losses::Losses};
use crate::{
    audit::{Attribution, Body, Gap, GapKind, Kernel},
    warden::subject::Subject,
};

/// Bytes of records about denials a sandbox may write.
const DENIED_BUDGET: usize = 1 << 20;
/// The same of what was allowed: of its own, so that it never displaces a denial.
const ALLOWED_BUDGET: usize = 256 << 10;
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
            most,
            full: false,
        }
    }

    fn repeated(&mut self, key: &Key) -> bool {
        match self.rows.get_mut(key) {
            Some(row) => {
                row.repeats += 1;
                true
            }
            None => false,
        }
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

    /// Records of the repeats that are due, and how many went over the budget.
    fn due(&mut self, tick: u64, last: bool) -> (Vec<Body>, u64) {
        let (mut records, mut over) = (Vec::new(), 0);
        for row in self.rows.values_mut() {
            if row.repeats == 0 || !(last || row.when.is_due(tick)) {
                continue;
            }
            row.when.told(tick);
            let count = std::mem::take(&mut row.repeats);
            let mut record = row.record.clone();
            record.repeat = Some(count.into());
            let size = size(&record);
            if self.spent + size > self.budget {
                over += count;
                continue;
            }
            self.spent += size;
            records.push(Body::Kernel(record));
        }
        (records, over)
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
        book.repeated(key)
    }

    /// Takes an attempt that `repeated` does not know. Its record is made only if there is room.
    pub(super) fn first(&mut self, key: Key, op: &str, record: impl FnOnce(&Key) -> Kernel) {
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

    /// What the kernel had no room for since the session began, and what was reported but could not be read.
    pub(in crate::warden) fn lost(&mut self, denied: u64, allowed: u64, unread: u64) {
        self.losses.kernel(GapKind::RingFull, denied);
        self.losses.kernel(GapKind::AllowedLost, allowed);
        self.losses.kernel(GapKind::Unread, unread);
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        audit::{Decision, Layer},
        octets::Octets,
        warden::events::attempt::{Given, To, Who, blank},
    };

    const WHO: Who = Who { pid: 1, tid: 1 };

    fn subject() -> Subject {
        Subject::test("server", None)
    }

    /// The events of one call's sandbox are that call's, and so are what is missing of them.
    #[test]
    fn a_sandbox_of_a_call_is_that_calls_alone() {
        let mut ledger = Ledger::new(&Subject::test("server", Some(7)), false);
        attempt(&mut ledger, connect(1), "connect");
        attempt(&mut ledger, connect(1), "connect");
        ledger.lost(3, 0, 0);
        ledger.finish();
        let told = ledger.take(usize::MAX);
        let mut kinds = Vec::new();
        for body in &told {
            let value = serde_json::to_value(body).unwrap();
            assert_eq!(value["session"], "s");
            match body {
                Body::Kernel(kernel) => {
                    assert_eq!(
                        (kernel.calls.as_slice(), kernel.attribution),
                        (&["7".to_owned()][..], Attribution::Exact)
                    );
                    kinds.push("kernel");
                }
                _ => {
                    assert_eq!(value["call"], "7");
                    kinds.push("gap");
                }
            }
        }
        assert_eq!(kinds, ["kernel", "kernel", "gap"]);
        // Without a call nothing is claimed.
        let mut ledger = Ledger::new(&subject(), false);
        attempt(&mut ledger, connect(1), "connect");
        let told = ledger.take(usize::MAX);
        let [Body::Kernel(kernel)] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert!(kernel.calls.is_empty() && kernel.attribution == Attribution::Idle);
    }

    fn connect(port: u16) -> Key {
        Key::Net {
            op: 1,
            family: 2,
            kind: 1,
            protocol: 6,
            reason: 1,
            errno: 1,
            to: To::Internet(std::net::SocketAddr::from(([192, 0, 2, 1], port))),
        }
    }

    fn opened(name: u32) -> Key {
        Key::Call {
            nr: 2,
            errno: 0,
            args: [0; 6],
            first: Some(Given {
                bytes: format!("/srv/{name}").into_bytes(),
                complete: true,
            }),
            second: None,
            to: None,
            process: 0,
        }
    }

    fn attempt(ledger: &mut Ledger, key: Key, op: &'static str) {
        if ledger.repeated(&key) {
            return;
        }
        let decision = if key.allowed() {
            Decision::Allow
        } else {
            Decision::Deny
        };
        ledger.first(key, op, |_| blank(op.into(), decision, Layer::Unknown, WHO));
    }

    /// Records, repeats, gaps by kind, bytes.
    #[derive(Debug, Default)]
    struct Told {
        first: u64,
        repeated: u64,
        over: u64,
        allowed_lost: u64,
        other: u64,
        gaps: u64,
        bytes: usize,
    }

    impl Told {
        fn take(&mut self, ledger: &mut Ledger) {
            for body in ledger.take(usize::MAX) {
                match body {
                    Body::Kernel(kernel) => {
                        self.bytes += size(&kernel);
                        match &kernel.repeat {
                            None => self.first += 1,
                            Some(repeat) => self.repeated += repeat.0,
                        }
                    }
                    Body::Gap(gap) => {
                        self.gaps += 1;
                        let lost = gap.gap.lost.map_or(0, |lost| lost.0);
                        match gap.gap.kind {
                            GapKind::OverBudget => self.over += lost,
                            GapKind::AllowedLost => self.allowed_lost += lost,
                            _ => self.other += lost,
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn every_attempt_is_counted_once() {
        let mut ledger = Ledger::new(&subject(), false);
        let mut told = Told::default();
        let attempts = 200_000u32;
        for number in 0..attempts {
            attempt(
                &mut ledger,
                connect(u16::try_from(number % 3000).unwrap()),
                "connect",
            );
            if number % 20_000 == 0 {
                ledger.tick();
                told.take(&mut ledger);
            }
        }
        ledger.finish();
        told.take(&mut ledger);
        assert_eq!(
            told.first + told.repeated + told.over,
            u64::from(attempts),
            "{told:?}"
        );
        assert!(
            told.over > 0 && told.repeated > 0 && told.first == MOST_DENIED as u64,
            "{told:?}"
        );
        assert!(told.bytes <= DENIED_BUDGET);
    }

    #[test]
    fn a_flood_of_one_kind_does_not_hide_another() {
        let mut ledger = Ledger::new(&subject(), false);
        for port in 0..5000 {
            attempt(&mut ledger, connect(port), "connect");
            ledger.tick();
        }
        let _ = ledger.take(usize::MAX);
        let ptrace = || Key::Refused {
            nr: 101,
            args: [0; 6],
        };
        attempt(&mut ledger, ptrace(), "ptrace");
        assert_eq!(ledger.take(usize::MAX).len(), 1);
        attempt(&mut ledger, ptrace(), "ptrace");
        assert!(!ledger.has_news());
    }

    #[test]
    fn what_is_allowed_displaces_no_denial() {
        let mut ledger = Ledger::new(&subject(), false);
        for number in 0..5000 {
            attempt(&mut ledger, opened(number), "open");
        }
        let mut told = Told::default();
        told.take(&mut ledger);
        assert!(told.bytes <= ALLOWED_BUDGET);
        assert!(!ledger.is_over(), "only denials can bring about a quarantine");
        attempt(&mut ledger, connect(1), "connect");
        attempt(&mut ledger, connect(2), "connect");
        assert_eq!(ledger.take(usize::MAX).len(), 2);
        ledger.finish();
        told.take(&mut ledger);
        assert_eq!((told.first + told.allowed_lost, told.over), (5000, 0));
    }

    /// With records as long as a path may be, bytes run out before the number of different ones does.
    #[test]
    fn long_records_end_at_the_bytes() {
        let denied: fn(u32) -> Key = |number| connect(u16::try_from(number).unwrap());
        for (budget, most, op, key) in [
            (DENIED_BUDGET, MOST_DENIED, "connect", denied),
            (ALLOWED_BUDGET, MOST_ALLOWED, "open", opened),
        ] {
            let mut ledger = Ledger::new(&subject(), false);
            let (mut told, attempts) = (Told::default(), 2000);
            // The second round is one of repeats, and of what the first had no room for.
            for number in (0..attempts).chain(0..attempts) {
                let key = key(number);
                if ledger.repeated(&key) {
                    continue;
                }
                let decision = if key.allowed() {
                    Decision::Allow
                } else {
                    Decision::Deny
                };
                ledger.first(key, op, |_| Kernel {
                    path: Some(Octets(vec![b'x'; 4096])),
                    ..blank(op.into(), decision, Layer::Unknown, WHO)
                });
            }
            ledger.finish();
            told.take(&mut ledger);
            assert!(told.bytes <= budget, "{op}: {told:?}");
            assert!(
                told.first > 1 && told.first < most as u64 / 2,
                "{op}: it was not the bytes: {told:?}"
            );
            assert_eq!(
                told.first + told.repeated + told.over + told.allowed_lost,
                u64::from(attempts) * 2,
                "{op}"
            );
        }
    }

    #[test]
    fn the_first_gap_over_the_budget_waits_for_the_quarantine() {
        let mut ledger = Ledger::new(&subject(), true);
        for port in 0..2000 {
            attempt(&mut ledger, connect(port), "connect");
        }
        let _ = ledger.take(usize::MAX);
        ledger.tick();
        assert!(ledger.is_over() && !ledger.has_news());
        let gap = ledger.over().unwrap();
        assert_eq!(gap.gap.lost.map(|lost| lost.0), Some(2000 - MOST_DENIED as u64));
        for port in 2000..2010 {
            attempt(&mut ledger, connect(port), "connect");
        }
        ledger.tick();
        let mut told = Told::default();
        told.take(&mut ledger);
        assert_eq!(told.over, 10);
    }

    #[test]
    fn losses_are_told_while_the_session_lives_and_at_its_end() {
        let mut ledger = Ledger::new(&subject(), false);
        let mut told = Told::default();
        for lost in 1..=1000 {
            ledger.lost(lost, 0, 0);
            ledger.tick();
            if lost == 1 {
                assert!(ledger.has_news(), "the first loss is told at once");
            }
            told.take(&mut ledger);
        }
        assert!(told.gaps < 15, "{told:?}");
        ledger.lost(1000, 7, 3);
        ledger.finish();
        told.take(&mut ledger);
        assert_eq!((told.other, told.allowed_lost), (1003, 7));
        ledger.finish();
        assert!(!ledger.has_news(), "what was told is not told again");
    }

    #[test]
    fn one_denial_a_second_lasts_for_days() {
        let mut ledger = Ledger::new(&subject(), false);
        let (mut told, days) = (Told::default(), 3);
        for _ in 0..days * 86_400 {
            attempt(&mut ledger, connect(1), "connect");
            ledger.tick();
            told.take(&mut ledger);
        }
        ledger.finish();
        told.take(&mut ledger);
        assert_eq!((told.first + told.repeated, told.over), (days * 86_400, 0));
    }

    proptest! {
        #[test]
        fn the_sum_is_exact_whatever_happens(steps in proptest::collection::vec((0u16..40, 0u32..40, 0u8..10), 0..400)) {
            let mut ledger = Ledger::new(&subject(), false);
            ledger.denied.most = 20;
            ledger.allowed.budget = 5000;
            let (mut told, mut denied, mut allowed) = (Told::default(), 0, 0);
            for (port, file, step) in steps {
                match step {
                    0..5 => { attempt(&mut ledger, connect(port), "connect"); denied += 1; }
                    5..8 => { attempt(&mut ledger, opened(file), "open"); allowed += 1; }
                    8 => ledger.tick(),
                    _ => told.take(&mut ledger),
                }
            }
            ledger.finish();
            told.take(&mut ledger);
            prop_assert_eq!(told.first + told.repeated + told.over + told.allowed_lost, denied + allowed);
        }
    }
}
