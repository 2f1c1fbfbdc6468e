//! Roots and grants, opened with the child's own rights: what it could not reach, the sandbox does not give it.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use crate::{
    config::{rights::Rights, shown},
    link::message::Root,
    octets::Octets,
    refusal::Refusal,
    runtime::Grant,
    sys::fs::open_at,
};

/// The object a path led to, held open so that it stays the same one.
#[derive(Debug)]
pub struct Opened {
    /// Where it appears in the view.
    pub path: PathBuf,
    /// Where it really is, ancestors' symbolic links resolved.
    pub resolved: PathBuf,
    pub object: OwnedFd,
    pub is_directory: bool,
    pub device: u64,
    pub inode: u64,
}

impl Opened {
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            path: self.path.clone(),
            resolved: self.resolved.clone(),
            object: self.object.try_clone()?,
            is_directory: self.is_directory,
            device: self.device,
            inode: self.inode,
        })
    }
}

/// Directories of ours that no root may contain.
pub struct Reserved<'a> {
    pub paths: Vec<(&'static str, &'a Path)>,
}

const PROC_SUPER_MAGIC: i64 = 0x9fa0;
const SYSFS_MAGIC: i64 = 0x6265_6572;
const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;
const CGROUP_SUPER_MAGIC: i64 = 0x0027_e0eb;
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
const DEBUGFS_MAGIC: i64 = 0x6462_6720;
const TRACEFS_MAGIC: i64 = 0x7472_6163;
const SECURITYFS_MAGIC: i64 = 0x7363_6673;
const DEVPTS_MAGIC: i64 = 0x1cd1;

const ORDINARY: &str = "name a directory of ordinary files";

/// Filesystems that are an interface to the kernel: never a root.
const KERNEL_INTERFACES: [(i64, &str); 9] = [
    (PROC_SUPER_MAGIC, "proc"),
    (SYSFS_MAGIC, "sysfs"),
    (CGROUP2_SUPER_MAGIC, "cgroup2"),
    (CGROUP_SUPER_MAGIC, "cgroup"),
    (BPF_FS_MAGIC, "bpf"),
    (DEBUGFS_MAGIC, "debugfs"),
    (TRACEFS_MAGIC, "tracefs"),
    (SECURITYFS_MAGIC, "securityfs"),
    (DEVPTS_MAGIC, "devpts"),
];

/// Opens a root. The calling thread has the child's filesystem rights ([`crate::sys::fs::AsUser`]).
pub fn open_root(root: &Root, uid: u32, reserved: &Reserved<'_>) -> Result<Opened, Refusal> {
    let asked = root.path.as_path();
    let what = || format!("cannot use root `{}`", root.path);
    let unreachable = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => Refusal::usage(
            what(),
            "it does not exist",
            "create it, or name another directory",
        ),
        io::ErrorKind::PermissionDenied => Refusal::usage(
            what(),
            format!(
                "uid {uid}, which the server runs as, cannot reach it{}",
                first_closed(asked)
            ),
            "give that user access, or run the server as one that has it: `--user NAME`",
        ),
        _ => Refusal::usage(what(), error.to_string(), "name a directory or a regular file"),
    };
    let (Some(parent), Some(name)) = (asked.parent(), asked.file_name()) else {
        return Err(Refusal::usage(
            what(),
            "it is the whole filesystem",
            "name a directory below `/`",
        ));
    };
    let parent = fs::canonicalize(parent).map_err(|error| unreachable(&error))?;
    let resolved = parent.join(name);
    let slash = File::open("/").map_err(|error| unreachable(&error))?;
    let directory = open_at(
        &slash,
        parent
            .strip_prefix("/")
            .ok()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new(".")),
        libc::O_PATH | libc::O_DIRECTORY,
        libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS,
    )
    .map_err(|error| unreachable(&error))?;
    let object = open_at(
        &directory,
        Path::new(name),
        libc::O_PATH | libc::O_NOFOLLOW,
        libc::RESOLVE_NO_MAGICLINKS,
    )
    .map_err(|error| unreachable(&error))?;
    let file = File::from(object.try_clone().map_err(|error| unreachable(&error))?);
    let meta = file.metadata().map_err(|error| unreachable(&error))?;
    if meta.file_type().is_symlink() {
        let target = fs::read_link(&resolved).unwrap_or_default();
        return Err(Refusal::usage(
            what(),
            format!("it is a symbolic link to `{}`", Octets::from(target)),
            "name the directory it leads to",
        ));
    }
    if !meta.is_dir() && !meta.is_file() {
        let kind = if meta.file_type().is_socket() {
            "a socket"
        } else {
            "not a directory or a regular file"
        };
        return Err(Refusal::usage(
            what(),
            format!("it is {kind}"),
            "name a directory or a regular file",
        ));
    }
    check_filesystem(&object)
        .and_then(|()| check_below(&resolved))
        .map_err(|why| Refusal::usage(what(), why, ORDINARY))?;
    // O_PATH asks no permission of the object itself.
    File::open(format!("/proc/self/fd/{}", object.as_raw_fd())).map_err(|error| unreachable(&error))?;
    check_reserved((meta.dev(), meta.ino()), reserved, what)?;
    Ok(Opened {
        path: asked.to_path_buf(),
        resolved,
        is_directory: meta.is_dir(),
        device: meta.dev(),
        inode: meta.ino(),
        object,
    })
}

/// For a root that was opened for an earlier sandbox: what was mounted in it or moved there since.
pub fn check_again(root: &Opened, reserved: &Reserved<'_>) -> Result<(), Refusal> {
    let what = || format!("cannot use root `{}`", root.path.display());
    // Where it is by now, if somebody moved it.
    let place = fs::read_link(format!("/proc/self/fd/{}", root.object.as_raw_fd()));
    let place = place.as_deref().unwrap_or(&root.resolved);
    check_below(place).map_err(|why| Refusal::usage(what(), why, ORDINARY))?;
    check_reserved((root.device, root.inode), reserved, what)
}

fn check_reserved(
    root: (u64, u64),
    reserved: &Reserved<'_>,
    what: impl Fn() -> String,
) -> Result<(), Refusal> {
    match reserved.paths.iter().find(|(_, path)| contains(root, path)) {
        None => Ok(()),
        Some((name, path)) => Err(Refusal::usage(
            what(),
            format!("it contains guard-agent's {name} `{}`", path.display()),
            "name a narrower root, or keep that directory elsewhere",
        )),
    }
}

/// ": `/root` is mode 0700 of uid 0": the first directory on the way that this user may not search, or the
/// object itself when it may not be read.
fn first_closed(path: &Path) -> String {
    let ancestors: Vec<&Path> = path.ancestors().collect();
    for ancestor in ancestors.into_iter().rev() {
        if let Ok(meta) = fs::metadata(ancestor)
            && meta.is_dir()
            && fs::symlink_metadata(ancestor.join(".")).is_err()
        {
            return closed(ancestor, &meta);
        }
    }
    match (fs::metadata(path), File::open(path)) {
        (Ok(meta), Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => closed(path, &meta),
        _ => String::new(),
    }
}

fn closed(path: &Path, meta: &fs::Metadata) -> String {
    format!(
        ": `{}` is mode {:04o} of uid {}",
        shown(path),
        meta.mode() & 0o7777,
        meta.uid()
    )
}

fn check_filesystem(object: impl AsFd) -> Result<(), String> {
    let stat = nix::sys::statfs::fstatfs(object.as_fd())
        .map_err(|error| format!("cannot tell its filesystem: {error}"))?;
    let magic = stat.filesystem_type().0 as i64;
    match KERNEL_INTERFACES.iter().find(|(known, _)| *known == magic) {
        Some((_, name)) => Err(format!(
            "it is on a {name} filesystem, an interface to the kernel"
        )),
        None => Ok(()),
    }
}

/// What is mounted below a root comes with it: the kernel's interfaces must not, such as `/proc` of a chroot.
fn check_below(root: &Path) -> Result<(), String> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| format!("cannot tell what is mounted in it: {error}"))?;
    for line in text.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let kind = after.split(' ').next().unwrap_or_default();
        let point = crate::warden::cgroup::unescape(before.split(' ').nth(4).unwrap_or_default());
        if Path::new(&point).starts_with(root) && KERNEL_INTERFACES.iter().any(|(_, name)| *name == kind) {
            return Err(format!(
                "the {kind} filesystem `{}` is mounted in it, an interface to the kernel",
                shown(&point)
            ));
        }
    }
    Ok(())
}

/// Whether a directory, by device and inode, is `path` or one of its ancestors.
fn contains(root: (u64, u64), path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    real.ancestors()
        .any(|ancestor| fs::metadata(ancestor).is_ok_and(|other| (other.dev(), other.ino()) == root))
}

/// Opens what the runtime needs. The calling thread has the child's filesystem rights.
pub fn open_grant(grant: &Grant, uid: u32) -> Result<Opened, Refusal> {
    let path = grant.path.as_path();
    let refuse = |error: &io::Error| {
        Refusal::usage(
            format!("cannot give the server `{}` ({})", grant.path, grant.reason),
            if error.kind() == io::ErrorKind::PermissionDenied {
                format!(
                    "uid {uid}, which the server runs as, cannot reach it{}",
                    first_closed(path)
                )
            } else {
                error.to_string()
            },
            "install the runtime where that user can read it, or run the server as one that can: `--user NAME`",
        )
    };
    let slash = File::open("/").map_err(|error| refuse(&error))?;
    let object = open_at(
        &slash,
        path.strip_prefix("/").unwrap_or(path),
        libc::O_PATH | libc::O_NOFOLLOW,
        libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS,
    )
    .map_err(|error| refuse(&error))?;
    let file = File::from(object.try_clone().map_err(|error| refuse(&error))?);
    let meta = file.metadata().map_err(|error| refuse(&error))?;
    if !meta.is_dir() && !meta.is_file() {
        return Err(refuse(&io::Error::other(
            "it is not a directory or a regular file",
        )));
    }
    check_filesystem(&object).map_err(|why| refuse(&io::Error::other(why)))?;
    File::open(format!("/proc/self/fd/{}", object.as_raw_fd())).map_err(|error| refuse(&error))?;
    Ok(Opened {
        path: path.to_path_buf(),
        resolved: path.to_path_buf(),
        is_directory: meta.is_dir(),
        device: meta.dev(),
        inode: meta.ino(),
        object,
    })
}

/// Nested roots may widen; a narrower one inside a wider one would promise what mounts alone hold.
pub fn check_nesting(roots: &[(PathBuf, Rights)]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for (path, rights) in roots {
        if !seen.insert(path) {
            return Err(Refusal::usage(
                format!("cannot use root `{}`", path.display()),
                "it is given twice",
                "give each root once",
            ));
        }
        let narrower = roots
            .iter()
            .find(|(outer, wide)| path != outer && path.starts_with(outer) && !rights.contains(*wide));
        if let Some((outer, wide)) = narrower {
            return Err(Refusal::usage(
                format!("cannot use root `{}:{rights}`", path.display()),
                format!(
                    "it lies inside `{}:{wide}`, and a nested root may only widen",
                    outer.display()
                ),
                "give the outer root fewer rights, or name its other directories one by one",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_roots_widen_only() {
        let root = |path: &str, rights: &str| (PathBuf::from(path), rights.parse().unwrap());
        assert!(check_nesting(&[root("/a", "r"), root("/a/b", "rw")]).is_ok());
        assert!(check_nesting(&[root("/a", "rw"), root("/ab", "r")]).is_ok());
        let error = check_nesting(&[root("/a/b", "r"), root("/a", "rw")]).unwrap_err();
        assert!(error.why.contains("may only widen"), "{error}");
        assert!(check_nesting(&[root("/a", "r"), root("/a", "rw")]).is_err());
    }
}
