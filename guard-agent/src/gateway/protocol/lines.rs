//! Lines out of a stream of bytes: split at 0x0A and nothing else, none longer than the limit, no byte copied twice.

use std::io;

/// The longest message, without the end of its line. Clients keep 10 MiB at most.
pub(in crate::gateway) const LIMIT: usize = 8 << 20;
/// What is read at once.
const CHUNK: usize = 64 << 10;
/// More room than this is given back once what needed it has passed.
const KEPT: usize = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Line<'a> {
    /// Without its end; not empty.
    Whole(&'a [u8]),
    /// More than the limit came without an end; these are its first bytes. The rest is dropped, up to its end.
    TooLong(&'a [u8]),
}

#[derive(Debug)]
pub(in crate::gateway) struct Lines {
    buffer: Vec<u8>,
    /// What is not given out yet.
    start: usize,
    end: usize,
    /// Up to here there is no end of a line.
    searched: usize,
    /// In the middle of a line that was too long.
    dropping: bool,
    limit: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_limit(LIMIT)
    }
}

impl Lines {
    fn with_limit(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            searched: 0,
            dropping: false,
            limit,
        }
    }

    /// Takes what `read` puts into the room it is given; 0 is the end.
    pub(in crate::gateway) fn fill(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.start > 0 {
            // What is left is the beginning of one line.
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.len() > KEPT && self.end < CHUNK {
            self.buffer.truncate(2 * CHUNK);
            self.buffer.shrink_to_fit();
        }
        if self.buffer.len() < self.end + CHUNK {
            let wanted = (self.end + CHUNK)
                .max(self.buffer.len() * 2)
                .min(self.limit + 2 * CHUNK);
            self.buffer.resize(wanted, 0);
        }
        let count = read(self.buffer.get_mut(self.end..).unwrap_or_default())?;
        self.end += count;
        Ok(count)
    }

    /// The next line that is complete, or too long.
    pub(in crate::gateway) fn next(&mut self) -> Option<Line<'_>> {
        loop {
            let unseen = self.buffer.get(self.searched..self.end).unwrap_or_default();
            let Some(found) = memchr::memchr(b'\n', unseen) else {
                self.searched = self.end;
                if self.dropping {
                    self.start = self.end;
                    return None;
                }
                // Its last byte may be the one that is stripped.
                if self.end - self.start <= self.limit + 1 {
                    return None;
                }
                self.dropping = true;
                let begun = self.start;
                self.start = self.end;
                return Some(Line::TooLong(
                    self.buffer.get(begun..begun + self.limit).unwrap_or_default(),
                ));
            };
            let (begin, at) = (self.start, self.searched + found);
            self.start = at + 1;
            self.searched = self.start;
            if std::mem::take(&mut self.dropping) {
                continue;
            }
            let end = at - usize::from(at > begin && self.buffer.get(at - 1) == Some(&b'\r'));
            if end - begin > self.limit {
                return Some(Line::TooLong(
                    self.buffer.get(begin..begin + self.limit).unwrap_or_default(),
                ));
            }
            let line = self.buffer.get(begin..end).unwrap_or_default();
            if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
                continue;
            }
            // The borrow checker does not see that the loop is left here.
            return self.buffer.get(begin..end).map(Line::Whole);
        }
    }

    /// What stands at the end of the stream without an end of its own.
    pub(in crate::gateway) fn rest(&mut self) -> Option<&[u8]> {
        let rest = self.start..self.end;
        self.start = self.end;
        self.searched = self.end;
        let line = self.buffer.get(rest)?;
        let blank = line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        (!blank && !self.dropping).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What comes out when the bytes come in pieces of these sizes.
    fn lines(limit: usize, bytes: &[u8], pieces: &[usize]) -> Vec<Result<Vec<u8>, usize>> {
        let mut lines = Lines::with_limit(limit);
        let mut all = Vec::new();
        let (mut rest, mut pieces) = (bytes, pieces.iter().cycle());
        loop {
            let size = pieces.next().copied().unwrap_or(1).max(1);
            let count = lines
                .fill(|room| {
                    let count = size.min(rest.len()).min(room.len());
                    room[..count].copy_from_slice(&rest[..count]);
                    rest = &rest[count..];
                    Ok(count)
                })
                .unwrap();
            while let Some(line) = lines.next() {
                all.push(match line {
                    Line::Whole(line) => Ok(line.to_vec()),
                    Line::TooLong(begin) => Err(begin.len()),
                });
            }
            if count == 0 {
                all.extend(lines.rest().map(|rest| Ok(rest.to_vec())));
                return all;
            }
        }
    }

    #[test]
    fn only_a_line_feed_ends_a_line_and_one_return_goes_with_it() {
        let text = "a\u{2028}b\u{85}\r\n\n \r\n\r\rc\r\r\nlast";
        assert_eq!(
            lines(100, text.as_bytes(), &[100]),
            ["a\u{2028}b\u{85}", "\r\rc\r", "last"].map(|line| Ok(line.as_bytes().to_vec()))
        );
    }

    #[test]
    fn one_byte_over_the_limit_is_told_once_and_the_next_line_is_whole() {
        let ok = |text: &str| Ok(text.as_bytes().to_vec());
        assert_eq!(
            lines(4, b"1234\r\n12345\nab\n", &[1]),
            [ok("1234"), Err(4), ok("ab")]
        );
        assert_eq!(lines(4, b"123456789\nab\n", &[100]), [Err(4), ok("ab")]);
        assert_eq!(lines(4, b"123456789", &[3]), [Err(4)]);
    }

    #[test]
    fn a_flood_without_an_end_takes_no_more_than_the_limit() {
        let mut lines = Lines::with_limit(1 << 20);
        let mut told = 0;
        for _ in 0..1000 {
            lines.fill(|room| Ok(room.len())).unwrap();
            while let Some(line) = lines.next() {
                told += usize::from(matches!(line, Line::TooLong(_)));
            }
            assert!(lines.buffer.len() <= (1 << 20) + 2 * CHUNK);
        }
        assert_eq!(told, 1);
    }

    proptest! {
        #[test]
        fn how_the_bytes_come_changes_nothing(
            bytes in prop::collection::vec(prop::sample::select(&b"ab\r\n "[..]), 0..200),
            pieces in prop::collection::vec(1..9usize, 1..9),
        ) {
            prop_assert_eq!(lines(6, &bytes, &pieces), lines(6, &bytes, &[1000]));
        }
    }
}
