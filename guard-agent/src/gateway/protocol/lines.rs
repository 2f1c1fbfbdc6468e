//! Lines out of a stream of bytes: split at 0x0A and nothing else, none longer than the limit, no byte copied twice.

use std::io;

use super::skim::{Cut, Skim};

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
    /// One of more bytes than the limit is over; none of them are kept.
    TooLong(Cut),
}

#[derive(Debug)]
pub(in crate::gateway) struct Lines {
    buffer: Vec<u8>,
    /// What is not given out yet.
    start: usize,
    end: usize,
    /// Up to here there is no end of a line.
    searched: usize,
    /// In the middle of a line that is too long.
    dropping: Option<Skim>,
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
            dropping: None,
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

    /// The next line that is over.
    pub(in crate::gateway) fn next(&mut self) -> Option<Line<'_>> {
        loop {
            let unseen = self.buffer.get(self.searched..self.end).unwrap_or_default();
            let found = memchr::memchr(b'\n', unseen).map(|found| self.searched + found);
            let begin = self.start;
            let line = self
                .buffer
                .get(begin..found.unwrap_or(self.end))
                .unwrap_or_default();
            // Its last byte may be the one that is stripped.
            let too_long = self.dropping.is_some() || line.len() > self.limit + 1;
            if too_long {
                self.dropping.get_or_insert_default().take(line);
            }
            self.searched = self.end;
            let Some(at) = found else {
                if too_long {
                    self.start = self.end;
                }
                return None;
            };
            self.start = at + 1;
            self.searched = self.start;
            if let Some(skim) = self.dropping.take() {
                return Some(Line::TooLong(skim.end()));
            }
            let end = at - usize::from(line.last() == Some(&b'\r'));
            if end - begin > self.limit {
                let mut skim = Skim::default();
                skim.take(line);
                return Some(Line::TooLong(skim.end()));
            }
            if is_blank(line) {
                continue;
            }
            return self.buffer.get(begin..end).map(Line::Whole);
        }
    }

    /// What stands at the end of the stream without an end of its own.
    pub(in crate::gateway) fn rest(&mut self) -> Option<Line<'_>> {
        let line = self.buffer.get(self.start..self.end)?;
        self.start = self.end;
        self.searched = self.end;
        if let Some(mut skim) = self.dropping.take() {
            skim.take(line);
            return Some(Line::TooLong(skim.end()));
        }
        (!is_blank(line)).then_some(Line::Whole(line))
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(line: &Line<'_>) -> Option<Vec<u8>> {
        match line {
            Line::Whole(line) => Some(line.to_vec()),
            Line::TooLong(_) => None,
        }
    }

    /// What comes out when the bytes come in pieces of these sizes.
    fn lines(limit: usize, bytes: &[u8], pieces: &[usize]) -> Vec<Option<Vec<u8>>> {
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
                all.push(kept(&line));
            }
            if count == 0 {
                all.extend(lines.rest().map(|line| kept(&line)));
                return all;
            }
        }
    }

    #[test]
    fn only_a_line_feed_ends_a_line_and_one_return_goes_with_it() {
        let text = "a\u{2028}b\u{85}\r\n\n \r\n\r\rc\r\r\nlast";
        assert_eq!(
            lines(100, text.as_bytes(), &[100]),
            ["a\u{2028}b\u{85}", "\r\rc\r", "last"].map(|line| Some(line.as_bytes().to_vec()))
        );
    }

    #[test]
    fn one_byte_over_the_limit_is_told_once_and_the_next_line_is_whole() {
        let some = |text: &str| Some(text.as_bytes().to_vec());
        let expected = [some("1234"), None, some("ab")];
        assert_eq!(lines(4, b"1234\r\n12345\nab\n", &[1]), expected);
        assert_eq!(lines(4, b"1234\r\n12345\r\nab\n", &[100]), expected);
        assert_eq!(lines(4, b"123456789\nab\n", &[100]), expected[1..]);
        assert_eq!(lines(4, b"123456789", &[3]), [None]);
    }

    #[test]
    fn whose_a_line_was_is_known_though_it_was_too_long() {
        let text = format!("{{\"result\":\"{}\",\"id\":\"x\"}}\n", "a".repeat(100));
        for piece in [1, 30, 1000] {
            let mut lines = Lines::with_limit(20);
            let mut rest = text.as_bytes();
            let cut = loop {
                let count = lines.fill(|room| {
                    let count = piece.min(rest.len());
                    room[..count].copy_from_slice(&rest[..count]);
                    rest = &rest[count..];
                    Ok(count)
                });
                assert_ne!(count.unwrap(), 0);
                if let Some(Line::TooLong(cut)) = lines.next() {
                    break cut;
                }
            };
            assert_eq!((cut.id.unwrap(), cut.answer), (b"\"x\"".to_vec(), true));
        }
    }

    #[test]
    fn a_flood_without_an_end_takes_no_more_than_the_limit() {
        let mut lines = Lines::with_limit(1 << 20);
        for _ in 0..1000 {
            lines.fill(|room| Ok(room.len())).unwrap();
            assert_eq!(lines.next(), None);
            assert!(lines.buffer.len() <= (1 << 20) + 2 * CHUNK);
        }
        assert!(matches!(lines.rest(), Some(Line::TooLong(_))));
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
