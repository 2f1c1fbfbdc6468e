//! From an error number and a place to what a record says: refused by which layer, allowed, or nothing special.
//!
//! Pure. At tier T2 the kernel tells the errno alone, so the layer is given only where the place leaves no doubt.
#![forbid(unsafe_code)]

use guard_common::syscalls::Class;
use libc::{EACCES, ENETUNREACH, ENOENT, ENOTDIR, EPERM, EROFS, ESRCH, EXDEV};

use super::{
    calls::Act,
    places::{Kind, Places},
};
use crate::audit::Layer;

/// The path is in none of the places the view has.
const OUTSIDE_VIEW: &str = "outside-view";
/// The mount it lies on is read-only.
const READ_ONLY: &str = "read-only";
/// The mount it lies on lets nothing be executed.
const NO_EXEC: &str = "no-exec";
/// Landlock or ordinary permissions: tier T2 cannot tell which.
const LANDLOCK_OR_PERMISSIONS: &str = "landlock-or-permissions";
/// Ordinary permissions: not the file's owner, a capability that is missing. Landlock has another errno for files.
const PERMISSIONS: &str = "permissions";
/// Landlock, which moves no file to where it would have more rights, or two mounts.
const LANDLOCK_OR_MOUNTS: &str = "landlock-or-mounts";
/// Landlock's scopes, or the other process is another user's.
const SCOPE_OR_PERMISSIONS: &str = "landlock-or-permissions";
/// The sandbox has no process of that number: another has it, or none.
const NO_SUCH_PROCESS: &str = "no-such-process";
/// The sandbox has no network interface that is up.
const NO_NETWORK: &str = "no-network";
/// It starts at a directory that could not be looked up any more.
const UNPLACED: &str = "unplaced";
/// It begins in the view; where it leads is in the part that was not read.
const CUT: &str = "path-cut";

/// How an attempt is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Deny {
        layer: Layer,
        reason: Option<&'static str>,
    },
    /// Recorded although nothing was refused.
    Allow,
    /// What every program does all the time.
    Ordinary,
}

/// Where a path leads, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// There is none, or it is no path.
    None,
    /// Cleaned, absolute.
    At(&'a [u8]),
    /// A link inside a place leads out of all places.
    LeadsOut,
    /// So far known of a path that is longer than what is reported, or whose memory could not be read to its end.
    Cut(&'a [u8]),
    /// Its memory could not be read.
    Unread,
    /// Relative to a descriptor that was closed, or passed to another, before it was looked up.
    Unplaced,
}

/// What is known of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) act: Act,
    pub(super) class: Class,
    pub(super) errno: i32,
    /// Memory that is to be executable.
    pub(super) executable: bool,
    pub(super) first: Target<'a>,
    pub(super) second: Target<'a>,
    /// The filter refuses this call whatever its arguments are.
    pub(super) filtered: bool,
}

const fn deny(layer: Layer, reason: &'static str) -> Verdict {
    Verdict::Deny {
        layer,
        reason: Some(reason),
    }
}

pub(super) fn classify(seen: &Seen<'_>, places: &Places) -> Verdict {
    let kind = match seen.first {
        Target::At(path) | Target::Cut(path) => places.at(path),
        _ => None,
    };
    match seen.errno {
        0 => match (seen.act, kind) {
            (Act::Open, Some(Kind::Root(_))) => Verdict::Allow,
            _ => Verdict::Ordinary,
        },
        ENOENT | ENOTDIR => missing(seen, places),
        EROFS => deny(Layer::View, READ_ONLY),
        EXDEV => deny(Layer::Unknown, LANDLOCK_OR_MOUNTS),
        ESRCH => deny(Layer::Namespaces, NO_SUCH_PROCESS),
        ENETUNREACH => deny(Layer::Namespaces, NO_NETWORK),
        EPERM if seen.filtered => Verdict::Deny {
            layer: Layer::Seccomp,
            reason: None,
        },
        EACCES | EPERM => refused(seen, kind),
        _ => Verdict::Ordinary,
    }
}

/// Not there: hidden by the view, or really not there.
fn missing(seen: &Seen<'_>, places: &Places) -> Verdict {
    // In the host view what exists can be looked up, so what is missing is missing.
    if !places.hides_the_rest() {
        return Verdict::Ordinary;
    }
    let second = if seen.act == Act::Symlink {
        Target::None
    } else {
        seen.second
    };
    for target in [seen.first, second] {
        match target {
            Target::At(path) | Target::Cut(path) if places.at(path).is_none() => {
                return deny(Layer::View, OUTSIDE_VIEW);
            }
            Target::LeadsOut => return deny(Layer::View, OUTSIDE_VIEW),
            Target::Cut(_) | Target::Unread => return deny(Layer::Unknown, CUT),
            Target::Unplaced => return deny(Layer::Unknown, UNPLACED),
            _ => {}
        }
    }
    Verdict::Ordinary
}

fn refused(seen: &Seen<'_>, kind: Option<Kind>) -> Verdict {
    let by_permission = seen.errno == EPERM;
    match (seen.act, seen.class) {
        // The mount is asked before Landlock and before the file's own permissions.
        (Act::Exec, _) if !by_permission && no_exec(seen.first, kind) => deny(Layer::View, NO_EXEC),
        // To map a file gives EPERM for its mount's sake, to change what was mapped EACCES.
        (Act::Map, _) if seen.executable && by_permission => deny(Layer::View, NO_EXEC),
        (Act::Protect, _) if seen.executable && !by_permission => deny(Layer::View, NO_EXEC),
        (Act::Map | Act::Protect, _) => deny(Layer::Unknown, PERMISSIONS),
        // The cgroup programs or the filter refused it, and have told more.
        (_, Class::Socket) if by_permission => Verdict::Ordinary,
        (_, Class::Socket) => deny(Layer::Unknown, PERMISSIONS),
        (_, Class::Signal | Class::Process) => deny(Layer::Unknown, SCOPE_OR_PERMISSIONS),
        _ if by_permission => deny(Layer::Unknown, PERMISSIONS),
        _ => deny(Layer::Unknown, LANDLOCK_OR_PERMISSIONS),
    }
}

/// In the host view what is in no place lets nothing be executed; in a private one it does not exist.
fn no_exec(target: Target<'_>, kind: Option<Kind>) -> bool {
    matches!(target, Target::At(_)) && kind.is_none_or(Kind::no_exec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::rights::Rights, link::message::View};

    fn places(view: View) -> Places {
        let mut places = Places::new(view, b"/srv/rw");
        places.root(b"/srv/rw", Rights::RW);
        places.root(b"/srv/rx", Rights::RX);
        places.grant(b"/usr/bin/node", true);
        places
    }

    fn seen(act: Act, errno: i32, first: Target<'_>) -> Seen<'_> {
        Seen {
            act,
            class: Class::Path,
            errno,
            executable: false,
            first,
            second: Target::None,
            filtered: false,
        }
    }

    #[test]
    fn what_is_missing_counts_outside_of_every_place_only() {
        let places = places(View::Private);
        let outside = deny(Layer::View, OUTSIDE_VIEW);
        for (path, wanted) in [
            (&b"/etc/shadow"[..], outside),
            (b"/srv/rw2/x", outside),
            (b"/srv/rw/x", Verdict::Ordinary),
            (b"/usr/bin/node", Verdict::Ordinary),
            (b"/tmp/x", Verdict::Ordinary),
        ] {
            for errno in [ENOENT, ENOTDIR] {
                assert_eq!(
                    classify(&seen(Act::Open, errno, Target::At(path)), &places),
                    wanted
                );
            }
        }
        assert_eq!(
            classify(&seen(Act::Other, ENOENT, Target::LeadsOut), &places),
            outside
        );
        assert_eq!(
            classify(&seen(Act::Other, ENOENT, Target::Unplaced), &places),
            deny(Layer::Unknown, UNPLACED)
        );
        let cut = classify(&seen(Act::Other, ENOENT, Target::Cut(b"/srv/rw/x")), &places);
        assert_eq!(cut, deny(Layer::Unknown, CUT));
        let mut two = seen(Act::Other, ENOENT, Target::At(b"/srv/rw/a"));
        two.second = Target::At(b"/etc/a");
        assert_eq!(classify(&two, &places), outside);
        two.act = Act::Symlink;
        assert_eq!(classify(&two, &places), Verdict::Ordinary);
    }

    #[test]
    fn in_the_host_view_nothing_is_hidden() {
        let places = places(View::Host);
        let missing = seen(Act::Open, ENOENT, Target::At(b"/etc/nothing"));
        assert_eq!(classify(&missing, &places), Verdict::Ordinary);
        let refused = seen(Act::Open, EACCES, Target::At(b"/etc/shadow"));
        assert_eq!(
            classify(&refused, &places),
            deny(Layer::Unknown, LANDLOCK_OR_PERMISSIONS)
        );
    }

    #[test]
    fn the_place_tells_of_mounts() {
        let places = places(View::Private);
        let exec = |path| classify(&seen(Act::Exec, EACCES, Target::At(path)), &places);
        assert_eq!(exec(b"/srv/rw/tool"), deny(Layer::View, NO_EXEC));
        assert_eq!(exec(b"/tmp/tool"), deny(Layer::View, NO_EXEC));
        assert_eq!(exec(b"/opt/tool"), deny(Layer::View, NO_EXEC));
        assert_eq!(
            exec(b"/srv/rx/tool"),
            deny(Layer::Unknown, LANDLOCK_OR_PERMISSIONS)
        );
        let mut map = seen(Act::Map, EPERM, Target::None);
        assert_eq!(classify(&map, &places), deny(Layer::Unknown, PERMISSIONS));
        map.executable = true;
        assert_eq!(classify(&map, &places), deny(Layer::View, NO_EXEC));
        let write = seen(Act::Other, EROFS, Target::At(b"/usr/bin/node"));
        assert_eq!(classify(&write, &places), deny(Layer::View, READ_ONLY));
    }

    #[test]
    fn opens_are_told_in_roots_only() {
        let places = places(View::Private);
        for (path, wanted) in [
            (&b"/srv/rw/x"[..], Verdict::Allow),
            (b"/srv/rx", Verdict::Allow),
            (b"/usr/bin/node", Verdict::Ordinary),
            (b"/tmp/x", Verdict::Ordinary),
            (b"/proc/self/maps", Verdict::Ordinary),
        ] {
            assert_eq!(classify(&seen(Act::Open, 0, Target::At(path)), &places), wanted);
        }
        assert_eq!(
            classify(&seen(Act::Other, 0, Target::At(b"/srv/rw/x")), &places),
            Verdict::Ordinary
        );
    }

    #[test]
    fn what_another_layer_told_is_not_told_again() {
        let places = places(View::Private);
        let mut call = seen(Act::Other, EPERM, Target::None);
        call.class = Class::Socket;
        assert_eq!(classify(&call, &places), Verdict::Ordinary);
        call.class = Class::Process;
        call.filtered = true;
        assert_eq!(
            classify(&call, &places),
            Verdict::Deny {
                layer: Layer::Seccomp,
                reason: None
            }
        );
    }
}
