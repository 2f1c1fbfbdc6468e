//! Lines of a segment, read with bounded memory.

use std::io::{self, BufRead, BufReader, Read};

use super::chain::MAX_RECORD;

pub(super) enum Line {
    /// With its newline taken off.
    Whole,
    /// The file ends without a newline; more may come.
    Partial,
    /// Longer than a record may be; its start is kept. `last`: nothing follows it.
    TooLong {
        last: bool,
    },
    End,
}

/// Reads lines and counts the bytes of those that were whole.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    /// Offset after the last whole line.
    pub offset: u64,
    /// Whole lines so far.
    pub count: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader: BufReader::with_capacity(1 << 16, reader),
            offset: 0,
            count: 0,
        }
    }

    /// The next line into `buffer`. After `Partial`, calling again goes on with the same line:
    /// `buffer` must be left as it is.
    pub(super) fn next(&mut self, buffer: &mut Vec<u8>, resume: bool) -> io::Result<Line> {
        if !resume {
            buffer.clear();
        }
        let room = (MAX_RECORD - buffer.len().min(MAX_RECORD)) as u64;
        self.reader.by_ref().take(room).read_until(b'\n', buffer)?;
        if buffer.last() == Some(&b'\n') {
            self.offset += buffer.len() as u64;
            self.count += 1;
            buffer.pop();
            return Ok(Line::Whole);
        }
        if buffer.len() >= MAX_RECORD {
            return Ok(Line::TooLong {
                last: self.skip_line()?,
            });
        }
        Ok(if buffer.is_empty() {
            Line::End
        } else {
            Line::Partial
        })
    }

    /// Whether nothing can be read now.
    pub(super) fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }

    fn skip_line(&mut self) -> io::Result<bool> {
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(true);
            }
            if let Some(at) = chunk.iter().position(|byte| *byte == b'\n') {
                self.reader.consume(at + 1);
                return self.at_end();
            }
            let length = chunk.len();
            self.reader.consume(length);
        }
    }
}
