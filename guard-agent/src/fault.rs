//! Kill points and injected failures, compiled in only with the `faults` feature.
//!
//! `GUARD_AGENT_FAULT=launch.mounts=fail` makes that step return an error,
//! `=kill` makes the process that reaches it send SIGKILL to itself. Several are separated by commas.
//! A step may name an occurrence: `audit.write#3=kill`.

use std::io;

/// The places a fault can be injected at, in the order they are reached: `docs/testing.md` and the tests read it.
#[cfg(feature = "faults")]
pub fn point(name: &str) -> io::Result<()> {
    imp::point(name)
}

/// Nothing in a build without the `faults` feature.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub fn point(_name: &str) -> io::Result<()> {
    Ok(())
}

/// How much longer than usual others are waited for: a build that fails on request is slow, and runs on emulated machines.
pub const PATIENCE: u32 = if cfg!(feature = "faults") { 3 } else { 1 };

/// What a process passes on to one whose environment it sets itself (the sandbox's init).
pub fn inherited() -> Option<String> {
    if cfg!(feature = "faults") {
        std::env::var("GUARD_AGENT_FAULT").ok()
    } else {
        None
    }
}

#[cfg(feature = "faults")]
mod imp {
    use std::{
        collections::HashMap,
        io,
        sync::{Mutex, OnceLock},
    };

    static COUNTS: OnceLock<Mutex<HashMap<String, u32>>> = OnceLock::new();

    pub(super) fn point(name: &str) -> io::Result<()> {
        let Ok(spec) = std::env::var("GUARD_AGENT_FAULT") else {
            return Ok(());
        };
        let seen = {
            let mut counts = COUNTS
                .get_or_init(Mutex::default)
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let count = counts.entry(name.to_owned()).or_default();
            *count += 1;
            *count
        };
        for clause in spec.split(',') {
            let Some((place, action)) = clause.split_once('=') else {
                continue;
            };
            let (place, wanted) = match place.split_once('#') {
                Some((place, number)) => (place, number.parse().unwrap_or(1)),
                None => (place, 1),
            };
            if place != name || wanted != seen {
                continue;
            }
            match action {
                "kill" => {
                    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
                    // Pid 1 of a namespace is immune to its own SIGKILL: it goes without a word instead.
                    crate::sys::exec::leave(137);
                }
                _ => return Err(io::Error::other(format!("injected failure at `{name}`"))),
            }
        }
        Ok(())
    }
}
