//! Why the kernel half is not in force: the program or map, and the kernel's own reason.

use std::{error::Error, io};

use aya::maps::MapError;
use guard_common::{abi::SLOT_COUNT, layout::LAYOUT_HASH};

/// Why the kernel half is not in force. Nothing stays loaded or attached.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("cannot prepare the eBPF object of this build")]
    Object { source: Box<dyn Error + Send + Sync> },
    #[error("the eBPF object of this build has no `{name}`")]
    Missing { name: &'static str },
    #[error("cannot load eBPF program `{program}`{}", said(verifier))]
    Load {
        program: &'static str,
        /// The end of what the verifier wrote, on one line.
        verifier: String,
        source: io::Error,
    },
    #[error("cannot attach eBPF program `{program}` to the sandboxes' cgroup")]
    Attach {
        program: &'static str,
        source: io::Error,
    },
    #[error("cannot attach eBPF program `{program}` to the tracepoint of its name")]
    Tracepoint {
        program: &'static str,
        source: io::Error,
    },
    #[error("cannot attach eBPF program `{hook}` to the security hook of its name")]
    Hook { hook: &'static str, source: io::Error },
    #[error("cannot attach eBPF program `{program}` to the end of the kernel's `{function}`")]
    Function {
        program: &'static str,
        function: &'static str,
        source: io::Error,
    },
    #[error("the security hooks cannot be used on this kernel: {missing}")]
    Unknown { missing: String },
    #[error("the security hooks are not in force")]
    NoHooks,
    #[error("the security hooks are put in force once by a process, and this one has tried before")]
    HooksTwice,
    #[error("cannot enrol a root with the security hooks")]
    Enrol { source: io::Error },
    #[error("cannot label a process for the security hooks")]
    Label { source: io::Error },
    #[error("cannot make the call stamp of a sandbox")]
    Stamp { source: io::Error },
    #[error("cannot observe system calls: {why}")]
    Unobservable { why: String },
    #[error("the eBPF object is not of this build: its layout is {}, this build's {LAYOUT_HASH:016x}", stated(*object))]
    Layout {
        /// What the object says, if anything.
        object: Option<u64>,
    },
    #[error("all {SLOT_COUNT} slots for sandboxes are in use")]
    NoSlot,
    #[error("the sandbox has no open slot")]
    Closed,
    #[error("cannot use eBPF map `{map}`")]
    Map {
        map: &'static str,
        source: Box<MapError>,
    },
}

impl KernelError {
    pub(super) fn object(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Object {
            source: Box::new(source),
        }
    }

    pub(super) fn map(map: &'static str) -> impl Fn(MapError) -> Self {
        move |source| Self::Map {
            map,
            source: Box::new(source),
        }
    }
}

fn stated(layout: Option<u64>) -> String {
    layout.map_or_else(|| "not stated".to_owned(), |hash| format!("{hash:016x}"))
}

fn said(verifier: &str) -> String {
    if verifier.is_empty() {
        String::new()
    } else {
        format!(", the verifier says: {verifier}")
    }
}

/// The last lines of a verifier log, where it says why, on one line.
pub(super) fn log_tail(log: &str) -> String {
    // Newer verifiers end with advice and statistics, after the reason.
    const LINES: usize = 16;
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines
        .get(lines.len().saturating_sub(LINES)..)
        .unwrap_or_default()
        .join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_its_end() {
        assert_eq!(log_tail(""), "");
        assert_eq!(log_tail("a\n\n  b \n"), "a | b");
        let long: String = (0..20).map(|line| format!("{line}\n")).collect();
        assert_eq!(
            log_tail(&long),
            "4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 16 | 17 | 18 | 19"
        );
    }
}
