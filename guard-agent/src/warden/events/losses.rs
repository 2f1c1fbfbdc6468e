//! What a session's records cannot tell, as counts that only grow, and the gaps that tell the counts.
#![forbid(unsafe_code)]

use super::backoff::Backoff;
use crate::{
    audit::{Gap, GapKind},
    warden::subject::Subject,
};

#[derive(Debug)]
struct Tally {
    kind: GapKind,
    /// Counted here.
    ours: u64,
    /// Counted by the kernel half since the session began.
    kernel: u64,
    told: u64,
    when: Backoff,
}

impl Tally {
    fn total(&self) -> u64 {
        self.ours.saturating_add(self.kernel)
    }

    /// What was not told yet, as told from now on.
    fn news(&mut self) -> u64 {
        let news = self.total().saturating_sub(self.told);
        self.told = self.total();
        news
    }
}

/// One count a kind of gap. Told soon after it first grows, then ever more rarely, and at the end.
#[derive(Debug)]
pub(super) struct Losses([Tally; 4]);

impl Default for Losses {
    fn default() -> Self {
        let kinds = [
            GapKind::RingFull,
            GapKind::Unread,
            GapKind::OverBudget,
            GapKind::AllowedLost,
        ];
        Self(kinds.map(|kind| Tally {
            kind,
            ours: 0,
            kernel: 0,
            told: 0,
            when: Backoff::default(),
        }))
    }
}

impl Losses {
    fn of(&mut self, kind: GapKind) -> Option<&mut Tally> {
        self.0.iter_mut().find(|tally| tally.kind == kind)
    }

    pub(super) fn add(&mut self, kind: GapKind, count: u64) {
        if let Some(tally) = self.of(kind) {
            tally.ours = tally.ours.saturating_add(count);
        }
    }

    /// What the kernel half has counted since the session began.
    pub(super) fn kernel(&mut self, kind: GapKind, total: u64) {
        if let Some(tally) = self.of(kind) {
            tally.kernel = tally.kernel.max(total);
        }
    }

    pub(super) fn total(&self, kind: GapKind) -> u64 {
        let tally = self.0.iter().find(|tally| tally.kind == kind);
        tally.map_or(0, Tally::total)
    }

    /// Gaps that are due at this tick; all of them when it is the last. Until then one kind may be held back.
    pub(super) fn due(
        &mut self,
        subject: &Subject,
        tick: u64,
        last: bool,
        held: Option<GapKind>,
    ) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for tally in &mut self.0 {
            if !last && (held == Some(tally.kind) || !tally.when.is_due(tick)) {
                continue;
            }
            let news = tally.news();
            if news > 0 {
                tally.when.told(tick);
                gaps.push(gap(subject, tally.kind, news));
            }
        }
        gaps
    }

    /// The gap of one kind now, whatever is due.
    pub(super) fn now(&mut self, subject: &Subject, kind: GapKind) -> Option<Gap> {
        let news = self.of(kind)?.news();
        (news > 0).then(|| gap(subject, kind, news))
    }
}

fn gap(subject: &Subject, kind: GapKind, count: u64) -> Gap {
    Gap::counted(Some(subject.session.clone()), kind, count).of_call(subject.call)
}
