//! What the view of a session holds, by name: roots, the runtime's grants, the sandbox's own trees, links.
//!
//! Lexical and pure. It only says how to report what the kernel has already decided; nothing is allowed or refused
//! by it.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::{config::rights::Rights, link::message::View};

/// Links followed for one name, as many as the kernel follows in a row.
const MOST_LINKS: usize = 40;
/// Trees that are the sandbox's own in both views.
const PRIVATE: [&str; 3] = ["/proc", "/tmp", "/run"];

/// What a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Root(Rights),
    /// A file or tree of the runtime, and whether it may be executed.
    Grant {
        exec: bool,
    },
    /// The sandbox's own: nothing in it can be executed.
    Private,
}

impl Kind {
    /// Whether the mount refuses to execute what lies here.
    pub(super) fn no_exec(self) -> bool {
        match self {
            Self::Root(rights) => !rights.exec,
            Self::Grant { exec } => !exec,
            Self::Private => true,
        }
    }
}

#[derive(Debug)]
enum Place {
    Here {
        kind: Kind,
        tree: bool,
    },
    Link(Vec<u8>),
    /// A directory made only to lead to a place: what the host has beside that is hidden, in the sandbox's own trees too.
    Way,
}

/// The names of one session's view.
#[derive(Debug)]
pub(in crate::warden) struct Places {
    view: View,
    named: HashMap<Vec<u8>, Place>,
    /// The working directory of the launch.
    directory: Vec<u8>,
}

impl Places {
    pub(in crate::warden) fn new(view: View, directory: &[u8]) -> Self {
        let mut new = Self {
            view,
            named: HashMap::new(),
            directory: clean(directory),
        };
        for tree in PRIVATE {
            new.private(tree.as_bytes());
        }
        match view {
            View::Private => {
                new.private(b"/dev");
                // Made by hand for this view, as `/etc/hosts` is.
                for file in ["passwd", "group", "hosts", "nsswitch.conf", "resolv.conf"] {
                    new.put(
                        format!("/etc/{file}").as_bytes(),
                        Kind::Grant { exec: false },
                        false,
                    );
                }
            }
            View::Host => {
                new.private(b"/dev");
                new.private(b"/sys");
            }
        }
        new
    }

    pub(in crate::warden) fn private(&mut self, path: &[u8]) {
        self.put(path, Kind::Private, true);
    }

    /// A root: what of it is a file is in the view under that one name.
    pub(in crate::warden) fn root(&mut self, path: &[u8], rights: Rights) {
        self.put(path, Kind::Root(rights), true);
        self.ways(path);
    }

    fn ways(&mut self, path: &[u8]) {
        let path = clean(path);
        let mut above = parent(&path);
        while above.len() > 1 {
            self.named.entry(above.to_vec()).or_insert(Place::Way);
            above = parent(above);
        }
    }

    /// A grant never takes the place of a root of the same name: the root is mounted over it.
    pub(in crate::warden) fn grant(&mut self, path: &[u8], exec: bool) {
        let path = clean(path);
        if !matches!(
            self.named.get(&path),
            Some(Place::Here {
                kind: Kind::Root(_),
                ..
            })
        ) {
            let kind = Kind::Grant { exec };
            self.ways(&path);
            self.named.insert(path, Place::Here { kind, tree: true });
        }
    }

    /// A symbolic link that was made for the view.
    pub(in crate::warden) fn link(&mut self, path: &[u8], target: &[u8]) {
        let path = clean(path);
        let target = clean(&join(parent(&path), target));
        self.named.entry(path).or_insert(Place::Link(target));
    }

    fn put(&mut self, path: &[u8], kind: Kind, tree: bool) {
        self.named.insert(clean(path), Place::Here { kind, tree });
    }

    pub(super) fn directory(&self) -> &[u8] {
        &self.directory
    }

    /// Whether what exists on the host and is in none of the places is hidden, and not only refused.
    pub(super) fn hides_the_rest(&self) -> bool {
        self.view == View::Private
    }

    /// The innermost place that a cleaned absolute path is in.
    pub(super) fn at(&self, path: &[u8]) -> Option<Kind> {
        let mut path = std::borrow::Cow::Borrowed(path);
        for _ in 0..MOST_LINKS {
            match self.innermost(&path) {
                None | Some((_, Place::Way)) => return None,
                Some((_, Place::Here { kind, .. })) => return Some(*kind),
                Some((length, Place::Link(target))) => {
                    let rest = path.get(length..).unwrap_or_default();
                    let rest = rest.strip_prefix(b"/").unwrap_or(rest);
                    path = clean(&join(target, rest)).into();
                }
            }
        }
        None
    }

    /// The longest name that holds the path, and how long it is. From the outside in for links: what is below one is
    /// elsewhere.
    fn innermost(&self, path: &[u8]) -> Option<(usize, &Place)> {
        let mut found = None;
        for end in ends(path) {
            let name = path.get(..end).unwrap_or_default();
            match self.named.get(name) {
                Some(link @ Place::Link(_)) => return Some((end, link)),
                Some(place @ Place::Here { tree, .. }) if *tree || end == path.len() => {
                    found = Some((end, place));
                }
                Some(way @ Place::Way) if end < path.len() && !found.is_some_and(holds_all) => {
                    found = Some((end, way));
                }
                _ => {}
            }
        }
        found
    }
}

/// A root or a grant is mounted whole: what lies in it beside another place is in the view, too.
fn holds_all((_, place): (usize, &Place)) -> bool {
    matches!(
        place,
        Place::Here {
            kind: Kind::Root(_) | Kind::Grant { .. },
            ..
        }
    )
}

/// Where each name of a cleaned absolute path ends: `/a/b` has `/`, `/a`, `/a/b`.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let inner = path
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| at);
    let whole = (path.len() > 1).then_some(path.len());
    std::iter::once(1.min(path.len())).chain(inner).chain(whole)
}

pub(super) fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.get(..end.max(1)).unwrap_or(b"/")
}

/// `path` seen from directory `base`.
pub(super) fn join(base: &[u8], path: &[u8]) -> Vec<u8> {
    if path.first() == Some(&b'/') {
        return path.to_vec();
    }
    let mut whole = base.to_vec();
    if whole.last() != Some(&b'/') {
        whole.push(b'/');
    }
    whole.extend_from_slice(path);
    whole
}

/// Without `.`, empty names and `..`, as if no name were a symbolic link, and with the processes' own ways to the
/// root (`/proc/self/root`) taken for what they are.
pub(super) fn clean(path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            b"root" if is_process(&names) => names.clear(),
            name => names.push(name),
        }
    }
    let mut whole = Vec::with_capacity(path.len());
    for name in names {
        whole.push(b'/');
        whole.extend_from_slice(name);
    }
    if whole.is_empty() {
        whole.push(b'/');
    }
    whole
}

/// `/proc/PID`, `/proc/self`, `/proc/thread-self`, and a thread's directory below one.
fn is_process(names: &[&[u8]]) -> bool {
    let one = |name: &[u8]| {
        matches!(name, b"self" | b"thread-self") || (!name.is_empty() && name.iter().all(u8::is_ascii_digit))
    };
    match names {
        [proc, process] => *proc == b"proc" && one(process),
        [proc, process, task, thread] => *proc == b"proc" && one(process) && *task == b"task" && one(thread),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RWX: Rights = Rights {
        write: true,
        exec: true,
    };

    fn places(view: View) -> Places {
        let mut places = Places::new(view, b"/srv/docs/");
        places.root(b"/srv/docs", Rights::RW);
        places.root(b"/srv/docs/bin", RWX);
        places.grant(b"/usr/bin/node", true);
        places.grant(b"/srv/docs", true);
        places.link(b"/bin", b"usr/bin");
        places.link(b"/loop", b"/loop");
        places.root(b"/tmp/work/in", Rights::RW);
        places.grant(b"/srv/docs/modules/deep/one", false);
        places
    }

    #[test]
    fn the_innermost_place_counts() {
        let places = places(View::Private);
        for (path, wanted) in [
            (&b"/srv/docs"[..], Some(Kind::Root(Rights::RW))),
            (b"/srv/docs/a/b", Some(Kind::Root(Rights::RW))),
            (b"/srv/docs/bin/tool", Some(Kind::Root(RWX))),
            (b"/srv/docs2", None),
            (b"/srv", None),
            (b"/", None),
            (b"/bin/node", Some(Kind::Grant { exec: true })),
            (b"/bin/sh", None),
            (b"/loop/x", None),
            (b"/tmp/x", Some(Kind::Private)),
            (b"/tmp/work/in/x", Some(Kind::Root(Rights::RW))),
            (b"/tmp/work", Some(Kind::Private)),
            (b"/tmp/work/secret", None),
            (b"/tmp/working", Some(Kind::Private)),
            (b"/srv/docs/modules/other", Some(Kind::Root(Rights::RW))),
            (b"/etc/hosts", Some(Kind::Grant { exec: false })),
            (b"/etc/hosts/x", None),
            (b"/etc/shadow", None),
        ] {
            assert_eq!(places.at(path), wanted, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn names_are_cleaned_as_text() {
        for (path, wanted) in [
            (&b"/a//b/./c/"[..], &b"/a/b/c"[..]),
            (b"/srv/docs/../../etc/passwd", b"/etc/passwd"),
            (b"/../..", b"/"),
            (b"", b"/"),
            (b"/proc/self/root/etc/shadow", b"/etc/shadow"),
            (b"/proc/17/task/18/root/x", b"/x"),
            (b"/proc/sys/root", b"/proc/sys/root"),
            (b"/srv/root", b"/srv/root"),
        ] {
            assert_eq!(clean(path), wanted, "{}", path.escape_ascii());
        }
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"/", b"b"), b"/b");
        assert_eq!(join(b"/a", b"/b"), b"/b");
        assert_eq!(parent(b"/a/b"), b"/a");
        assert_eq!(parent(b"/a"), b"/");
    }

    proptest! {
        #[test]
        fn cleaning_settles(path in proptest::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), any::<u8>()], 0..60)) {
            let once = clean(&path);
            prop_assert_eq!(once.first(), Some(&b'/'));
            // `root` below a process is the one name that can appear by cleaning: once more settles it.
            prop_assert_eq!(clean(&once), clean(&clean(&once)));
            let _ = places(View::Host).at(&once);
        }
    }
}
