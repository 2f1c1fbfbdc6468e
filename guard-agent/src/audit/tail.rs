//! Reading records as they come, across segments. It does not verify: `verify` does.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;
use serde_json::Value;

use super::{
    dir::{AuditDir, segment_name},
    error::AuditError,
    filter::Filter,
    lines::{Line, Lines},
};

/// One line of the audit: its bytes as text, and what they say. A line that is no JSON is `Value::Null`.
#[derive(Debug, Clone)]
pub struct Entry {
    pub text: String,
    pub value: Value,
}

/// A place in the audit from which reading goes on.
pub struct Tail {
    dir: AuditDir,
    filter: Filter,
    segment: u64,
    lines: Option<Lines<File>>,
    buffer: Vec<u8>,
    partial: bool,
    backlog: VecDeque<Entry>,
}

impl Tail {
    /// The last `last` records that the filter admits are what `read_next` gives first.
    pub fn open(path: &Path, filter: Filter, last: usize) -> Result<Self, AuditError> {
        let dir = AuditDir::open_reading(path)?;
        let segments = dir.list()?.segments;
        let segment = segments.last().copied().unwrap_or(1);
        let mut tail = Self {
            dir,
            filter,
            segment,
            lines: None,
            buffer: Vec::new(),
            partial: false,
            backlog: VecDeque::new(),
        };
        tail.backlog = tail.last_of_current(last)?;
        for earlier in segments.iter().rev().skip(1) {
            if tail.backlog.len() >= last {
                break;
            }
            let mut found = tail.last_of(*earlier, last - tail.backlog.len())?;
            found.append(&mut tail.backlog);
            tail.backlog = found;
        }
        Ok(tail)
    }

    /// The next record that is there now.
    pub fn read_next(&mut self) -> Result<Option<Entry>, AuditError> {
        match self.backlog.pop_front() {
            Some(entry) => Ok(Some(entry)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Option<Entry>, AuditError> {
        loop {
            if let Some(entry) = self.read_segment()? {
                return Ok(Some(entry));
            }
            // Nothing is added to a segment once the next one exists: what came before that is read now.
            let next = segment_name(self.segment + 1);
            match self.dir.file(&next, OFlag::O_RDONLY) {
                Ok(file) => {
                    if let Some(entry) = self.read_segment()? {
                        return Ok(Some(entry));
                    }
                    self.lines = Some(Lines::new(file));
                    self.segment += 1;
                    self.partial = false;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(AuditError::io("read audit segment", self.path(&next), error)),
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path(name)
    }

    fn read_segment(&mut self) -> Result<Option<Entry>, AuditError> {
        let name = segment_name(self.segment);
        if self.lines.is_none() {
            match self.dir.file(&name, OFlag::O_RDONLY) {
                Ok(file) => self.lines = Some(Lines::new(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(AuditError::io("read audit segment", self.path(&name), error)),
            }
        }
        let Some(lines) = &mut self.lines else {
            return Ok(None);
        };
        loop {
            let line = lines.next(&mut self.buffer, self.partial);
            let line =
                line.map_err(|error| AuditError::io("read audit segment", self.dir.path(&name), error))?;
            self.partial = matches!(line, Line::Partial);
            match line {
                Line::Whole => {
                    let entry = entry(&self.buffer);
                    if self.filter.admits(&entry.value) {
                        return Ok(Some(entry));
                    }
                }
                Line::TooLong { .. } => {}
                Line::Partial | Line::End => return Ok(None),
            }
        }
    }

    fn last_of_current(&mut self, last: usize) -> Result<VecDeque<Entry>, AuditError> {
        let mut found = VecDeque::new();
        while let Some(entry) = self.read_segment()? {
            found.push_back(entry);
            if found.len() > last {
                found.pop_front();
            }
        }
        Ok(found)
    }

    fn last_of(&self, segment: u64, last: usize) -> Result<VecDeque<Entry>, AuditError> {
        let dir = AuditDir::open_reading(&self.path(""))?;
        let filter = self.filter.clone();
        let (buffer, backlog) = (Vec::new(), VecDeque::new());
        Self {
            dir,
            filter,
            segment,
            lines: None,
            buffer,
            partial: false,
            backlog,
        }
        .last_of_current(last)
    }
}

fn entry(line: &[u8]) -> Entry {
    Entry {
        text: String::from_utf8_lossy(line).into_owned(),
        value: serde_json::from_slice(line).unwrap_or_default(),
    }
}
