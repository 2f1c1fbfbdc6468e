//! Roots as typed → roots as meant, with every check that needs no privilege.

use std::{
    fs::Metadata,
    io,
    path::{Path, PathBuf},
};

use nix::sys::statfs::{self, FsType};

use super::{
    places::{Trace, clean},
    raw::reason,
    rights::Rights,
    shown,
};
use crate::{link::message::Root, refusal::Refusal};

/// A root before any check.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: PathBuf,
    pub rights: Rights,
    /// What the end of the path was perhaps meant to be.
    pub mistyped_rights: Option<String>,
    /// Where a relative path begins; `None` where only absolute ones are allowed.
    pub directory: Option<PathBuf>,
}

/// Something a server must not reach.
#[derive(Debug)]
pub struct Guarded {
    /// "the audit directory".
    pub what: &'static str,
    pub path: PathBuf,
    /// Harmless to read, not to write.
    pub writes_only: bool,
    /// Why, for the error: "a server that reaches it could …".
    pub danger: &'static str,
}

/// File systems whose files are the kernel's own controls.
const KERNEL_FILE_SYSTEMS: &[(i64, &str)] = &[
    (libc::PROC_SUPER_MAGIC, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6367_7270, "cgroup2"),
    (0x0027_e0eb, "cgroup"),
    (0xcafe_4a11_u32 as i64, "bpf"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c_u32 as i64, "selinuxfs"),
    (0x1cd1, "devpts"),
    (0x6265_6570, "configfs"),
];

/// What a sandbox always has of its own, so that the host's can be no root.
const OWN_TREES: &[&str] = &["/proc", "/sys", "/dev", "/run", "/tmp"];
/// Of these, nothing beneath can be one either.
const OWN_TREES_DEEP: &[&str] = &["/proc", "/sys", "/dev"];

struct Checked {
    root: Root,
    path: PathBuf,
    trace: Trace,
}

/// All roots, in the order given, each once.
pub fn resolve(asked: &[Asked], guarded: &[Guarded], mounts: &[PathBuf]) -> Result<Vec<Root>, Refusal> {
    let traces: Vec<Trace> = guarded.iter().map(|place| Trace::new(&place.path)).collect();
    let mut checked: Vec<Checked> = Vec::new();
    for asked in asked {
        let (path, trace) = one(asked)?;
        // A bind mount beneath the root may hold what the root's own tree does not.
        let beneath: Vec<Trace> = mounts
            .iter()
            .filter(|point| point.starts_with(&trace.real) && **point != trace.real)
            .map(|point| Trace::new(point))
            .collect();
        for (place, place_trace) in guarded.iter().zip(&traces) {
            for tree in std::iter::once(&trace).chain(&beneath) {
                check_guarded(&path, tree, asked.rights, place, place_trace)?;
            }
        }
        let root = Root {
            path: path.clone().into(),
            rights: asked.rights,
        };
        checked.push(Checked { root, path, trace });
    }
    check_nesting(&checked)?;
    let mut roots: Vec<Root> = Vec::new();
    for Checked { root, .. } in checked {
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    Ok(roots)
}

fn cannot(path: &Path) -> String {
    format!("cannot use root `{}`", shown(path))
}

/// One root by itself: that it exists, is no link and is a tree of files.
fn one(asked: &Asked) -> Result<(PathBuf, Trace), Refusal> {
    let path = absolute(asked)?;
    let trace = Trace::new(&path);
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) => return Err(absent(asked, &path, &trace, &error)),
    };
    if metadata.file_type().is_symlink() {
        return Err(link(&path, &trace));
    }
    check_kind(&path, &trace, &metadata)?;
    Ok((path, trace))
}

fn absolute(asked: &Asked) -> Result<PathBuf, Refusal> {
    if asked.path.as_os_str().is_empty() {
        return Err(Refusal::usage(
            "cannot use a root without a path",
            "its path is empty",
            "write `PATH:RIGHTS`",
        ));
    }
    let Some(directory) = asked
        .directory
        .as_deref()
        .or(asked.path.is_absolute().then_some(Path::new("/")))
    else {
        return Err(Refusal::usage(
            cannot(&asked.path),
            "it is a relative path, and a policy holds for whatever directory a client starts in",
            "write the absolute path",
        ));
    };
    clean(directory, &asked.path).ok_or_else(|| {
        let hint = match directory.join(&asked.path).canonicalize() {
            Ok(real) => format!("name it without `..`: `{}`", shown(real)),
            Err(_) => "name its absolute path without `..`".to_owned(),
        };
        Refusal::usage(
            cannot(&asked.path),
            "what `..` means depends on the symbolic links before it",
            hint,
        )
    })
}

fn absent(asked: &Asked, path: &Path, trace: &Trace, error: &io::Error) -> Refusal {
    if error.kind() == io::ErrorKind::NotFound
        && let Some(suffix) = &asked.mistyped_rights
    {
        return Refusal::usage(
            cannot(&asked.path),
            format!("`{suffix}` is not one of `r`, `rw`, `rx`, `rwx`, and no file has that whole name"),
            "write `PATH:RIGHTS` with one of these rights",
        );
    }
    let (at, cause) = match &trace.stopped {
        Some((at, error)) => (at.as_path(), error),
        None => (path, error),
    };
    let why = match cause.kind() {
        io::ErrorKind::NotFound => format!("`{}` does not exist", shown(at)),
        _ => format!("`{}`: {}", shown(at), reason(cause)),
    };
    let hint = match cause.kind() {
        _ if asked.path.starts_with("~") => "write the home directory out: `~` is a shell's word",
        io::ErrorKind::NotFound => "create it, or correct the path",
        io::ErrorKind::PermissionDenied => "name a root that you may reach yourself",
        _ => "correct the path",
    };
    Refusal::usage(cannot(path), why, hint)
}

fn link(path: &Path, trace: &Trace) -> Refusal {
    match &trace.stopped {
        None => Refusal::usage(
            cannot(path),
            format!("it is a symbolic link to `{}`", shown(&trace.real)),
            format!("name `{}` itself", shown(&trace.real)),
        ),
        Some((at, error)) => Refusal::usage(
            cannot(path),
            format!(
                "it is a symbolic link that leads nowhere: `{}`: {}",
                shown(at),
                reason(error)
            ),
            "name a directory or file that exists",
        ),
    }
}

fn check_kind(path: &Path, trace: &Trace, metadata: &Metadata) -> Result<(), Refusal> {
    if path == Path::new("/") || trace.real == Path::new("/") {
        return Err(Refusal::usage(
            cannot(path),
            "it holds everything, guard-agent's own state and audit too",
            "name the directories that the server needs",
        ));
    }
    if !metadata.is_dir() && !metadata.is_file() {
        return Err(Refusal::usage(
            cannot(path),
            "it is neither a directory nor a regular file",
            "name a directory, or a regular file",
        ));
    }
    let own = OWN_TREES.iter().find(|tree| trace.real == Path::new(tree));
    let own = own.or(OWN_TREES_DEEP.iter().find(|tree| trace.real.starts_with(tree)));
    if let Some(tree) = own {
        return Err(Refusal::usage(
            cannot(path),
            format!("every sandbox has a `{tree}` of its own, or none"),
            "name a directory that holds the server's data",
        ));
    }
    // What cannot be asked is the warden's to refuse: it opens the root.
    let kind = statfs::statfs(path).map(|found| found.filesystem_type());
    let kernel = KERNEL_FILE_SYSTEMS
        .iter()
        .find(|(magic, _)| kind == Ok(FsType(*magic)));
    if let Some((_, name)) = kernel {
        return Err(Refusal::usage(
            cannot(path),
            format!("it lies in a {name} file system, whose files control the kernel"),
            "name a directory that holds the server's data",
        ));
    }
    Ok(())
}

fn check_guarded(
    path: &Path,
    root: &Trace,
    rights: Rights,
    place: &Guarded,
    at: &Trace,
) -> Result<(), Refusal> {
    if place.writes_only && !rights.write {
        return Ok(());
    }
    let relation = if root.identity().is_some() && root.identity() == at.identity() {
        "it is"
    } else if root.holds(at) {
        if at.identity().is_some() {
            "it holds"
        } else {
            "it would hold"
        }
    } else if at.holds(root) {
        "it lies in"
    } else {
        return Ok(());
    };
    let hint = if place.writes_only {
        "name a smaller root, or take the right to write (`:r`)"
    } else {
        "name a smaller root, or move the other elsewhere"
    };
    Err(Refusal::usage(
        cannot(path),
        format!(
            "{relation} {} `{}`: {}",
            place.what,
            shown(&place.path),
            place.danger
        ),
        hint,
    ))
}

/// A root within a root may have more rights, not fewer: Landlock adds up what the ancestors allow.
fn check_nesting(roots: &[Checked]) -> Result<(), Refusal> {
    for (index, outer) in roots.iter().enumerate() {
        for inner in roots
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, inner)| inner)
        {
            if !outer.trace.holds(&inner.trace) || inner.root.rights.contains(outer.root.rights) {
                continue;
            }
            if outer.trace.identity() == inner.trace.identity() {
                return Err(Refusal::usage(
                    cannot(&inner.path),
                    format!(
                        "the same directory or file is given as `{}:{}` and as `{}:{}`",
                        shown(&outer.path),
                        outer.root.rights,
                        shown(&inner.path),
                        inner.root.rights
                    ),
                    "give it once",
                ));
            }
            return Err(Refusal::usage(
                format!("cannot use root `{}:{}`", shown(&inner.path), inner.root.rights),
                format!(
                    "it lies in root `{}:{}`, whose rights hold beneath it and would not be narrowed",
                    shown(&outer.path),
                    outer.root.rights
                ),
                format!(
                    "give it at least `{}`, or name the parts of `{}` that need their rights",
                    outer.root.rights,
                    shown(&outer.path)
                ),
            ));
        }
    }
    Ok(())
}
