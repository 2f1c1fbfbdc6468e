//! Reading and writing descriptors that are not ours alone.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::AsFd as _,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Milliseconds after which a writer that waits asks whether to go on.
const ASKED: u8 = 100;

/// A client may have made its end non-blocking, which is then ours too: what blocks elsewhere waits here. `false`: for
/// nothing.
fn wait(file: &File, wanted: PollFlags, limit: PollTimeout) -> io::Result<bool> {
    let mut ready = [PollFd::new(file.as_fd(), wanted)];
    match poll(&mut ready, limit) {
        Ok(count) => Ok(count > 0),
        Err(nix::Error::EINTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn read_some(mut from: &File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(from, PollFlags::POLLIN, PollTimeout::NONE)?;
            }
            other => return other,
        }
    }
}

/// Writes everything; `written` grows with each part that was taken.
pub(super) fn write_all(to: &File, bytes: &[u8], written: &AtomicU64) -> io::Result<()> {
    write_part(to, bytes, written, |to| {
        wait(to, PollFlags::POLLOUT, PollTimeout::NONE).map(|_| true)
    })
    .map(drop)
}

/// The same to a descriptor that does not block, for as long as `go_on` says, which is asked now and then while nothing is
/// taken. `false`: it was told not to.
pub(super) fn write_while(
    to: &File,
    bytes: &[u8],
    written: &AtomicU64,
    mut go_on: impl FnMut() -> bool,
) -> io::Result<bool> {
    write_part(to, bytes, written, |to| {
        Ok(wait(to, PollFlags::POLLOUT, PollTimeout::from(ASKED))? || go_on())
    })
}

fn write_part(
    mut to: &File,
    mut bytes: &[u8],
    written: &AtomicU64,
    mut wait: impl FnMut(&File) -> io::Result<bool>,
) -> io::Result<bool> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                written.fetch_add(count as u64, Ordering::Relaxed);
                bytes = bytes.get(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !wait(to)? {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Whether whoever writes to this end has closed theirs. What they wrote before may still be there.
pub(super) fn is_hung_up(file: &File) -> bool {
    let left = PollFlags::from_bits_retain(libc::POLLRDHUP);
    let mut ready = [PollFd::new(file.as_fd(), left)];
    matches!(poll(&mut ready, PollTimeout::ZERO), Ok(1..))
}

/// Says something on stderr if that takes it soon: a client that does not read it must not keep us.
pub(super) fn last_words(text: &str) {
    let stderr = io::stderr();
    let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if matches!(poll(&mut ready, PollTimeout::from(200u8)), Ok(1..)) {
        // Past the lock of `Stderr`, which a thread that waits for the client may hold. One pipe page at most.
        let _ = nix::unistd::write(
            stderr.as_fd(),
            text.as_bytes().get(..4096).unwrap_or(text.as_bytes()),
        );
    }
}
