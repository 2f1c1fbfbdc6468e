//! Pid 1 of a sandbox: builds the view, gives every privilege up, starts the child, reaps, reports.
//!
//! Runs alone in its own executed, single-threaded process. It ends as confined as the child; its only
//! descriptor is the socket to the warden.

mod apply;
mod brood;
pub mod message;
mod supervise;
mod userns;
mod view;

pub use view::host_base;

use std::{fmt, io, os::fd::OwnedFd};

pub(crate) use self::apply::{
    filter_options, landlock_found, landlock_settings, memfd_noexec as forbid_memory_programs,
};
use self::message::{FromInit, Setup, ToInit};
pub(crate) use self::userns::map_ids;
pub(crate) use self::view::{build as build_view, make_private};
use crate::{
    exit::ExitStatus,
    link::channel::{Channel, ChannelError},
    sys,
};

/// `argv[0]` that selects this role.
pub const ROLE: &str = "guard-agent-init";

/// A step that failed, by the name that errors, records and fault points use.
#[derive(Debug)]
pub struct StepError {
    pub step: &'static str,
    pub object: String,
    pub cause: String,
}

impl StepError {
    pub fn new(step: &'static str, object: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self {
            step,
            object: object.into(),
            cause: cause.to_string(),
        }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.object.is_empty() {
            f.write_str(&self.cause)
        } else {
            write!(f, "`{}`: {}", self.object, self.cause)
        }
    }
}

/// The role's whole life. The process's channel is descriptor 3.
pub fn main() -> ExitStatus {
    let Ok(channel) = Channel::new(sys::process::inherited_channel()) else {
        return ExitStatus::Internal;
    };
    match run(&channel) {
        Ok(()) => ExitStatus::Ok,
        Err(error) => {
            // Best effort: when the warden is gone nobody listens, and the sandbox ends with us.
            let failed = FromInit::Failed {
                step: error.step.to_owned(),
                error: error.to_string(),
            };
            let _ = channel.send(&failed, &[]);
            ExitStatus::Internal
        }
    }
}

fn run(channel: &Channel) -> Result<(), StepError> {
    let (setup, descriptors) = receive_setup(channel).map_err(|error| link("setup", &error))?;
    let (setup, pipes, confinement) = apply::apply(channel, *setup, descriptors)?;
    let brood = brood::Brood::of(&setup, &confinement);
    channel
        .send(&FromInit::Ready(confinement), &[])
        .map_err(|error| link("ready", &error))?;
    match channel
        .receive::<ToInit>()
        .map_err(|error| link("release", &error))?
        .0
    {
        ToInit::Release => {}
        // Asked to end before it began.
        ToInit::Terminate => return Ok(()),
        other => {
            return Err(StepError::new(
                "release",
                "",
                format!("unexpected message {other:?}"),
            ));
        }
    }
    supervise::run(channel, &setup, pipes, brood)
}

fn link(step: &'static str, error: &ChannelError) -> StepError {
    StepError::new(step, "", crate::refusal::chain(error))
}

/// The setup and all descriptors that belong to it: the mounts, then stdin, stdout and stderr.
fn receive_setup(channel: &Channel) -> Result<(Box<Setup>, Vec<OwnedFd>), ChannelError> {
    let unexpected = || ChannelError::Receive(io::Error::other("unexpected message"));
    let (ToInit::Setup(setup), mut descriptors) = channel.receive()? else {
        return Err(unexpected());
    };
    let wanted = setup.descriptors();
    while descriptors.len() < wanted {
        let (ToInit::Descriptors, mut more) = channel.receive()? else {
            return Err(unexpected());
        };
        if more.is_empty() {
            return Err(unexpected());
        }
        descriptors.append(&mut more);
    }
    Ok((setup, descriptors))
}
