//! Threads at the pipes of a session, so that no test waits for a reader or a writer.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    sync::{
        Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    thread,
};

use anyhow::Result;

/// What is kept of the agent's stderr.
const KEPT: usize = 4 << 20;

/// What the server's stdin brought.
#[derive(Debug)]
pub(crate) enum Heard {
    Line(Vec<u8>),
    End,
}

/// Writes what it is given, so that no test waits for a reader. Its end closes the pipe.
pub(crate) fn writer(mut to: impl io::Write + Send + 'static) -> Sender<Vec<u8>> {
    let (sender, bytes) = channel::<Vec<u8>>();
    thread::spawn(move || {
        for bytes in bytes {
            if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
                break;
            }
        }
    });
    sender
}

pub(crate) fn keep(mut from: impl io::Read, to: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut kept = to.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&buffer[..room]);
    }
}

/// The bytes in the server's frames, up to its end of input.
struct Frames {
    from: File,
    left: usize,
}

impl io::Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let mut length = [0; 4];
            self.from.read_exact(&mut length)?;
            self.left = u32::from_le_bytes(length) as usize;
        }
        let room = self.left.min(buffer.len());
        let count = self.from.read(&mut buffer[..room])?;
        self.left -= count;
        Ok(count)
    }
}

pub(crate) fn hear(from: File, to: &Sender<Heard>) -> Result<()> {
    for line in BufReader::with_capacity(1 << 16, Frames { from, left: 0 }).split(b'\n') {
        to.send(Heard::Line(line?))?;
    }
    Ok(to.send(Heard::End)?)
}
