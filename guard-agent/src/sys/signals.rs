//! Signal dispositions. An ignored signal stays ignored across `execve`: what a client ignores would reach our
//! roles and the server.

use std::io;

use nix::{
    errno::Errno,
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
};

fn reset(signal: Signal) -> io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action is no function of ours; nothing is called.
    match unsafe { sigaction(signal, &default) } {
        // SIGKILL and SIGSTOP have no other.
        Ok(_) | Err(Errno::EINVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Dead children are waited for: where SIGCHLD is ignored the kernel throws their status away.
pub fn reset_children() -> io::Result<()> {
    reset(Signal::SIGCHLD)
}

/// All of them, as a login gives them.
pub fn reset_all() -> io::Result<()> {
    Signal::iterator().try_for_each(reset)
}
