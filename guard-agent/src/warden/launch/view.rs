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
    octets::Octets,
    runtime::{Grant, Link},
    sys::mount::Attributes,
};

/// One mount to be made: the object, how it is mounted, what Landlock says.
#[derive(Debug)]
pub struct Entry {
    pub point: MountPoint,
    pub object: OwnedFd,
    pub attributes: Attributes,
    pub recursive: bool,
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

/// Mounts in the order they are made: outer before inner; at one path a root comes after a grant.
pub fn entries(
    roots: Vec<(Opened, Rights)>,
    grants: Vec<(Grant, Opened)>,
    protection: Protection,
) -> std::io::Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    // Roots that appear under two names: what is mounted over one must be mounted over the other.
    let names: Vec<(PathBuf, PathBuf)> = roots
        .iter()
        .filter(|(opened, _)| opened.resolved != opened.path)
        .map(|(opened, _)| (opened.path.clone(), opened.resolved.clone()))
        .collect();
    for (grant, opened) in grants {
        entries.push(Entry {
            point: MountPoint {
                path: Octets::from(opened.path),
                is_directory: opened.is_directory,
                rights: Some(Rights { write: false, exec: grant.exec }),
            },
            object: opened.object,
            attributes: Attributes {
                read_only: true,
                no_exec: !grant.exec && !grant.map,
                no_dev: true,
                no_suid: true,
            },
            recursive: false,
        });
    }
    for (opened, rights) in roots {
        let attributes =
            Attributes { read_only: !rights.write, no_exec: !rights.exec, no_dev: true, no_suid: true };
        let mut push = |path: PathBuf, object: OwnedFd| {
            entries.push(Entry {
                point: MountPoint {
                    path: Octets::from(path),
                    is_directory: opened.is_directory,
                    rights: Some(rights),
                },
                object,
                attributes,
                recursive: true,
            });
        };
        // Under both its names when an ancestor is a symbolic link: the server was told the one, and
        // resolves it to the other.
        if opened.resolved != opened.path {
            push(opened.resolved.clone(), opened.object.try_clone()?);
        }
        push(opened.path.clone(), opened.object);
    }
    for Pinned { path, object, is_directory, read_only } in protection.pinned {
        // As what is mounted around it, minus writing: never more than the innermost of those.
        let around = entries
            .iter()
            .filter(|entry| path.starts_with(entry.point.path.as_path()))
            .max_by_key(|entry| depth(entry.point.path.as_path()))
            .map_or(Attributes { read_only: true, no_exec: true, ..Attributes::default() }, |entry| entry.attributes);
        entries.push(Entry {
            point: MountPoint { path: Octets::from(path), is_directory, rights: None },
            object,
            attributes: Attributes { read_only: read_only || around.read_only, no_dev: true, no_suid: true, ..around },
            recursive: !read_only,
        });
    }
    for at in 0..entries.len() {
        let Some(entry) = entries.get(at).filter(|entry| !names.iter().any(|(name, real)| {
            [name, real].into_iter().any(|root| root == entry.point.path.as_path())
        })) else { continue };
        let others = other_names(entry.point.path.as_path(), &names);
        let copies = others.into_iter().map(|path| {
            let point = MountPoint { path: Octets::from(path), ..entry.point.clone() };
            Ok(Entry { point, object: entry.object.try_clone()?, ..*entry })
        });
        let copies = copies.collect::<std::io::Result<Vec<_>>>()?;
        entries.extend(copies);
    }
    // Stable: equal paths keep the order above, so that the later one, the root, is on top.
    entries.sort_by_key(|entry| depth(entry.point.path.as_path()));
    Ok(entries)
}

/// Where else a path inside a root of two names is seen.
fn other_names(path: &Path, names: &[(PathBuf, PathBuf)]) -> Vec<PathBuf> {
    let both = names.iter().flat_map(|(name, real)| [(name, real), (real, name)]);
    both.filter_map(|(from, to)| Some(to.join(path.strip_prefix(from).ok()?))).collect()
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
