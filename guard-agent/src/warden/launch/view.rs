//! From opened objects to the list of mounts that make the child's view. Pure.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use super::{
    protect::{Pinned, Protection},
    roots::Opened,
};
use crate::{
    config::rights::Rights,
    init::message::MountPoint,
    link::message::View,
    octets::Octets,
    runtime::{Grant, Link},
    sys::mount::Attributes,
};

/// One mount to be made: the object, how it is mounted, what Landlock says.
#[derive(Debug)]
pub struct Entry {
    pub point: MountPoint,
    pub object: OwnedFd,
    /// Where the object is on the host.
    pub source: PathBuf,
    pub attributes: Attributes,
    pub recursive: bool,
    /// A root, as the operator named it, and not what the runtime needs.
    pub named: bool,
}

/// Trees of the view that are always the sandbox's own: nothing of the host may be mounted over them.
const PRIVATE: [&str; 4] = ["/proc", "/dev", "/sys", "/run"];

/// A root inside one of the trees that are always private would not be what the operator thinks.
pub fn private_tree(path: &Path) -> Option<&'static str> {
    PRIVATE.into_iter().find(|tree| path.starts_with(tree))
}

/// What of the runtime's needs the roots do not give already.
pub fn needed(grants: Vec<(Grant, Opened)>, roots: &[(Opened, Rights)]) -> Vec<(Grant, Opened)> {
    grants
        .into_iter()
        .filter(|(grant, opened)| {
            let covered = roots.iter().any(|(root, rights)| {
                opened.path.starts_with(&root.path) && (rights.exec || (!grant.exec && !grant.map))
            });
            !covered
        })
        .collect()
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

/// How a root with these rights is mounted.
pub fn attributes(rights: Rights) -> Attributes {
    Attributes {
        read_only: !rights.write,
        no_exec: !rights.exec,
        no_dev: true,
        no_suid: true,
    }
}

/// Mounts in the order they are made: outer before inner; at one path a root comes after a grant.
pub fn entries(
    view: View,
    roots: Vec<(Opened, Rights)>,
    grants: Vec<(Grant, Opened)>,
    protection: Protection,
) -> std::io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let names: Vec<Names> = roots.iter().map(|(opened, _)| Names::of(opened)).collect();
    for (grant, opened) in grants {
        entries.push(Entry {
            source: opened.resolved,
            point: MountPoint {
                source: None,
                path: Octets::from(opened.path),
                is_directory: opened.is_directory,
                rights: Some(Rights {
                    write: false,
                    exec: grant.exec,
                }),
            },
            object: opened.object,
            attributes: Attributes {
                read_only: true,
                no_exec: !grant.exec && !grant.map,
                no_dev: true,
                no_suid: true,
            },
            recursive: false,
            named: false,
        });
    }
    for (opened, rights) in roots {
        let attributes = attributes(rights);
        let mut push = |path: PathBuf, object: OwnedFd| {
            entries.push(Entry {
                source: opened.resolved.clone(),
                point: MountPoint {
                    source: None,
                    path: Octets::from(path),
                    is_directory: opened.is_directory,
                    rights: Some(rights),
                },
                object,
                attributes,
                recursive: true,
                named: true,
            });
        };
        for path in Names::of(&opened).in_view(view, &opened.path) {
            push(path, opened.object.try_clone()?);
        }
    }
    for Pinned {
        path,
        object,
        is_directory,
        read_only,
    } in protection.pinned
    {
        let Some(root) = names
            .iter()
            .filter(|names| path.starts_with(&names.typed))
            .max_by_key(|names| depth(&names.typed))
        else {
            continue;
        };
        let source = root.on_host(&path);
        for path in root.in_view(view, &path) {
            pin(
                &mut entries,
                path,
                (&source, object.try_clone()?),
                is_directory,
                read_only,
            );
        }
    }
    // Stable: equal paths keep the order above, so that the later one, the root, is on top.
    entries.sort_by_key(|entry| depth(entry.point.path.as_path()));
    Ok(entries)
}

/// The two names of a root of which an ancestor is a symbolic link.
struct Names {
    typed: PathBuf,
    resolved: PathBuf,
}

impl Names {
    fn of(opened: &Opened) -> Self {
        Self {
            typed: opened.path.clone(),
            resolved: opened.resolved.clone(),
        }
    }

    /// Where something at or below the root, `path` as typed, really is.
    fn on_host(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.typed) {
            Ok(below) if below.as_os_str().is_empty() => self.resolved.clone(),
            Ok(below) => self.resolved.join(below),
            Err(_) => path.to_path_buf(),
        }
    }

    /// Every path by which it is to be mounted.
    fn in_view(&self, view: View, path: &Path) -> Vec<PathBuf> {
        let resolved = self.on_host(path);
        match view {
            // The link is part of the tree, and leads there.
            View::Host => vec![resolved],
            View::Private if resolved == path => vec![resolved],
            // The server was told the one, and resolves it to the other.
            View::Private => vec![resolved, path.to_path_buf()],
        }
    }
}

fn pin(
    entries: &mut Vec<Entry>,
    path: PathBuf,
    (source, object): (&Path, OwnedFd),
    is_directory: bool,
    read_only: bool,
) {
    // As what is mounted around it, minus writing: never more than the innermost of those gives.
    let around = entries
        .iter()
        .filter(|entry| path.starts_with(entry.point.path.as_path()))
        .max_by_key(|entry| depth(entry.point.path.as_path()))
        .map_or(
            Attributes {
                read_only: true,
                no_exec: true,
                ..Attributes::default()
            },
            |entry| entry.attributes,
        );
    entries.push(Entry {
        source: source.to_path_buf(),
        point: MountPoint {
            source: None,
            path: Octets::from(path),
            is_directory,
            rights: None,
        },
        object,
        attributes: Attributes {
            read_only: read_only || around.read_only,
            no_dev: true,
            no_suid: true,
            ..around
        },
        // What is mounted below a directory that is only held stays where it is.
        recursive: !read_only,
        named: true,
    });
}

/// Links that no mounted tree brings along itself.
pub fn links(links: Vec<Link>, entries: &[Entry]) -> Vec<Link> {
    links
        .into_iter()
        .filter(|link| {
            !entries.iter().any(|entry| {
                entry.point.is_directory && link.path.as_path().starts_with(entry.point.path.as_path())
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(path: &str) -> Opened {
        Opened {
            path: path.into(),
            resolved: path.into(),
            object: std::fs::File::open("/dev/null").unwrap().into(),
            is_directory: true,
            device: 1,
            inode: 1,
        }
    }

    #[test]
    fn what_the_operator_named_is_told_from_what_the_runtime_needs() {
        let grant = Grant {
            path: "/usr/lib".into(),
            exec: false,
            map: true,
            reason: String::new(),
        };
        let all = entries(
            View::Private,
            vec![(opened("/srv/project"), Rights::RW), (opened("/usr"), Rights::R)],
            vec![(grant, opened("/usr/lib"))],
            Protection::default(),
        );
        let named: Vec<(String, bool)> = all
            .unwrap()
            .into_iter()
            .map(|entry| (entry.point.path.to_string(), entry.named))
            .collect();
        assert_eq!(
            named,
            [
                ("/usr".to_owned(), true),
                ("/usr/lib".to_owned(), false),
                ("/srv/project".to_owned(), true)
            ]
        );
    }
}
