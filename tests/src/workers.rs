//! Processes that do one thing without a pause until they are told otherwise.

#![expect(
    clippy::unwrap_used,
    missing_docs,
    reason = "a step that fails is a test that fails"
)]

use std::{
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::arena::Subject;

/// Longer than anything here takes on an emulator that others use, too.
const PATIENCE: Duration = Duration::from_secs(120);

/// As orders take a path.
pub fn hex(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits for something that others bring about.
pub fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !seen() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// What opens came to, and what was done beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub opens: u64,
    /// Of files that may be read.
    pub own: u64,
    /// Of others: bytes that must not be had.
    pub others: u64,
    pub refused: u64,
    pub absent: u64,
    /// Failed otherwise, and the first error.
    pub odd: u64,
    pub first_odd: u64,
    pub moves: u64,
    pub failed_moves: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.opens += other.opens;
        self.own += other.own;
        self.others += other.others;
        self.refused += other.refused;
        self.absent += other.absent;
        self.odd += other.odd;
        self.first_odd = self.first_odd.max(other.first_odd);
        self.moves += other.moves;
        self.failed_moves += other.failed_moves;
    }

    pub fn read(answer: &str) -> Self {
        let numbers: Vec<u64> = answer.split(' ').map_while(|word| word.parse().ok()).collect();
        let [
            opens,
            own,
            others,
            refused,
            absent,
            odd,
            first_odd,
            moves,
            failed_moves,
        ] = numbers[..]
        else {
            panic!("{answer:?}");
        };
        Self {
            opens,
            own,
            others,
            refused,
            absent,
            odd,
            first_odd,
            moves,
            failed_moves,
        }
    }
}

/// Opens a path without a pause.
pub struct Opener(Subject);

impl Opener {
    pub fn start(mut subject: Subject, path: &Path) -> Self {
        subject.tell(&format!("race 0 0 {}", hex(path)));
        Self(subject)
    }

    /// What came of it, and the process again.
    pub fn stop(mut self) -> (Tally, Subject) {
        let tally = Tally::read(&stop(&mut self.0));
        (tally, self.0)
    }
}

/// A process of no sandbox that does what programs do.
pub struct Ordinary {
    subject: Subject,
    at: PathBuf,
}

impl Ordinary {
    /// `pause`: between the rounds, where others need the processor.
    pub fn start(at: &Path, pause: Duration) -> Self {
        fs::create_dir(at).unwrap();
        let mut subject = Subject::start();
        subject.tell(&format!("ordinary {} {}", hex(at), pause.as_millis()));
        let ordinary = Self {
            subject,
            at: at.to_owned(),
        };
        ordinary.goes_on("at first");
        ordinary
    }

    fn rounds(&self) -> u64 {
        let text = fs::read_to_string(self.at.join("rounds")).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    /// Waits until it has done all of it twice more: once from its beginning to its end.
    pub fn goes_on(&self, when: &str) {
        let before = self.rounds();
        until(&format!("ordinary work goes on {when}"), || {
            self.rounds() >= before + 2
        });
    }

    /// Nothing of it failed; how many rounds there were.
    pub fn unharmed(mut self) -> u64 {
        let answer = stop(&mut self.subject);
        let [rounds, failed] = answer.splitn(3, ' ').take(2).collect::<Vec<_>>()[..] else {
            panic!("{answer:?}");
        };
        assert_eq!(failed, "0", "{answer}");
        rounds.parse().unwrap()
    }
}

/// Ends what a worker does with an order that is none.
pub fn stop(subject: &mut Subject) -> String {
    subject.tell("stop");
    let answer = subject.heard();
    assert_eq!(subject.heard(), "not an order");
    answer
}
