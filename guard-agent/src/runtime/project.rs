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

/// Grants a tree that a package's content names (a link, a path file), if it is a package of the same project.
///
/// Whoever wrote the package chose the target. It must not widen its own sandbox: what lies outside the project
/// that holds the package is opened by the operator, with a root, or not at all.
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
    let project = project_of(context, named_by, markers);
    let inside = |package: &PathBuf| {
        project
            .as_ref()
            .is_some_and(|project| package.starts_with(project))
    };
    let Some(package) = nearest(context, start, markers, collect).filter(inside) else {
        collect.note(format!(
            "`{}` leads to `{}`, which is no package of the same project and is not granted; name it by `--root` if the server needs it",
            show(named_by),
            show(&target.real)
        ));
        return None;
    };
    collect.keep(target);
    collect.optional_tree(&package, &part_of("package linked from the tree", named_by))
}

/// The project that installed a package: the directory around its `node_modules` or its virtual environment, when
/// that is marked as a project and is not shared.
fn project_of(context: &Context<'_>, file: &Path, markers: &[&str]) -> Option<PathBuf> {
    let installed = file
        .ancestors()
        .filter(|place| place.ends_with("node_modules") || place.join("pyvenv.cfg").is_file())
        .last()?;
    let project = installed.parent()?;
    let marked = markers.iter().any(|marker| project.join(marker).is_file());
    (marked && !is_shared(context, project)).then(|| real(project))
}
