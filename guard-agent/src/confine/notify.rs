//! The warden's end of the child's filter: what was tried, and the refusal.
//!
//! It only ever refuses. "Continue" does not exist here: between the look and the go-ahead a thread could change
//! what was looked at.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sys::seccomp as sys;

pub use crate::confine::seccomp::{Denied, describe};
pub(crate) use crate::confine::seccomp::{answer, telling};

/// One call that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// Names the wait, for `deny`.
    pub id: u64,
    /// The thread that made the call, in the reader's pid namespace; 0 when it is not in it.
    pub tid: u32,
    pub nr: i32,
    pub args: [u64; 6],
}

/// What a listener has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Call,
    Nothing,
    /// No task under the filter is left.
    Over,
}

/// The reading end. In tokio's loop (interest: readable): read until `recv` gives `None`, then ask `is_over`;
/// a hang-up stays readable for ever and would keep a loop that only clears readiness turning.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    sizes: sys::NotifSizes,
}

impl Listener {
    /// Fails on a kernel whose notification is smaller than what we read.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            fd,
            sizes: sys::notif_sizes()?,
        })
    }

    fn ready(&self) -> io::Result<Ready> {
        loop {
            let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::ZERO) {
                Ok(_) => {}
                Err(nix::Error::EINTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let events = fds[0].revents().unwrap_or(PollFlags::empty());
            return Ok(if events.contains(PollFlags::POLLIN) {
                Ready::Call
            } else if events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
                Ready::Over
            } else {
                Ready::Nothing
            });
        }
    }

    /// The next waiting call, or `None` when there is none now. Does not block.
    pub fn recv(&self) -> io::Result<Option<Notification>> {
        // The kernel's receive blocks whatever the descriptor's flags are; after a poll that says readable it does
        // not, as long as there is one reader.
        while self.ready()? == Ready::Call {
            match sys::notif_recv(self.fd.as_fd(), &self.sizes) {
                Ok(received) => {
                    return Ok(Some(Notification {
                        id: received.id,
                        tid: received.pid,
                        nr: received.data.nr,
                        args: received.data.args,
                    }));
                }
                // The caller died in between, or a signal came to us.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether the last task under the filter is gone and nothing waits.
    pub fn is_over(&self) -> io::Result<bool> {
        Ok(self.ready()? == Ready::Over)
    }

    /// Refuses a call. `false`: the caller is gone meanwhile, or was interrupted by a signal, and needs no answer.
    pub fn deny(&self, id: u64, errno: i32) -> io::Result<bool> {
        match sys::notif_refuse(self.fd.as_fd(), &self.sizes, id, errno) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Whether the caller still waits: what was read from `/proc` by its tid in the meantime is then its own.
    pub fn is_waiting(&self, id: u64) -> bool {
        sys::notif_id_valid(self.fd.as_fd(), id)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
