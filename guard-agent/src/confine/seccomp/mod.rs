//! Seccomp filters of the sandbox and of the gateway.

mod arguments;
mod bpf;
mod compile;
mod describe;
mod doc;
mod gateway;
pub(crate) mod names;
mod rule;
mod table;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;

use compile::Report;
pub use describe::{Denied, describe};
pub(crate) use describe::{answer, family, octal, refuses, request, socket_type, telling};
pub use doc::markdown;
pub use rule::Options;

use super::ConfineError;
use crate::sys::seccomp as sys;

/// The programs of the sandbox's init and child, compiled before anything is given up.
#[derive(Debug)]
pub struct ChildFilters {
    allow_list: Vec<seccompiler::sock_filter>,
    verdicts: Vec<libc::sock_filter>,
}

impl ChildFilters {
    /// With a listener, for a warden that records refusals and answers them.
    pub fn reporting(options: &Options) -> Result<Self, ConfineError> {
        Self::compile(options, Report::Listener)
    }

    fn compile(options: &Options, report: Report) -> Result<Self, ConfineError> {
        let verdicts = compile::verdicts(table::CHILD, options)
            .map_err(|why| ConfineError::Compile { filter: "table", why })?;
        Ok(Self {
            allow_list: compile::allow_list(&verdicts)?,
            verdicts: compile::verdict_program(&verdicts, report)?,
        })
    }

    /// How many instructions the allow-list and the verdicts have.
    pub fn instructions(&self) -> (usize, usize) {
        (self.allow_list.len(), self.verdicts.len())
    }

    /// Installs both on the calling thread, for good, and sets `no_new_privs`.
    ///
    /// The descriptor goes to the warden at once (`sendmsg` and `close` are allowed) and must not reach the child.
    /// Until the warden reads it, a call that is to be reported makes its caller wait; once it has no holder left,
    /// such a call gets ENOSYS.
    pub fn install(&self) -> Result<OwnedFd, ConfineError> {
        self.install_allow_list()?;
        sys::install_with_listener(&self.verdicts).map_err(|source| match source.raw_os_error() {
            Some(libc::EBUSY) => ConfineError::ListenerTaken,
            _ => ConfineError::Install {
                purpose: "reports refusals",
                source,
            },
        })
    }

    fn install_allow_list(&self) -> Result<(), ConfineError> {
        seccompiler::apply_filter(&self.allow_list).map_err(|error| ConfineError::AllowList(Box::new(error)))
    }
}

/// For a child whose signals nothing else bounds (no pid namespace, Landlock before ABI 6): it may ask whether a
/// process lives, and signal nobody, itself included.
pub fn no_signals() -> Result<Vec<libc::sock_filter>, ConfineError> {
    let verdicts =
        compile::verdicts(table::SIGNALS, &Options::STRICT).map_err(|why| ConfineError::Compile {
            filter: "signals",
            why,
        })?;
    compile::verdict_program(&verdicts, Report::Nobody)
}

/// The same refusals with the same errnos on the calling thread, and nobody to hear of them.
pub fn install_child_silent(options: &Options) -> Result<(), ConfineError> {
    let filters = ChildFilters::compile(options, Report::Nobody)?;
    filters.install_allow_list()?;
    sys::install(&filters.verdicts).map_err(|source| ConfineError::Install {
        purpose: "answers refusals",
        source,
    })
}

/// Confines the gateway, all threads it has: from here on it moves bytes between descriptors it holds.
pub fn install_gateway() -> Result<(), ConfineError> {
    let verdicts = compile::verdicts(&gateway::rows(), &Options::STRICT)
        .map_err(|why| ConfineError::Compile { filter: "table", why })?;
    let allow_list = compile::allow_list(&verdicts)?;
    let program = compile::verdict_program(&verdicts, Report::Nobody)?;
    seccompiler::apply_filter_all_threads(&allow_list)
        .map_err(|error| ConfineError::AllowList(Box::new(error)))?;
    sys::install_all_threads(&program).map_err(|source| ConfineError::Install {
        purpose: "ends the gateway",
        source,
    })
}
