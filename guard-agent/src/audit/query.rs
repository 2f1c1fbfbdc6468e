//! Every record that a filter admits, segment after segment, with what could not be read in between.
//! Each line's own hash is checked, not the links and signatures: that is for `verify`.

use std::{collections::BTreeSet, fs::File, io, path::Path};

use jiff::SignedDuration;
use nix::fcntl::OFlag;
use serde_json::Value;

use super::{
    chain::{Head, quick},
    dir::{AuditDir, segment_name},
    error::AuditError,
    filter::Filter,
    lines::{Line, Lines},
    open::explain,
    record::{Seq, Stamp},
    tail::Entry,
    verify::read_settled,
};

/// How far a clock that goes back may go before records are missed by skipping segments.
const CLOCK_STEP: SignedDuration = SignedDuration::from_hours(1);

/// A place where something is not as it was written. What stands around it is still read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub segment: String,
    /// From 1; 0 when it is the segment itself.
    pub line: u64,
    pub why: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.segment)?;
        if self.line > 0 {
            write!(f, " line {}", self.line)?;
        }
        write!(f, ": {}", self.why)
    }
}

/// Whether a directory holds no segment at all.
pub fn is_empty(path: &Path) -> Result<bool, AuditError> {
    Ok(AuditDir::open_reading(path)?.list()?.segments.is_empty())
}

#[derive(Debug)]
pub enum Found {
    Record(Entry),
    Damage(Damage),
}

/// A reader of a whole directory, in bounded memory. A writer may be at work in it.
pub struct Query {
    dir: AuditDir,
    filter: Filter,
    /// The segment that is read, or comes next.
    segment: u64,
    lines: Option<Lines<File>>,
    line: Vec<u8>,
    /// Lines of this segment so far.
    number: u64,
    /// A later segment exists: nothing more is added to this one.
    final_read: bool,
    /// The record that must come next, while nothing was skipped since the last.
    expected: Option<Seq>,
    /// A record found together with damage before it.
    pending: Option<Entry>,
    skipped: u64,
    over: bool,
}

impl Query {
    pub fn open(path: &Path, filter: Filter) -> Result<Self, AuditError> {
        Ok(Self {
            dir: AuditDir::open_reading(path)?,
            filter,
            segment: 1,
            lines: None,
            line: Vec::new(),
            number: 0,
            final_read: false,
            expected: Some(1),
            pending: None,
            skipped: 0,
            over: false,
        })
    }

    /// Names in the directory that are none of ours.
    pub fn foreign(&self) -> Result<Vec<String>, AuditError> {
        Ok(self.dir.list()?.foreign)
    }

    /// Segments that were passed over by their time.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next record or damage; `None` when everything that is there now was read.
    pub fn read_next(&mut self) -> Result<Option<Found>, AuditError> {
        if let Some(entry) = self.pending.take() {
            return Ok(Some(Found::Record(entry)));
        }
        while !self.over {
            if self.lines.is_none() {
                match self.open_segment() {
                    Ok(None) => continue,
                    other => return other,
                }
            }
            if let Some(found) = self.next_line() {
                return found.map(Some);
            }
        }
        Ok(None)
    }

    /// `None`: go on, with lines to read or at the next segment.
    fn open_segment(&mut self) -> Result<Option<Found>, AuditError> {
        let name = segment_name(self.segment);
        match self.dir.file(&name, OFlag::O_RDONLY) {
            Ok(file) if self.is_out_of_time(&file) => {
                self.skipped += 1;
                self.segment += 1;
                self.expected = None;
            }
            Ok(file) => {
                self.lines = Some(Lines::new(file));
                (self.number, self.final_read) = (0, false);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.missing(name),
            Err(error) => {
                let why = format!("it cannot be opened: {error}");
                return Ok(Some(self.leave_segment(name, 0, why)));
            }
        }
        Ok(None)
    }

    fn missing(&mut self, name: String) -> Result<Option<Found>, AuditError> {
        // Listed now, not at the start: a writer may have begun a new one since.
        let numbers: BTreeSet<u64> = self.dir.list()?.segments.into_iter().collect();
        if numbers.contains(&self.segment) {
            return Ok(None);
        }
        let Some(next) = numbers.range(self.segment..).next().copied() else {
            self.over = true;
            return Ok(None);
        };
        let why = format!("it is missing, `{}` is there", segment_name(next));
        self.expected = None;
        self.segment = next;
        Ok(Some(Found::Damage(Damage {
            segment: name,
            line: 0,
            why,
        })))
    }

    fn leave_segment(&mut self, segment: String, line: u64, why: String) -> Found {
        self.lines = None;
        self.segment += 1;
        self.expected = None;
        Found::Damage(Damage { segment, line, why })
    }

    /// Whether this segment and what follows it begin on the same side outside of what is asked for.
    fn is_out_of_time(&self, file: &File) -> bool {
        let begins = |file: &File| {
            let mut line = Vec::new();
            match Lines::new(file).next(&mut line, false) {
                Ok(Line::Whole) => quick(&line).ok().map(|head| head.time),
                _ => None,
            }
        };
        let first = || {
            let start = begins(file)?;
            // The file is read from its start again if it is not skipped.
            let next = self
                .dir
                .file(&segment_name(self.segment + 1), OFlag::O_RDONLY)
                .ok()?;
            Some((start, begins(&next)?))
        };
        let skip = |(start, next): (Stamp, Stamp)| {
            let before = self
                .filter
                .since
                .is_some_and(|since| start.max(next).plus(CLOCK_STEP) < since);
            let after = self
                .filter
                .until
                .is_some_and(|until| start.min(next) > until.plus(CLOCK_STEP));
            before || after
        };
        if self.filter.since.is_none() && self.filter.until.is_none() {
            return false;
        }
        let out = first().is_some_and(skip);
        let rewound = io::Seek::rewind(&mut &*file);
        out && rewound.is_ok()
    }

    /// The next line worth telling of; `None` at the end of the segment.
    fn next_line(&mut self) -> Option<Result<Found, AuditError>> {
        loop {
            let lines = self.lines.as_mut()?;
            let name = segment_name(self.segment);
            let read = read_settled(lines, &mut self.line);
            self.number += 1;
            let why = match read {
                Ok(Line::Whole) => match quick(&self.line) {
                    Ok(head) => match self.judge(&head, name) {
                        Some(found) => return Some(Ok(found)),
                        None => continue,
                    },
                    Err(error) => explain(&error),
                },
                Ok(Line::TooLong { .. }) => "it is longer than a record may be".into(),
                Ok(Line::Partial) => {
                    let why = "it has no end: its writer was interrupted".into();
                    return Some(Ok(self.leave_segment(name, self.number, why)));
                }
                Ok(Line::End) => {
                    self.number -= 1;
                    match self.at_end() {
                        Ok(true) => return None,
                        Ok(false) => continue,
                        Err(error) => return Some(Err(error)),
                    }
                }
                Err(error) => {
                    let why = format!("it cannot be read on from here: {error}");
                    return Some(Ok(self.leave_segment(name, self.number, why)));
                }
            };
            // How many records the damaged bytes were is not known.
            self.expected = None;
            return Some(Ok(Found::Damage(Damage {
                segment: name,
                line: self.number,
                why,
            })));
        }
    }

    /// Whether the segment is read to its end. Nothing is added to one once there is a later one: what came before
    /// that is read when the later one was seen.
    fn at_end(&mut self) -> Result<bool, AuditError> {
        if self.final_read {
            self.lines = None;
            self.segment += 1;
            return Ok(true);
        }
        let later = self.dir.list()?.segments.last() > Some(&self.segment);
        self.final_read = later;
        self.over = !later;
        Ok(!later)
    }

    /// A line whose hash is right: whether records are missing before it, and whether it is asked for.
    fn judge(&mut self, head: &Head, segment: String) -> Option<Found> {
        let expected = self.expected.replace(head.seq + 1);
        let entry = self.admitted(head);
        let expected = expected.filter(|expected| *expected != head.seq);
        let Some(expected) = expected else {
            return entry.map(Found::Record);
        };
        self.pending = entry;
        Some(Found::Damage(Damage {
            segment,
            line: self.number,
            why: format!("it is record {}, but record {expected} was to follow", head.seq),
        }))
    }

    fn admitted(&self, head: &Head) -> Option<Entry> {
        if !self.filter.admits_time(head.time) {
            return None;
        }
        let value: Value = serde_json::from_slice(&self.line).ok()?;
        // Its hash is right and it is JSON, so it is UTF-8 and nothing is replaced.
        self.filter.admits(&value).then(|| Entry {
            text: String::from_utf8_lossy(&self.line).into_owned(),
            value,
        })
    }
}
