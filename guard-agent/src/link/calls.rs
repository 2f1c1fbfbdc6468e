//! The gateway's side of a session with a sandbox a call. It works with what a confined gateway has: the one link, and
//! the descriptors that come over it.

use std::os::fd::OwnedFd;

use super::{
    channel::{Channel, ChannelError},
    connect::{answer, failed, handed, unexpected},
    message::{Exited, FromWarden, Launched, Planned, ToWarden},
};
use crate::{
    octets::Octets,
    refusal::{Refusal, chain},
};

/// A plan that a warden holds. One call has a server at a time; the warden ends it when this is dropped.
#[derive(Debug)]
pub struct Calls {
    channel: Channel,
    planned: Planned,
    next: u64,
}

/// The server of one call.
#[derive(Debug)]
pub struct Call {
    /// As records name it.
    pub number: u64,
    pub launched: Launched,
    /// The child's stdin (write), stdout and stderr (read).
    pub pipes: [OwnedFd; 3],
    /// The sandbox's call stamp, where eBPF programs read it.
    pub stamp: Option<OwnedFd>,
}

impl Calls {
    pub(super) fn new(channel: Channel, planned: Planned) -> Self {
        Self {
            channel,
            planned,
            next: 1,
        }
    }

    pub fn planned(&self) -> &Planned {
        &self.planned
    }

    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// A fresh server for the next call, once that of the call before has ended.
    pub fn start(&mut self) -> Result<Call, Refusal> {
        // Whatever comes of it, the number is used.
        let number = self.next;
        self.next += 1;
        self.send(&ToWarden::Call { call: number })?;
        match answer(&self.channel)? {
            (FromWarden::Called { call, launched }, pipes) if call == number => {
                let handed = handed(pipes, &launched)?;
                Ok(Call {
                    number,
                    launched,
                    pipes: handed.pipes,
                    stamp: handed.stamp,
                })
            }
            (FromWarden::CallRefused { call, refusal }, _) if call == number => Err(refusal),
            (FromWarden::Exited(_), _) => Err(over()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Ends the server of the call and waits until nothing of it is left.
    pub fn end(&mut self, call: &Call, stderr: impl FnOnce() -> Octets) -> Result<Exited, Refusal> {
        self.send(&ToWarden::Kill)?;
        self.wait(call, stderr)
    }

    /// Asks it to end, as a client's SIGTERM would.
    pub fn terminate(&mut self) -> Result<(), Refusal> {
        self.send(&ToWarden::Terminate)
    }

    /// Waits until the server has ended by itself and nothing of it is left. `stderr`: the end of what it wrote there,
    /// asked for once it is dead, where that says something.
    pub fn wait(&mut self, call: &Call, stderr: impl FnOnce() -> Octets) -> Result<Exited, Refusal> {
        let mut stderr = Some(stderr);
        loop {
            match self.channel.receive::<FromWarden>() {
                Ok((FromWarden::Ending, _)) => {
                    if let Some(stderr) = stderr.take() {
                        self.send(&ToWarden::LastWords { stderr: stderr() })?;
                    }
                }
                // It is frozen for good: nobody waits for its answer any more.
                Ok((FromWarden::Quarantined { why }, _)) => {
                    tracing::warn!(call = call.number, why, "quarantined");
                    self.send(&ToWarden::Kill)?;
                }
                Ok((FromWarden::CallEnded { call: ended, exited }, _)) if ended == call.number => {
                    return Ok(exited);
                }
                Ok((FromWarden::Exited(_), _)) | Err(ChannelError::Closed) => return Err(over()),
                Ok((other, _)) => return Err(unexpected(&other)),
                Err(error) => return Err(failed(chain(&error))),
            }
        }
    }

    fn send(&self, message: &ToWarden) -> Result<(), Refusal> {
        self.channel.send(message, &[]).map_err(|_| over())
    }
}

fn over() -> Refusal {
    failed("it ended the session; the sandbox of its last call was ended with it")
}
