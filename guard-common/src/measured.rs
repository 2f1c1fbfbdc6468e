//! The verdict on an open once more, for a machine that takes no program on its security hooks nor at the kernel's
//! functions: at the tracepoint of system calls, about the directory that the caller is in. It looks, walks and counts as
//! the hook's own program does, and refuses nothing. Nothing but a benchmark loads it.

/// The program.
pub const PROGRAM: &str = "measured_walk";
/// The tracepoint.
pub const TRACEPOINT: &str = "sys_enter";
/// `getppid`: judged, as if the directory were opened to be read.
pub const JUDGED: u64 = 110;
/// `statx`: of the warden, enrols the directory it is in.
pub const ENROLS: u64 = 332;
