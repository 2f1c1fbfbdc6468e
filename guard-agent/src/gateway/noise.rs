//! What a server writes to its stdout that is no message: a banner, a log line. Its client would stumble over it; the
//! operator's log has it.

use std::{
    io::Write as _,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, SyncSender, sync_channel},
    },
};

use super::{relay::Event, stderr};

/// Bytes of a line that are shown.
const SHOWN: usize = 200;
/// Lines that wait for our stderr; more are counted.
const WAITING: usize = 256;
/// After so many the server is ended: it does not speak the protocol.
pub(super) const MOST: u64 = 10_000;

/// What is shown of a message that was too long.
pub(super) const TOO_LONG: &[u8] = b"(a message that is too long)";

#[derive(Debug)]
pub(super) struct Log {
    lines: SyncSender<String>,
    events: Sender<Event>,
    seen: AtomicU64,
    unshown: AtomicU64,
}

impl Log {
    pub(super) fn new(events: Sender<Event>) -> (Self, Receiver<String>) {
        let (lines, shown) = sync_channel(WAITING);
        let log = Self {
            lines,
            events,
            seen: AtomicU64::new(0),
            unshown: AtomicU64::new(0),
        };
        (log, shown)
    }

    pub(super) fn line(&self, text: &[u8]) {
        let cut = text.get(..SHOWN).unwrap_or(text);
        let mark = if cut.len() < text.len() { "…" } else { "" };
        let mut shown = format!(
            "stdout: {}{mark}",
            stderr::printable(&String::from_utf8_lossy(cut))
        );
        let unshown = self.unshown.swap(0, Ordering::Relaxed);
        if unshown > 0 {
            shown = format!("stdout: {unshown} more lines that are no messages\n{shown}");
        }
        if self.lines.try_send(shown).is_err() {
            self.unshown.fetch_add(unshown + 1, Ordering::Relaxed);
        }
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == MOST {
            let _ = self.events.send(Event::Noise);
        }
    }
}

/// Shows them. Our stderr may have a slow reader, which holds up nobody but this thread.
pub(super) fn show(name: &str, lines: &Receiver<String>) {
    while let Ok(text) = lines.recv() {
        let marked: String = text.lines().map(|line| format!("[{name}] {line}\n")).collect();
        let _ = std::io::stderr().lock().write_all(marked.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn lines_are_harmless_and_short_and_too_many_are_told_once() {
        let (events, inbox) = mpsc::channel();
        let (log, shown) = Log::new(events);
        log.line(b"\x1b[2Jhello");
        log.line(&[b'x'; 300]);
        assert_eq!(shown.recv().unwrap(), "stdout: \\u{1b}[2Jhello");
        assert_eq!(shown.recv().unwrap(), format!("stdout: {}…", "x".repeat(200)));
        (2..MOST + 5).for_each(|_| log.line(b"a"));
        let told: Vec<Event> = inbox.try_iter().collect();
        assert!(matches!(told[..], [Event::Noise]), "{told:?}");
        assert_eq!(shown.try_iter().count(), WAITING);
        log.line(b"last");
        let text = shown.recv().unwrap();
        let unshown = MOST + 3 - WAITING as u64;
        assert_eq!(
            text,
            format!("stdout: {unshown} more lines that are no messages\nstdout: last")
        );
    }
}
