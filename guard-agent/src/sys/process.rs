//! Process attributes: descriptors, capabilities, ids, pidfds.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
};

use super::check;

/// Closes every descriptor from `first` on.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: plain integers. The caller owns no `OwnedFd` at or above `first` that it still uses.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// Marks every descriptor from `first` on close-on-exec.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: plain integers; no descriptor is closed now.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
        .map(drop)
}

/// Descriptor 3, where a parent of ours puts the channel.
pub fn inherited_channel() -> OwnedFd {
    // SAFETY: only called once, at the start of the roles that are executed with their channel at 3.
    unsafe { OwnedFd::from_raw_fd(3) }
}

/// A descriptor given by number on our own command line.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain integers.
    check(unsafe { libc::fcntl(number, libc::F_GETFD) }.into())?;
    // SAFETY: the descriptor is open (just checked) and was put there for this process by its parent; each
    // number is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Takes over a descriptor that a call of `nix` just returned by number.
pub fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller passes the result of a successful `accept4`, which nobody else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Gives the kernel back what was freed. A fork copies what is left, and a warden forks for each launch.
pub fn give_memory_back() {
    // SAFETY: it unmaps free chunks of the allocator's own, which nobody points to.
    unsafe { libc::malloc_trim(0) };
}

pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers; the result is a new descriptor.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

pub fn pidfd_kill(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    // SAFETY: a borrowed descriptor, plain integers and a null siginfo.
    check(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_fd().as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    })
    .map(drop)
}

/// Waits for the death of a process; `false` when it still lives after `limit`.
pub fn wait_dead(pidfd: impl AsFd, limit: std::time::Duration) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let end = std::time::Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        let mut ready = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
        match poll(
            &mut ready,
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
        ) {
            Ok(count) => return count > 0,
            Err(nix::Error::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Takes ids for good, as raw calls: in a process without threads, or for this thread alone.
pub fn set_ids(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: pointer and length describe the live slice; the others take plain integers.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    Ok(())
}

fn prctl(option: i32, argument: u64) -> io::Result<()> {
    // SAFETY: the options used here take integers.
    check(unsafe { libc::prctl(option, argument, 0, 0, 0) }.into()).map(drop)
}

pub fn no_new_privileges() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

pub fn not_dumpable() -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, 0)
}

/// Orphans among this process's descendants become its children.
pub fn adopt_orphans() -> io::Result<()> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1)
}

/// The other way round, for a fork that has nothing to hide: the files of its `/proc` directory are its own again.
pub fn dumpable() -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, 1)
}

pub fn parent_death_signal(signal: i32) -> io::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, signal as u64)
}

/// Empties the capability bounding set.
pub fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..=63 {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // Past the last capability this kernel knows.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Empties every set but the bounding set. The inheritable one survives a change of ids: some service managers and
/// containers leave one to what they start.
pub fn clear_capabilities() -> io::Result<()> {
    use caps::{CapSet, clear};
    for set in [
        CapSet::Ambient,
        CapSet::Effective,
        CapSet::Permitted,
        CapSet::Inheritable,
    ] {
        clear(None, set).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Exclusive lock on an open file; `false` when another open file description holds it.
pub fn try_lock(file: impl AsFd) -> io::Result<bool> {
    // SAFETY: a borrowed descriptor and an integer.
    match check(unsafe { libc::flock(file.as_fd().as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }.into()) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EWOULDBLOCK) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Exclusive lock, waiting for it.
pub fn lock(file: impl AsFd) -> io::Result<()> {
    loop {
        // SAFETY: a borrowed descriptor and an integer.
        match check(unsafe { libc::flock(file.as_fd().as_raw_fd(), libc::LOCK_EX) }.into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}
