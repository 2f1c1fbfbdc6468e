//! Proof that a chain is whole, or the first record that says otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use ed25519_dalek::VerifyingKey;
use nix::fcntl::OFlag;
use serde::Serialize;

use super::{
    chain::{Digest, Head, LineError, claimed_seq, strict},
    dir::{AuditDir, segment_name},
    error::AuditError,
    keys::public_keys,
    lines::{Line, Lines},
    open::explain,
    record::{Seq, Stamp},
};

/// Notes beyond these are counted only.
const MAX_NOTES: usize = 100;

#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// A directory with the public keys to trust, in place of the audit directory's own.
    pub keys: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    MissingSegment,
    BadJson,
    DuplicateKey,
    UnknownVersion,
    BadEnvelope,
    WrongHash,
    NotCanonical,
    TooLong,
    TornLine,
    WrongSeq,
    WrongPrev,
    WrongCheckpoint,
    UnknownKey,
    UnannouncedKey,
    BadSignature,
}

/// The first thing wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bad {
    pub segment: String,
    /// From 1; 0 when it is the segment itself.
    pub line: u64,
    /// What the line says its number is, or where it stands.
    pub seq: Option<Seq>,
    pub reason: Reason,
    pub why: String,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.segment)?;
        if self.line > 0 {
            write!(f, " line {}", self.line)?;
        }
        if let Some(seq) = self.seq {
            write!(f, " (record {seq})")?;
        }
        write!(f, ": {}", self.why)
    }
}

/// What was read. `records` and the rest count what stands before `first_bad`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub ok: bool,
    pub records: u64,
    pub segments: u64,
    pub checkpoints: u64,
    /// Number and hash of the last good record.
    pub head: Option<(Seq, Digest)>,
    /// Good records at the end that no signature covers: their removal could not be seen.
    pub unsigned: u64,
    /// Keys whose signatures were checked, in the order they came.
    pub keys: Vec<Digest>,
    pub first_bad: Option<Bad>,
    pub notes: Vec<String>,
    /// Notes there was no room for.
    pub more_notes: u64,
}

/// Reads a whole directory, in bounded memory, and stops at the first bad record. A writer may be at work in it.
pub fn verify(path: &Path, options: &VerifyOptions) -> Result<Report, AuditError> {
    let dir = AuditDir::open_reading(path)?;
    let listing = dir.list()?;
    let keys = public_keys(&options.keys.clone().unwrap_or_else(|| path.join("keys")));
    let keys = match keys {
        Ok(keys) => keys,
        // No record, no key: an empty directory is not an error of its own.
        Err(AuditError::Io { source, .. })
            if options.keys.is_none() && source.kind() == io::ErrorKind::NotFound =>
        {
            BTreeMap::new()
        }
        Err(error) => return Err(error),
    };
    let mut verifier = Verifier {
        keys,
        report: Report::default(),
        last_time: None,
        chain: None,
        expected_key: None,
    };
    for name in &listing.foreign {
        verifier.note(format!(
            "`{}` is no file of the audit and was not looked at",
            super::escape(name)
        ));
    }
    for (seq, name) in &listing.torn {
        verifier.note(format!("`{name}` holds what was cut out before record {seq}"));
    }
    verifier.run(&dir)?;
    let mut report = verifier.report;
    report.ok = report.first_bad.is_none();
    Ok(report)
}

struct Verifier {
    keys: BTreeMap<Digest, VerifyingKey>,
    report: Report,
    last_time: Option<Stamp>,
    chain: Option<Digest>,
    expected_key: Option<Digest>,
}

type Judged = Result<(), (Reason, String)>;

impl Verifier {
    fn note(&mut self, note: String) {
        if self.report.notes.len() < MAX_NOTES {
            self.report.notes.push(note);
        } else {
            self.report.more_notes += 1;
        }
    }

    fn run(&mut self, dir: &AuditDir) -> Result<(), AuditError> {
        for number in 1.. {
            let name = segment_name(number);
            let file = match dir.file(&name, OFlag::O_RDONLY) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // Listed now, not at the start: a writer may have begun a new one since.
                    let later: BTreeSet<u64> =
                        dir.list()?.segments.into_iter().filter(|n| *n > number).collect();
                    if let Some(next) = later.first() {
                        let why = format!("the segment is missing, `{}` is there", segment_name(*next));
                        self.bad(&name, 0, None, Reason::MissingSegment, why);
                    }
                    break;
                }
                Err(error) => return Err(AuditError::io("read audit segment", dir.path(&name), error)),
            };
            self.report.segments += 1;
            self.segment(&name, file)
                .map_err(|error| AuditError::io("read", dir.path(&name), error))?;
            if self.report.first_bad.is_some() {
                break;
            }
        }
        if self.report.first_bad.is_none() && self.report.records == 0 {
            self.note("there is no record".into());
        }
        Ok(())
    }

    fn bad(&mut self, segment: &str, line: u64, seq: Option<Seq>, reason: Reason, why: String) {
        self.report.first_bad = Some(Bad {
            segment: segment.to_owned(),
            line,
            seq,
            reason,
            why,
        });
    }

    fn segment(&mut self, name: &str, file: std::fs::File) -> io::Result<()> {
        let mut lines = Lines::new(file);
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            let read = read_settled(&mut lines, &mut line)?;
            number += 1;
            let expected = self.report.head.map_or(1, |(seq, _)| seq + 1);
            let judged = match read {
                Line::End => return Ok(()),
                Line::TooLong { .. } => {
                    Err((Reason::TooLong, "the line is longer than a record may be".into()))
                }
                Line::Partial => Err((
                    Reason::TornLine,
                    "the line has no end: a writer was interrupted".into(),
                )),
                Line::Whole => strict(&line)
                    .map_err(|error| (reason(&error), explain(&error)))
                    .and_then(|head| {
                        self.link(&head)?;
                        self.checkpoint(&head)?;
                        self.accept(&head);
                        Ok(())
                    }),
            };
            if let Err((reason, why)) = judged {
                let seq = claimed_seq(&line).unwrap_or(expected);
                self.bad(name, number, Some(seq), reason, why);
                return Ok(());
            }
        }
    }

    fn link(&self, head: &Head) -> Judged {
        let expected = self.report.head.map_or(1, |(seq, _)| seq + 1);
        if head.seq != expected {
            return Err((Reason::WrongSeq, format!("record {expected} was to follow")));
        }
        match self.report.head {
            Some((seq, hash)) if hash != head.prev => Err((
                Reason::WrongPrev,
                format!("it does not hang on record {seq} that stands before it"),
            )),
            _ => Ok(()),
        }
    }

    fn checkpoint(&mut self, head: &Head) -> Judged {
        let Some(checkpoint) = &head.checkpoint else {
            return Ok(());
        };
        if self.report.head != Some((checkpoint.seq, checkpoint.root)) {
            return Err((
                Reason::WrongCheckpoint,
                "it speaks of another record than the one before it".into(),
            ));
        }
        let id = checkpoint.key_id;
        if self.expected_key.is_some_and(|expected| expected != id) {
            return Err((
                Reason::UnannouncedKey,
                format!("key `{id}` signs, but was not announced by the key before"),
            ));
        }
        let Some(key) = self.keys.get(&id) else {
            return Err((Reason::UnknownKey, format!("there is no public key `{id}`")));
        };
        if !self
            .chain
            .is_some_and(|chain| checkpoint.verified(key, chain, head.time))
        {
            return Err((
                Reason::BadSignature,
                format!("the signature is not one of key `{id}`"),
            ));
        }
        self.expected_key = Some(checkpoint.next_key.unwrap_or(id));
        if self.report.keys.last() != Some(&id) {
            self.report.keys.push(id);
        }
        self.report.checkpoints += 1;
        Ok(())
    }

    fn accept(&mut self, head: &Head) {
        if let Some(before) = self.last_time.filter(|before| *before > head.time) {
            self.note(format!(
                "the clock went back at record {}: {} after {before}",
                head.seq, head.time
            ));
        }
        self.last_time = Some(head.time);
        self.chain = self.chain.or(Some(head.prev));
        self.report.head = Some((head.seq, head.hash));
        self.report.records += 1;
        self.report.unsigned = if head.checkpoint.is_some() {
            0
        } else {
            self.report.unsigned + 1
        };
    }
}

/// A line without an end may be one that is being written: it gets a second to be finished.
pub(super) fn read_settled(lines: &mut Lines<std::fs::File>, line: &mut Vec<u8>) -> io::Result<Line> {
    let mut read = lines.next(line, false)?;
    for _ in 0..20 {
        if !matches!(read, Line::Partial) {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        read = lines.next(line, true)?;
    }
    Ok(read)
}

fn reason(error: &LineError) -> Reason {
    match error {
        LineError::Json(_) => Reason::BadJson,
        LineError::DuplicateKey(_) => Reason::DuplicateKey,
        LineError::Version(_) => Reason::UnknownVersion,
        LineError::Envelope(_) => Reason::BadEnvelope,
        LineError::Hash => Reason::WrongHash,
        LineError::NotCanonical => Reason::NotCanonical,
    }
}
