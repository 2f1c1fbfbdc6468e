//! Opening a chain to go on with it: its end is checked, a torn last line is cut out and saved.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

use nix::fcntl::OFlag;

use super::{
    chain::{Digest, Head, LineError, MAX_RECORD, quick},
    dir::{AuditDir, segment_name, torn_name},
    error::AuditError,
    lines::{Line, Lines},
    record::Seq,
};

/// The record a chain ends with.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainHead {
    pub seq: Seq,
    pub hash: Digest,
    pub is_checkpoint: bool,
}

/// Where writing goes on.
pub(super) struct End {
    pub segment: u64,
    pub file: File,
    /// Length of the segment.
    pub length: u64,
    /// Records in the segment.
    pub records: u64,
    pub head: Option<ChainHead>,
    /// `prev` of the first record, which names the chain.
    pub chain: Option<Digest>,
    /// The key the last checkpoint says signs next.
    pub expected_key: Option<Digest>,
    pub since_checkpoint: u64,
    /// Files that hold what was cut out before the record that comes next, and their bytes.
    pub saved: Vec<String>,
    pub saved_bytes: u64,
}

pub(super) fn open_end(dir: &AuditDir) -> Result<End, AuditError> {
    let segments = dir.list()?.segments;
    for (expected, found) in (1..).zip(&segments) {
        if expected != *found {
            return Err(damaged(
                dir.path(&segment_name(expected)),
                0,
                None,
                "the segment is missing",
            ));
        }
    }
    let Some(last) = segments.last().copied() else {
        let file = create_segment(dir, 1)?;
        return Ok(End::new(1, file));
    };
    let mut end = End::new(last, open_segment(dir, last)?);
    if last > 1 {
        end.chain = first_of(dir)?;
        end.carry_over(dir, last - 1)?;
    }
    let torn = end.scan(dir)?;
    if torn {
        end.cut_out(dir)?;
    }
    end.collect_saved(dir)?;
    Ok(end)
}

fn open_segment(dir: &AuditDir, number: u64) -> Result<File, AuditError> {
    let name = segment_name(number);
    dir.own_file(&name, OFlag::O_RDWR)
        .map_err(|error| AuditError::io("open audit segment", dir.path(&name), error))
}

/// A new segment. One that a broken-off rotation left behind is empty and taken over.
pub(super) fn create_segment(dir: &AuditDir, number: u64) -> Result<File, AuditError> {
    let name = segment_name(number);
    let failed = |error: io::Error| AuditError::io("create audit segment", dir.path(&name), error);
    let file = dir
        .own_file(&name, OFlag::O_RDWR | OFlag::O_CREAT)
        .map_err(failed)?;
    if file.metadata().map_err(failed)?.len() != 0 {
        return Err(failed(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it exists and is not empty",
        )));
    }
    dir.sync()?;
    Ok(file)
}

fn damaged(segment: PathBuf, line: u64, seq: Option<Seq>, reason: impl Into<String>) -> AuditError {
    AuditError::Damaged {
        segment,
        line,
        seq,
        reason: reason.into(),
    }
}

pub(super) fn explain(error: &LineError) -> String {
    match error {
        LineError::Json(why) => format!("it is not JSON ({why})"),
        LineError::DuplicateKey(why) => format!("a name is given twice ({why})"),
        LineError::Version(v) => format!("it has record version {v}, which this build does not know"),
        LineError::Envelope(why) => format!("its envelope is wrong ({why})"),
        LineError::Hash => "its hash is not that of its content".into(),
        LineError::NotCanonical => "it is not in canonical form".into(),
    }
}

impl ChainHead {
    fn of(head: &Head) -> Self {
        Self {
            seq: head.seq,
            hash: head.hash,
            is_checkpoint: head.checkpoint.is_some(),
        }
    }
}

impl End {
    fn new(segment: u64, file: File) -> Self {
        Self {
            segment,
            file,
            length: 0,
            records: 0,
            head: None,
            chain: None,
            expected_key: None,
            since_checkpoint: 0,
            saved: Vec::new(),
            saved_bytes: 0,
        }
    }

    fn take(&mut self, head: &Head) {
        self.head = Some(ChainHead::of(head));
        self.since_checkpoint += 1;
        if let Some(checkpoint) = &head.checkpoint {
            self.expected_key = Some(checkpoint.next_key.unwrap_or(checkpoint.key_id));
            self.since_checkpoint = 0;
        }
    }

    /// The end of the segment before the last: the first record of this one hangs on it.
    fn carry_over(&mut self, dir: &AuditDir, number: u64) -> Result<(), AuditError> {
        let path = dir.path(&segment_name(number));
        let failed = |error: io::Error| AuditError::io("read audit segment", &path, error);
        let mut file = open_segment(dir, number)?;
        let length = file.metadata().map_err(failed)?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_RECORD as u64 + 1)))
            .map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let line = bytes
            .strip_suffix(b"\n")
            .and_then(|bytes| bytes.rsplit(|byte| *byte == b'\n').next())
            .ok_or_else(|| {
                damaged(
                    path.clone(),
                    0,
                    None,
                    "it ends in the middle of a record, and others follow",
                )
            })?;
        let head = quick(line).map_err(|error| {
            damaged(
                path.clone(),
                0,
                None,
                format!("its last record is unusable: {}", explain(&error)),
            )
        })?;
        self.take(&head);
        Ok(())
    }

    /// Reads the last segment through. Whether it ends with something torn.
    fn scan(&mut self, dir: &AuditDir) -> Result<bool, AuditError> {
        let path = dir.path(&segment_name(self.segment));
        let failed = |error: io::Error| AuditError::io("read audit segment", &path, error);
        let mut lines = Lines::new(self.file.try_clone().map_err(failed)?);
        let mut line = Vec::new();
        loop {
            let number = self.records + 1;
            match lines.next(&mut line, false).map_err(failed)? {
                Line::End => return Ok(false),
                Line::Partial | Line::TooLong { last: true } => return Ok(true),
                Line::TooLong { last: false } => {
                    return Err(damaged(path, number, None, "it is longer than a record may be"));
                }
                Line::Whole => {}
            }
            let head = match quick(&line) {
                Ok(head) => head,
                // A disk that lost power can leave a whole line of rubbish, but only as the last.
                Err(LineError::Hash) if lines.at_end().map_err(failed)? => return Ok(true),
                Err(error) => {
                    let seq = self.head.map_or(1, |head| head.seq + 1);
                    return Err(damaged(path, number, Some(seq), explain(&error)));
                }
            };
            self.check_link(&head)
                .map_err(|why| damaged(path.clone(), number, Some(head.seq), why))?;
            self.chain = self.chain.or(Some(head.prev));
            self.take(&head);
            self.length = lines.offset;
            self.records = number;
        }
    }

    fn check_link(&self, head: &Head) -> Result<(), String> {
        let expected = self.head.map_or(1, |before| before.seq + 1);
        if head.seq != expected {
            return Err(format!("record {expected} was to follow"));
        }
        match self.head {
            Some(before) if before.hash != head.prev => {
                Err("it does not hang on the record before it".into())
            }
            _ => Ok(()),
        }
    }

    /// Takes what follows the last good record out of the segment, into a file beside it.
    fn cut_out(&mut self, dir: &AuditDir) -> Result<(), AuditError> {
        let segment = dir.path(&segment_name(self.segment));
        let next = self.head.map_or(1, |head| head.seq + 1);
        let mut copy = 0;
        let (name, mut saved) = loop {
            let name = torn_name(next, copy);
            match dir.own_file(&name, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL) {
                Ok(file) => break (name, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => copy += 1,
                Err(error) => return Err(AuditError::io("save the torn record in", dir.path(&name), error)),
            }
        };
        let failed = |error: io::Error| AuditError::io("save the torn record in", dir.path(&name), error);
        let mut torn = self.file.try_clone().map_err(failed)?;
        torn.seek(SeekFrom::Start(self.length)).map_err(failed)?;
        io::copy(&mut torn, &mut saved).map_err(failed)?;
        saved.sync_all().map_err(failed)?;
        dir.sync()?;
        self.file
            .set_len(self.length)
            .and_then(|()| self.file.sync_all())
            .map_err(|error| AuditError::io("cut the torn record out of", segment, error))
    }

    /// Whatever was cut out before the record that comes next and is not told of yet: also by an earlier start
    /// that did not get as far as to write the gap.
    fn collect_saved(&mut self, dir: &AuditDir) -> Result<(), AuditError> {
        let next = self.head.map_or(1, |head| head.seq + 1);
        for (_, name) in dir.list()?.torn.into_iter().filter(|(seq, _)| *seq == next) {
            let length = dir
                .file(&name, OFlag::O_RDONLY)
                .and_then(|file| file.metadata())
                .map(|data| data.len());
            self.saved_bytes += length.map_err(|error| AuditError::io("read", dir.path(&name), error))?;
            self.saved.push(name);
        }
        Ok(())
    }
}

/// `prev` of the chain's first record.
fn first_of(dir: &AuditDir) -> Result<Option<Digest>, AuditError> {
    let path = dir.path(&segment_name(1));
    let file = open_segment(dir, 1)?;
    let mut line = Vec::new();
    match Lines::new(file).next(&mut line, false) {
        Ok(Line::Whole) => {
            let head = quick(&line).map_err(|error| damaged(path, 1, Some(1), explain(&error)))?;
            Ok(Some(head.prev))
        }
        Ok(_) => Err(damaged(path, 1, Some(1), "it is not whole, and others follow")),
        Err(error) => Err(AuditError::io("read audit segment", path, error)),
    }
}
