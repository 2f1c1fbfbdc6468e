//! The process without input: when the warden dies, it ends every sandbox and says so in the trail.
//!
//! It holds duplicates of the eBPF links, so that enforcement stays until the last sandbox is dead.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{state, sweep};
use crate::{
    exit::ExitStatus,
    fault,
    link::channel::Channel,
    sys::{
        self,
        clone::{Born, Image},
        seqpacket::MAX_DESCRIPTORS,
    },
};

/// `argv[0]` that selects this role.
pub const ROLE: &str = "guard-agent-reaper";

/// Starts it for this process, which must be the warden.
pub(super) fn start(program: &File, null: &File, state: &Path, keep: &[OwnedFd]) -> io::Result<Born> {
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    let warden = sys::process::pidfd_open(own)?;
    let (channel, theirs) = Channel::pair()?;
    let environment: Vec<CString> = ["GUARD_AGENT_FAULT", "GUARD_AGENT_LOG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok().map(|value| format!("{name}={value}")))
        .map(CString::new)
        .collect::<Result<_, _>>()?;
    let image = Image {
        program: program.as_fd(),
        argv: &[CString::new(ROLE)?, CString::new(state.as_os_str().as_bytes())?],
        environment: &environment,
        channel: theirs.as_fd(),
        null: null.as_fd(),
    };
    let born = sys::clone::spawn(0, None, &image)?;
    drop(theirs);
    let descriptors: Vec<_> = [&warden].into_iter().chain(keep).map(|fd| fd.as_fd()).collect();
    for chunk in descriptors.chunks(MAX_DESCRIPTORS) {
        channel.send(&(), chunk).map_err(io::Error::other)?;
    }
    // An empty message: that was all. From here on the reaper takes no input.
    channel.send(&(), &[]).map_err(io::Error::other)?;
    // It answers once it stands on its own.
    channel.receive_within::<()>(std::time::Duration::from_secs(10)).map_err(io::Error::other)?;
    Ok(born)
}

/// The role's whole life.
pub fn main(arguments: &[std::ffi::OsString]) -> ExitStatus {
    let Some(directory) = arguments.first().map(PathBuf::from) else { return ExitStatus::Usage };
    super::start::log_to(&directory.join(state::LOG));
    match run(&directory) {
        Ok(ended) => {
            tracing::warn!(ended, "the warden died; its sandboxes were ended");
            ExitStatus::Ok
        }
        Err(error) => {
            tracing::error!(%error, "reaper failed");
            ExitStatus::Internal
        }
    }
}

fn run(directory: &Path) -> io::Result<usize> {
    let channel = Channel::new(sys::process::inherited_channel())?;
    // No signal that is meant for the warden's group reaches this process.
    nix::unistd::setsid()?;
    let mut held = Vec::new();
    loop {
        let ((), mut descriptors) = channel.receive::<()>().map_err(io::Error::other)?;
        if descriptors.is_empty() {
            break;
        }
        held.append(&mut descriptors);
    }
    let warden = held.first().ok_or_else(|| io::Error::other("no pidfd of the warden"))?;
    fault::point("reaper.ready")?;
    channel.send(&(), &[]).map_err(io::Error::other)?;
    drop(channel);
    loop {
        let mut ready = [PollFd::new(warden.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) => break,
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The sandboxes' inits died with the warden's launcher thread; what is left is ended and recorded here.
    let lock = state::lock_file(directory)?;
    if sys::process::try_lock(&lock)? {
        sweep::sweep(directory, "warden: it died")
    } else {
        // A new warden owns the directory and sweeps itself before it serves.
        Ok(0)
    }
}
