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

use super::{hold::Children, state, sweep};
use crate::{
    exit::ExitStatus,
    fault,
    link::channel::{Channel, ChannelError},
    sys::{
        self,
        clone::{Born, Image},
        seqpacket::MAX_DESCRIPTORS,
    },
};

/// `argv[0]` that selects this role.
pub const ROLE: &str = "guard-agent-reaper";

/// A reaper at work that does not hold the links yet.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) born: Born,
    channel: Channel,
}

/// Starts it for this process, which must be the warden: before the first cgroup is made, so that there is always
/// somebody to remove it.
pub(super) fn start(program: &File, null: &File, state: &Path, children: &Children) -> io::Result<Starting> {
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
    let born = children.start(|| sys::clone::spawn(0, None, &image))?;
    let starting = Starting { born, channel };
    drop(theirs);
    starting
        .channel
        .send(&(), &[warden.as_fd()])
        .map_err(io::Error::other)?;
    starting.answered()?;
    Ok(starting)
}

impl Starting {
    /// Gives it the links to hold. From here on the reaper takes no input.
    pub(super) fn hold(self, links: &[OwnedFd]) -> io::Result<Born> {
        let links: Vec<_> = links.iter().map(|fd| fd.as_fd()).collect();
        for chunk in links.chunks(MAX_DESCRIPTORS) {
            self.channel.send(&(), chunk).map_err(io::Error::other)?;
        }
        // An empty message: that was all.
        self.channel.send(&(), &[]).map_err(io::Error::other)?;
        self.answered()?;
        Ok(self.born)
    }

    fn answered(&self) -> io::Result<()> {
        let limit = std::time::Duration::from_secs(10);
        let (answer, _) = self
            .channel
            .receive_within::<Result<(), String>>(limit)
            .map_err(io::Error::other)?;
        answer.map_err(io::Error::other)
    }
}

/// The role's whole life.
pub fn main(arguments: &[std::ffi::OsString]) -> ExitStatus {
    let Some(directory) = arguments.first().map(PathBuf::from) else {
        return ExitStatus::Usage;
    };
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
    sys::process::not_dumpable()?;
    let (warden, held) = match prepare(&channel) {
        Ok(prepared) => prepared,
        Err(error) => {
            // The warden may be gone already; then nobody needs to hear it.
            let _ = channel.send(&Err::<(), _>(error.to_string()), &[]);
            return Err(error);
        }
    };
    drop(channel);
    loop {
        let mut ready = [PollFd::new(warden.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) => break,
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let swept = clear_up(directory);
    drop(held);
    swept
}

/// The warden's pidfd, then the links; without them when it died before it had any.
fn prepare(channel: &Channel) -> io::Result<(OwnedFd, Vec<OwnedFd>)> {
    let ((), mut first) = channel.receive::<()>().map_err(io::Error::other)?;
    let warden = first
        .pop()
        .ok_or_else(|| io::Error::other("no pidfd of the warden"))?;
    channel
        .send(&Ok::<(), String>(()), &[])
        .map_err(io::Error::other)?;
    let mut held = Vec::new();
    loop {
        match channel.receive::<()>() {
            Ok(((), descriptors)) if descriptors.is_empty() => break,
            Ok(((), mut descriptors)) => held.append(&mut descriptors),
            Err(ChannelError::Closed) => return Ok((warden, held)),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    fault::point("reaper.ready")?;
    // A warden that died meanwhile is seen on its pidfd.
    let _ = channel.send(&Ok::<(), String>(()), &[]);
    Ok((warden, held))
}

fn clear_up(directory: &Path) -> io::Result<usize> {
    // The sandboxes' inits died with the warden's launcher thread; what is left is ended and recorded here.
    let lock = state::lock_file(directory)?;
    // A process that was just being born when the warden died has its lock for some milliseconds more.
    for _ in 0..100 {
        if sys::process::try_lock(&lock)? {
            return sweep::sweep(directory, "warden: it died");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // A new warden owns the directory and sweeps itself before it serves.
    Ok(0)
}
