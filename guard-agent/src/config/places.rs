//! Where a path leads: every object its resolution passes, by identity, and not by how it is spelled.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

/// As the kernel's own limit.
const MAX_LINKS: u32 = 40;

/// An object of a file system, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub dev: u64,
    pub ino: u64,
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
        }
    }
}

/// The way to a path, links followed.
#[derive(Debug)]
pub struct Trace {
    /// The path without symbolic links; what does not exist yet is appended as it was written.
    pub real: PathBuf,
    /// Every directory passed, `/` first, also those that only hold a link on the way: who may write one of
    /// them decides where the path leads. The object itself is the last when it exists.
    pub passed: Vec<Identity>,
    /// Why the way ended before the last component, and where.
    pub stopped: Option<(PathBuf, io::Error)>,
}

impl Trace {
    /// `path` is absolute.
    pub fn new(path: &Path) -> Self {
        let mut pending: VecDeque<OsString> = VecDeque::new();
        enqueue(&mut pending, path);
        let mut trace = Self {
            real: PathBuf::from("/"),
            passed: Vec::new(),
            stopped: None,
        };
        match Path::new("/").symlink_metadata() {
            Ok(metadata) => trace.passed.push((&metadata).into()),
            Err(error) => trace.stopped = Some((PathBuf::from("/"), error)),
        }
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if trace.stopped.is_some() {
                trace.real.push(name);
                continue;
            }
            if name == ".." {
                trace.real.pop();
                continue;
            }
            let next = trace.real.join(&name);
            match trace.step(&next, &mut links) {
                Ok(Some(target)) => {
                    if target.is_absolute() {
                        trace.real = PathBuf::from("/");
                    }
                    let rest = std::mem::take(&mut pending);
                    enqueue(&mut pending, &target);
                    pending.extend(rest);
                }
                Ok(None) => trace.real = next,
                Err(error) => {
                    trace.stopped = Some((next.clone(), error));
                    trace.real = next;
                }
            }
        }
        trace
    }

    /// One component: the target when it is a symbolic link.
    fn step(&mut self, next: &Path, links: &mut u32) -> io::Result<Option<PathBuf>> {
        let metadata = next.symlink_metadata()?;
        if metadata.file_type().is_symlink() {
            *links += 1;
            if *links > MAX_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            return next.read_link().map(Some);
        }
        self.passed.push((&metadata).into());
        Ok(None)
    }

    /// The object itself, when the whole path exists.
    pub fn identity(&self) -> Option<Identity> {
        if self.stopped.is_some() {
            None
        } else {
            self.passed.last().copied()
        }
    }

    /// Whether `self` (which exists) is `other` or a directory that the way to `other` passes.
    pub fn holds(&self, other: &Self) -> bool {
        self.identity()
            .is_some_and(|identity| other.passed.contains(&identity))
    }
}

fn enqueue(pending: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components() {
        match component {
            Component::Normal(name) => pending.push_back(name.to_owned()),
            Component::ParentDir => pending.push_back("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

/// Absolute and without `.`, `//` and a final `/`. `None` with a `..` in it: what that means depends on the
/// symbolic links before it, so the operator has to say it.
pub fn clean(directory: &Path, path: &Path) -> Option<PathBuf> {
    let joined = directory.join(path);
    if joined
        .components()
        .any(|component| component == Component::ParentDir)
    {
        return None;
    }
    Some(joined.components().collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_way_through_links_passes_what_holds_the_links() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::create_dir(base.join("links")).unwrap();
        symlink("../a/b", base.join("links/there")).unwrap();
        fs::write(base.join("a/b/file"), "").unwrap();

        let trace = Trace::new(&base.join("links/there/file"));
        assert!(trace.stopped.is_none());
        assert_eq!(trace.real, base.join("a/b/file"));
        for holder in ["links", "a", "a/b", "a/b/file", ""] {
            assert!(Trace::new(&base.join(holder)).holds(&trace), "{holder}");
        }
        fs::create_dir(base.join("other")).unwrap();
        assert!(!Trace::new(&base.join("other")).holds(&trace));
    }

    #[test]
    fn what_does_not_exist_yet_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let trace = Trace::new(&base.join("new/audit"));
        assert_eq!(trace.real, base.join("new/audit"));
        assert_eq!(trace.stopped.as_ref().unwrap().0, base.join("new"));
        assert!(trace.identity().is_none());
        assert!(Trace::new(&base).holds(&trace));
    }

    #[test]
    fn a_loop_ends() {
        let dir = tempfile::tempdir().unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let trace = Trace::new(&dir.path().join("loop"));
        assert_eq!(trace.stopped.unwrap().1.raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn cleaning() {
        let cleaned = |path: &str| clean(Path::new("/home/u"), Path::new(path));
        assert_eq!(cleaned("."), Some("/home/u".into()));
        assert_eq!(cleaned("./a//b/"), Some("/home/u/a/b".into()));
        assert_eq!(cleaned("/srv/./x/"), Some("/srv/x".into()));
        assert_eq!(cleaned("../x"), None);
        assert_eq!(cleaned("/a/../b"), None);
    }
}
