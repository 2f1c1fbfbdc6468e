//! The one way for data to standard output. A reader that leaves early (`| head`) is no error.

use std::{
    fmt,
    io::{self, BufWriter, StdoutLock, Write as _},
};

use crate::{exit::ExitStatus, refusal::Refusal};

/// Why writing ended.
#[derive(Debug)]
pub enum Stop {
    /// Nobody reads any more: the command ends, quietly.
    ReaderGone,
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ReaderGone
        } else {
            Self::Failed(error)
        }
    }
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Self {
        let why = match stop {
            Stop::ReaderGone => "its reader has gone".to_owned(),
            Stop::Failed(error) => error.to_string(),
        };
        Self::internal(
            "cannot write to standard output",
            why,
            "look at where the output goes",
        )
    }
}

/// Standard output, buffered until `flush`.
pub struct Out {
    writer: BufWriter<StdoutLock<'static>>,
}

impl Out {
    pub fn new() -> Self {
        Self {
            writer: BufWriter::new(io::stdout().lock()),
        }
    }

    pub fn line(&mut self, text: impl fmt::Display) -> Result<(), Stop> {
        writeln!(self.writer, "{text}").map_err(Stop::from)
    }

    /// One object a line.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Stop> {
        let text = serde_json::to_string(value).map_err(|error| Stop::Failed(error.into()))?;
        self.line(text)
    }

    pub fn flush(&mut self) -> Result<(), Stop> {
        self.writer.flush().map_err(Stop::from)
    }
}

impl Default for Out {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs what writes, flushes, and ends with `status`, also when the reader left before the end.
pub fn with(
    status: ExitStatus,
    write: impl FnOnce(&mut Out) -> Result<(), Stop>,
) -> Result<ExitStatus, Refusal> {
    let mut out = Out::new();
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) | Err(Stop::ReaderGone) => Ok(status),
        Err(stop) => Err(stop.into()),
    }
}
