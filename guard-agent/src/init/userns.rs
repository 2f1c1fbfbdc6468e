//! A user namespace of the sandbox's own: its ids, its ceiling, and whether the machine allows one at all.

use std::{fs, io, path::Path};

use super::view;
use crate::{
    exit::ExitStatus,
    link::channel::Channel,
    sys::{self, mount},
};

/// `argv[0]` that selects the role that tries what a sandbox's init will do.
pub const PROBE: &str = "guard-agent-userns";

/// Maps exactly one uid and one gid, the caller's own onto themselves. Groups can not be changed any more.
pub(super) fn map_ids(uid: u32, gid: u32) -> io::Result<()> {
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

/// The whole life of the role: tries, says what came of it over descriptor 3, ends.
pub fn probe() -> ExitStatus {
    let Ok(channel) = Channel::new(sys::process::inherited_channel()) else {
        return ExitStatus::Internal;
    };
    let tried = attempt().map_err(|(step, error)| format!("{step}: {error}"));
    match channel.send(&tried, &[]) {
        Ok(()) => ExitStatus::Ok,
        Err(_) => ExitStatus::Internal,
    }
}

fn attempt() -> Result<(), (&'static str, io::Error)> {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    // Unmapped ids read as the overflow ids: the real ones are in the parent's words.
    let (uid, gid) = parent_ids().unwrap_or((uid, gid));
    map_ids(uid, gid).map_err(|error| ("mapping the ids", error))?;
    view::make_private().map_err(|error| ("making mounts private", error))?;
    mount::new_filesystem(c"tmpfs", &[], mount::Attributes::default())
        .map(drop)
        .map_err(|error| ("mounting a tmpfs", error))?;
    let root = fs::File::open("/").map_err(|error| ("opening `/`", error))?;
    mount::clone_tree(&root, true)
        .map(drop)
        .map_err(|error| ("copying mounts", error))
}

/// From our own arguments: uid and gid.
fn parent_ids() -> Option<(u32, u32)> {
    let mut words = std::env::args().skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}
