//! How much of a directory a script brings with it: its package, never a home or a shared directory.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    collect::{Collector, part_of},
    context::Context,
    walk::{self, Found, show},
};

/// Directories that hold other people's or other programs' files, whatever marker lies in them.
const SHARED: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/share",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/tmp",
];

const STICKY_AND_OPEN: u32 = 0o1002;

/// Whether granting a directory as a whole would give away more than one project.
pub(super) fn is_shared(context: &Context<'_>, directory: &Path) -> bool {
    SHARED.iter().any(|shared| Path::new(shared) == directory)
        || directory.parent() == Some(Path::new("/home"))
        || context
            .home
            .as_deref()
            .is_some_and(|home| real(home).starts_with(directory))
        || fs::symlink_metadata(directory)
            .is_ok_and(|metadata| metadata.mode() & STICKY_AND_OPEN == STICKY_AND_OPEN)
}

fn real(path: &Path) -> PathBuf {
    walk::follow(path).map_or_else(|_| path.to_owned(), |found| found.real)
}

/// The nearest directory from `start` upwards that holds one of `markers`, stopping below shared ones.
pub(super) fn nearest(
    context: &Context<'_>,
    start: &Path,
    markers: &[&str],
    collect: &mut Collector,
) -> Option<PathBuf> {
    for directory in start.ancestors() {
        let marker = markers.iter().find(|marker| directory.join(marker).is_file());
        if is_shared(context, directory) {
            if let Some(marker) = marker {
                let place = show(directory);
                collect.note(format!(
                    "`{place}/{marker}` is not taken as the mark of a package: `{place}` is not granted as a whole; name what the server needs by `--root`"
                ));
            }
            return None;
        }
        if marker.is_some() {
            return Some(directory.to_owned());
        }
    }
    None
}

/// Grants a tree that a package's content names (a link, a path file), if it is a package itself.
///
/// Whoever wrote the package chose the target, so a target without a marker stays closed.
pub(super) fn grant_named(
    context: &Context<'_>,
    target: &Found,
    markers: &[&str],
    named_by: &Path,
    collect: &mut Collector,
) -> Option<PathBuf> {
    let start = if target.metadata.is_dir() {
        target.real.as_path()
    } else {
        target.real.parent()?
    };
    if collect.covers(&target.real) {
        collect.keep(target);
        return None;
    }
    let Some(package) = nearest(context, start, markers, collect) else {
        collect.note(format!(
            "`{}` leads to `{}`, which is no package of its own and is not granted; name it by `--root` if the server needs it",
            show(named_by),
            show(&target.real)
        ));
        return None;
    };
    collect.keep(target);
    collect.optional_tree(&package, &part_of("package linked from the tree", named_by))
}
