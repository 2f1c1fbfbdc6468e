//! A user namespace of the sandbox's own: its ids and its ceiling.

use std::{fs, io, path::Path};

/// Maps exactly one uid and one gid, the caller's own onto themselves. Groups can not be changed any more.
pub(crate) fn map_ids(uid: u32, gid: u32) -> io::Result<()> {
    // A kernel without it (before 3.19) would not take the gid either.
    fs::write("/proc/self/setgroups", "deny").map_err(named("setgroups"))?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).map_err(named("uid_map"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).map_err(named("gid_map"))
}

fn named(file: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("`/proc/self/{file}`: {error}"))
}

/// No further user namespace inside this one, whatever seccomp says. Best effort: `/proc/sys` may be read-only.
pub(super) fn close_further() -> bool {
    let knob = Path::new("/proc/sys/user/max_user_namespaces");
    fs::write(knob, "0").is_ok() && fs::read_to_string(knob).is_ok_and(|text| text.trim() == "0")
}
