//! The server's stderr: passed on line by line with its name, its tail kept for errors.

use std::{
    collections::VecDeque,
    io::{self, Read, Write as _},
};

use crate::{config, link::message::STDERR_TAIL as TAIL, octets::Octets};

/// Bytes of a line that is passed on at once; a longer one comes in pieces.
const LINE: usize = 8 << 10;

/// The last bytes a server said.
#[derive(Debug, Default)]
pub(super) struct Tail(VecDeque<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let excess = self.0.len().saturating_sub(TAIL);
        self.0.drain(..excess);
    }

    /// As they are, but without a character that was cut at the start.
    pub(super) fn bytes(&self) -> Octets {
        let cut = self.0.len() == TAIL;
        let rest = |byte: &&u8| cut && **byte & 0xc0 == 0x80;
        let skip = self.0.iter().take(3).take_while(rest).count();
        Octets(self.0.iter().skip(skip).copied().collect())
    }

    /// The last lines, made harmless for a terminal.
    pub(super) fn lines(&self, count: usize) -> Vec<String> {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines
            .iter()
            .skip(lines.len().saturating_sub(count))
            .map(|line| printable(line))
            .collect()
    }
}

/// Control characters (but tab) and what reorders text become visible: a server must not write to the operator's
/// terminal.
pub(super) fn printable(line: &str) -> String {
    line.split('\t')
        .map(config::printable)
        .collect::<Vec<_>>()
        .join("\t")
}

/// Copies to our stderr until the end. A stderr of ours that is gone does not stop the server.
pub(super) fn pass_on(name: &str, mut from: impl Read, mut keep: impl FnMut(&mut dyn FnMut(&mut Tail))) {
    let mut pending = Vec::with_capacity(LINE);
    let mut buffer = [0; LINE];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
            Ok(count) => count,
        };
        let read = buffer.get(..count).unwrap_or_default();
        keep(&mut |tail| tail.push(read));
        for byte in read {
            if *byte == b'\n' || pending.len() == LINE {
                line(name, &pending);
                pending.clear();
            }
            if *byte != b'\n' {
                pending.push(*byte);
            }
        }
    }
    if !pending.is_empty() {
        line(name, &pending);
    }
}

fn line(name: &str, bytes: &[u8]) {
    let text = printable(String::from_utf8_lossy(bytes).trim_end_matches('\r'));
    let _ = io::stderr()
        .lock()
        .write_all(format!("[{name}] {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded_and_harmless() {
        let mut tail = Tail::default();
        tail.push(&[b'x'; 3 * TAIL]);
        assert_eq!(tail.0.len(), TAIL);
        tail.push(b"\none\x1b[2J\ntwo\n");
        assert_eq!(tail.lines(2), ["one\\u{1b}[2J", "two"]);
        assert_eq!(printable("a\tb\u{202e}c"), "a\tb\\u{202e}c");
    }
}
