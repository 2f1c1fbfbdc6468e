//! The gateway gives up everything before it reads a byte of the client.

use std::io;

use crate::{
    confine::{ConfineError, landlock, seccomp},
    fault,
    refusal::{Refusal, chain},
    sys::process,
};

fn failed(step: &str, cause: impl std::fmt::Display) -> Refusal {
    Refusal::internal(
        format!("gateway step `{step}` failed"),
        cause.to_string(),
        "the server is ended; report this with the kernel's version",
    )
}

/// A named step: the fault point of the same name, then the work.
fn step(name: &'static str, work: impl FnOnce() -> io::Result<()>) -> Result<(), Refusal> {
    fault::point(name)
        .and_then(|()| work())
        .map_err(|error| failed(name, error))
}

/// Takes the uid and gid `id`, which no account has, and forbids this process and all its threads files,
/// network and programs. What it holds open is all it will ever have. Without root there is no `id` to take: it
/// stays the person it was, who has no capability.
pub fn confine(id: Option<u32>) -> Result<(), Refusal> {
    if let Some(id) = id {
        step("gateway.bounding-set", process::drop_bounding_set)?;
        step("gateway.ids", || {
            process::set_ids(id, id, &[])?;
            process::clear_capabilities()
        })?;
    }
    step("gateway.no-new-privileges", process::no_new_privileges)?;
    step("gateway.dumpable", process::not_dumpable)?;
    step("gateway.landlock", || {
        match landlock::restrict(&[], landlock::Settings { network: true }) {
            // Seccomp alone forbids every call that could open or connect.
            Ok(_) | Err(ConfineError::LandlockMissing(_)) => Ok(()),
            Err(error) => Err(io::Error::other(chain(&error))),
        }
    })?;
    step("gateway.seccomp", || {
        seccomp::install_gateway().map_err(|error| io::Error::other(chain(&error)))
    })
}
