//! The one way for data to standard output. A reader that leaves early (`| head`) is no error.

use std::{
    fmt,
    io::{self, BufWriter, Write},
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
    writer: BufWriter<Box<dyn Write>>,
}

impl Out {
    pub fn new() -> Self {
        Self::to(io::stdout().lock())
    }

    fn to(writer: impl Write + 'static) -> Self {
        Self {
            writer: BufWriter::new(Box::new(writer)),
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
    finish(Out::new(), status, write)
}

fn finish(
    mut out: Out,
    status: ExitStatus,
    write: impl FnOnce(&mut Out) -> Result<(), Stop>,
) -> Result<ExitStatus, Refusal> {
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) | Err(Stop::ReaderGone) => Ok(status),
        Err(stop) => Err(stop.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many_lines(out: &mut Out) -> Result<(), Stop> {
        (0..100_000).try_for_each(|number| out.line(number))
    }

    #[test]
    fn a_reader_that_leaves_does_not_change_the_status() {
        for status in [ExitStatus::Ok, ExitStatus::Failed] {
            let (reader, writer) = io::pipe().unwrap();
            drop(reader);
            assert_eq!(finish(Out::to(writer), status, many_lines), Ok(status));
        }
    }

    #[test]
    fn a_full_disk_behind_the_output_is_an_error() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let refusal = finish(Out::to(full), ExitStatus::Ok, |out| out.line("x")).unwrap_err();
        assert_eq!(refusal.exit, ExitStatus::Internal);
        assert!(refusal.why.contains("No space left"), "{refusal}");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let (reader, writer) = io::pipe().unwrap();
        let status = finish(Out::to(writer), ExitStatus::Ok, |out| {
            out.json(&serde_json::json!({"a": "b\nc"}))?;
            out.line("end")
        });
        assert_eq!(status, Ok(ExitStatus::Ok));
        assert_eq!(io::read_to_string(reader).unwrap(), "{\"a\":\"b\\nc\"}\nend\n");
    }
}
