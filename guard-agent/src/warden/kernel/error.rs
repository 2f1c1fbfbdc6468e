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
        /// What the verifier says against it, on one line.
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

/// What stands in the reason when the kernel hides its memory from eBPF programs.
const LOCKED_DOWN: &str =
    "the kernel lets no eBPF program read its memory, as under `lockdown=confidentiality`";

/// Whether a reason why a program is not in force is the kernel's lockdown.
pub fn locked_down(why: &str) -> bool {
    why.contains(LOCKED_DOWN)
}

fn said(verifier: &str) -> String {
    // A helper that every kernel has for these programs; under lockdown it is taken for one that is not there.
    let no_helper = ["cannot use helper bpf_probe_read", "unknown func bpf_probe_read"];
    if verifier.is_empty() {
        String::new()
    } else if no_helper.iter().any(|text| verifier.contains(text)) {
        format!(", {LOCKED_DOWN}")
    } else {
        format!(", the verifier says: {verifier}")
    }
}

/// The lines of a verifier log that say why, without the instructions before them and the figures after them.
pub(super) fn log_reason(log: &str) -> String {
    const LINES: usize = 4;
    let instruction = |line: &str| {
        line.split_once(':')
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let figures = [
        "verification time ",
        "stack depth ",
        "processed ",
        "mark_precise: ",
    ];
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(';') && !instruction(line))
        .filter(|line| !figures.iter().any(|begin| line.starts_with(begin)))
        .collect();
    lines
        .get(lines.len().saturating_sub(LINES)..)
        .unwrap_or_default()
        .join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a log of Linux 6.12 under lockdown.
    const LOG: &str = "40: (b7) r2 = 72                      ; R2_w=72\n\
                       ;  @ helpers.rs:1178\n\
                       41: (85) call bpf_probe_read#4\n\
                       program of this type cannot use helper bpf_probe_read#4\n\
                       verification time 1863 usec\n\
                       stack depth 88\n\
                       processed 39 insns (limit 1000000) max_states_per_insn 0 total_states 3\n";

    #[test]
    fn what_the_log_says_against_a_program_is_kept_and_no_more() {
        assert_eq!(log_reason(""), "");
        assert_eq!(log_reason("a\n\n  b \n"), "a | b");
        assert_eq!(
            log_reason(LOG),
            "program of this type cannot use helper bpf_probe_read#4"
        );
        let long: String = (0..20).map(|line| format!("line {line}\n")).collect();
        assert_eq!(log_reason(&long), "line 16 | line 17 | line 18 | line 19");
    }

    #[test]
    fn lockdown_is_told_from_other_reasons() {
        let text = |verifier: &str| {
            let error = KernelError::Load {
                program: "sys_exit",
                verifier: verifier.to_owned(),
                source: io::Error::from_raw_os_error(22),
            };
            error.to_string()
        };
        for log in [&log_reason(LOG), "unknown func bpf_probe_read_kernel#113"] {
            assert_eq!(
                text(log),
                format!("cannot load eBPF program `sys_exit`, {LOCKED_DOWN}")
            );
            assert!(locked_down(&text(log)));
        }
        let other = text("R5 !read_ok");
        assert_eq!(
            other,
            "cannot load eBPF program `sys_exit`, the verifier says: R5 !read_ok"
        );
        assert!(!locked_down(&other));
    }
}
