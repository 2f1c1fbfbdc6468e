//! Reading and writing descriptors that are not ours alone.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::AsFd as _,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A client may have made its end non-blocking, which is then ours too: what blocks elsewhere waits here.
fn wait(file: &File, wanted: PollFlags) -> io::Result<()> {
    let mut ready = [PollFd::new(file.as_fd(), wanted)];
    match poll(&mut ready, PollTimeout::NONE) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn read_some(mut from: &File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(from, PollFlags::POLLIN)?,
            other => return other,
        }
    }
}

/// Writes everything; `written` grows with each part that was taken.
pub(super) fn write_all(mut to: &File, mut bytes: &[u8], written: &AtomicU64) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                written.fetch_add(count as u64, Ordering::Relaxed);
                bytes = bytes.get(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(to, PollFlags::POLLOUT)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
