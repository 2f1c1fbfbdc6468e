//! Who descends from whom, as `/proc` shows it, and the end of a whole family that no pid namespace bounds.

use std::{
    collections::BTreeSet,
    fs, io,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// The children of a process, of all its threads.
pub fn children(pid: i32) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        match fs::read_to_string(thread?.path().join("children")) {
            Ok(text) => found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            // A kernel without CONFIG_PROC_CHILDREN, or a thread that is gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return by_parent(pid),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The same by looking at everybody.
fn by_parent(parent: i32) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if stat(pid).is_some_and(|stat| stat.parent == parent) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// What tells a process from another that later has its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub parent: i32,
    /// Clock ticks from boot to its start.
    pub started: u64,
    /// It has ended, and only its parent has not asked how: nothing of it runs, in its pid namespace neither.
    pub ended: bool,
}

pub fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        ended: matches!(*fields.first()?, "Z" | "X"),
    })
}

/// All descendants of `roots`, themselves included, as far as they can be seen now.
fn family(roots: &[i32]) -> Vec<i32> {
    let mut seen: BTreeSet<i32> = BTreeSet::new();
    let mut pending = roots.to_vec();
    while let Some(pid) = pending.pop() {
        if seen.insert(pid) {
            pending.extend(children(pid).unwrap_or_default());
        }
    }
    seen.into_iter().collect()
}

/// Stops them all, so that none outruns this by forking, then kills them.
fn strike(roots: &[i32]) {
    let all = family(roots);
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in &all {
            // Gone meanwhile is as good.
            let _ = kill(Pid::from_raw(*pid), signal);
        }
    }
}

/// How the children of this process, and what they leave, are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The kernel lets a signal of ours go to the family alone: to all of it at once.
    Everybody,
    /// One after the other, as `/proc` shows them.
    Seen,
}

/// Ends every child of this process and all that become its children by that (it is their subreaper). `false`: some
/// were left when the time was over.
pub fn end_all(reach: Reach, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        match reach {
            Reach::Everybody => {
                let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
            }
            Reach::Seen => strike(&children(std::process::id().cast_signed()).unwrap_or_default()),
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                // What died leaves its orphans to us.
                Ok(_) | Err(nix::Error::EINTR) => {}
                // No child, so no descendant.
                Err(_) => return true,
            }
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Strikes at the children of this process but `spared` (others of its own), once. `true`: there are none, and
/// so no descendant. What became its children were orphans of a sandbox: it is their subreaper.
pub fn end_orphans(spared: &BTreeSet<i32>) -> bool {
    let Ok(mut left) = children(std::process::id().cast_signed()) else {
        return false;
    };
    left.retain(|pid| !spared.contains(pid));
    strike(&left);
    for pid in &left {
        let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
    }
    left.is_empty()
}

/// Ends what descends from another process, which is their subreaper, and then that process. For one that does not
/// do so itself.
pub fn end_family(root: i32, limit: Duration) {
    let end = Instant::now() + limit;
    loop {
        let below: Vec<i32> = children(root).unwrap_or_default();
        // Those that are dead wait for their parent, which may be stopped itself.
        if below.iter().all(|pid| is_dead(*pid)) || Instant::now() > end {
            break;
        }
        strike(&below);
    }
    let _ = kill(Pid::from_raw(root), Signal::SIGKILL);
}

fn is_dead(pid: i32) -> bool {
    stat(pid).is_none_or(|stat| stat.ended)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn children_are_seen_both_ways() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(children(own).unwrap().contains(&pid));
        assert!(by_parent(own).unwrap().contains(&pid));
        assert_eq!(stat(pid).unwrap().parent, own);
        assert!(stat(pid).unwrap().started > 0);
        assert!(!stat(pid).unwrap().ended);
        child.kill().unwrap();
        // Dead, and not asked about: whoever waits for its end has it.
        let until = Instant::now() + Duration::from_secs(5);
        while !is_dead(pid) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(stat(pid).unwrap().ended);
        child.wait().unwrap();
        assert!(!children(own).unwrap().contains(&pid));
        assert!(is_dead(pid));
    }

    #[test]
    fn a_family_ends_with_its_root_last() {
        // A shell with a grandchild that leaves its session.
        let mut root = Command::new("sh")
            .args(["-c", "setsid sleep 61 & sleep 62 & wait"])
            .spawn()
            .unwrap();
        let pid = i32::try_from(root.id()).unwrap();
        let until = Instant::now() + Duration::from_secs(5);
        while children(pid).unwrap().len() < 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let all = family(&[pid]);
        assert!(all.len() >= 3, "{all:?}");
        end_family(pid, Duration::from_secs(5));
        root.wait().unwrap();
        for pid in all {
            assert!(is_dead(pid), "{pid} lives");
        }
    }
}
