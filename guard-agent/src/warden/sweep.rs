//! Ends and records what a dead warden left. Run by its reaper, or by the next warden at start; whoever runs it
//! holds the state directory's lock, so it happens once.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use super::{cgroup, registry, scratch};
use crate::{
    audit::{Body, Exit, Gap, GapKind, Options, Origin, Trail, call_name},
    fault,
    refusal::chain,
    sys::family,
};

/// How long a sandbox may take to die. Tasks in uninterruptible sleep may take longer; then the next sweep ends it.
const LIMIT: Duration = Duration::from_secs(5);

/// Kills every sandbox of the state directory first, then writes what is owed about them.
///
/// Returns how many sandboxes there were.
pub fn sweep(state: &Path, cause: &str) -> io::Result<usize> {
    let unprivileged = !nix::unistd::geteuid().is_root();
    if unprivileged {
        end_families(state)?;
        scratch::sweep(state);
    }
    let parent = cgroup::parent_path(state).ok().filter(|_| !unprivileged);
    if parent.as_ref().is_some_and(|parent| parent.exists()) {
        fault::point("sweep.kill")?;
    }
    let held = parent
        .as_ref()
        .filter(|parent| parent.exists())
        .map(|parent| cgroup::hold(parent))
        .transpose()?;
    // Every cgroup below ours, whether or not its entry survived.
    if let Some(parent) = &parent
        && let Ok(listing) = fs::read_dir(parent)
    {
        for item in listing.flatten() {
            if item.file_type().is_ok_and(|kind| kind.is_dir())
                && let Err(error) = cgroup::destroy(&item.path(), LIMIT)
            {
                tracing::error!(error = %chain(&error), "cannot end a sandbox");
            }
        }
    }
    if let Some(parent) = &parent {
        match fs::remove_dir(parent) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(path = %parent.display(), %error, "cannot remove the sandboxes' cgroup");
            }
            _ => {}
        }
    }
    drop(held);
    let entries = registry::entries(state)?;
    for entry in &entries {
        match record(entry, cause) {
            Ok(()) => registry::remove(state, entry)?,
            // The entry stays: the next warden tries again.
            Err(error) => {
                tracing::error!(session = entry.session, %error, "cannot record the end of a session");
            }
        }
    }
    Ok(entries.len())
}

/// Without a cgroup: the inits of a dead warden end what they started, and themselves. What does not, is ended.
fn end_families(state: &Path) -> io::Result<()> {
    let alive = |entry: &registry::Entry| {
        let (pid, started) = entry.init?;
        let stat = family::stat(pid)?;
        (stat.started == started && !stat.ended).then_some(pid)
    };
    let entries = registry::entries(state)?;
    if !entries.is_empty() {
        fault::point("sweep.kill")?;
    }
    let end = Instant::now() + LIMIT;
    while entries.iter().any(|entry| alive(entry).is_some()) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
    for entry in &entries {
        if let Some(pid) = alive(entry) {
            tracing::error!(
                session = entry.session,
                pid,
                "a sandbox did not end with its warden"
            );
            family::end_family(pid, LIMIT);
        }
    }
    Ok(())
}

fn record(entry: &registry::Entry, cause: &str) -> Result<(), String> {
    if !entry.launched {
        return Ok(());
    }
    fault::point("sweep.record").map_err(|error| error.to_string())?;
    let mut trail = Trail::open(entry.audit.as_path(), Options::default()).map_err(|error| chain(&error))?;
    let now = jiff::Timestamp::now().as_microsecond();
    let exit = Exit {
        session: entry.session.clone(),
        call: entry.call.map(call_name),
        server: entry.server.clone(),
        reason: "killed".into(),
        code: None,
        signal: Some(libc::SIGKILL),
        duration_us: u64::try_from(now.saturating_sub(entry.started_us))
            .unwrap_or(0)
            .into(),
        resources: None,
        stderr_tail: None,
        cause: Some(cause.to_owned()),
        degraded: None,
    };
    let gap = Gap::unknown(Some(entry.session.clone()), GapKind::WardenDied).of_call(entry.call);
    for body in [Body::Gap(gap), Body::Exit(Box::new(exit))] {
        let durability = body.durability();
        trail
            .append(&body, Origin::Warden, durability)
            .map_err(|error| chain(&error))?;
    }
    trail.close().map_err(|error| chain(&error))
}
