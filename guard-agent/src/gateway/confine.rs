//! The gateway gives up everything before it reads a byte of the client.

use crate::{
    confine::{ConfineError, landlock, seccomp},
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

/// Takes the uid and gid `id`, which no account has, and forbids this process and all its threads files,
/// network and programs. What it holds open is all it will ever have.
pub fn confine(id: u32) -> Result<(), Refusal> {
    process::drop_bounding_set().map_err(|error| failed("bounding-set", error))?;
    process::set_ids(id, id, &[]).map_err(|error| failed("ids", error))?;
    process::no_new_privileges().map_err(|error| failed("no-new-privileges", error))?;
    process::not_dumpable().map_err(|error| failed("dumpable", error))?;
    match landlock::restrict(&[], landlock::Settings { network: true }) {
        // Seccomp alone forbids every call that could open or connect.
        Ok(_) | Err(ConfineError::LandlockMissing(_)) => {}
        Err(error) => return Err(failed("landlock", chain(&error))),
    }
    seccomp::install_gateway().map_err(|error| failed("seccomp", chain(&error)))
}
