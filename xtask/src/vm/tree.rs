//! The files a guest gets: a tree of entries that may come from the host.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use lddtree::DependencyAnalyzer;
use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

/// Folders of `/` that are links into `/usr`.
pub(crate) const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Bytes(Vec<u8>),
    /// Contents of this file of the host.
    File(PathBuf),
    Link(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// Permission bits only.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds since 1970: python takes its compiled files as stale when the source's time changed.
    pub(crate) mtime: u32,
}

impl Entry {
    pub(crate) fn root(kind: Kind, mode: u32) -> Self {
        Self {
            kind,
            mode,
            uid: 0,
            gid: 0,
            mtime: 0,
        }
    }
}

/// Guest paths and what is there; everything belongs to root. Parents appear by themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Tree {
    /// Parents before children, by the order of paths.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Path, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_path(), entry))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn dir(&mut self, path: impl AsRef<Path>, mode: u32) {
        self.put(path.as_ref(), Entry::root(Kind::Directory, mode));
    }

    pub(crate) fn bytes(&mut self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) {
        self.put(path.as_ref(), Entry::root(Kind::Bytes(bytes.to_vec()), mode));
    }

    pub(crate) fn file(&mut self, path: impl AsRef<Path>, source: &Path, mode: u32) {
        self.put(path.as_ref(), Entry::root(Kind::File(source.to_owned()), mode));
    }

    pub(crate) fn link(&mut self, path: impl AsRef<Path>, target: impl AsRef<Path>) {
        self.put(
            path.as_ref(),
            Entry::root(Kind::Link(target.as_ref().to_owned()), 0o777),
        );
    }

    fn put(&mut self, path: &Path, entry: Entry) {
        let path = &merged(path);
        for parent in path
            .ancestors()
            .skip(1)
            .filter(|parent| *parent != Path::new("/"))
        {
            let default = Entry::root(Kind::Directory, 0o755);
            self.entries.entry(parent.to_owned()).or_insert(default);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Gives a path and all below it to a user; links too.
    pub(crate) fn own(&mut self, path: &Path, id: u32) {
        for (_, entry) in self.entries.iter_mut().filter(|(each, _)| each.starts_with(path)) {
            (entry.uid, entry.gid) = (id, id);
        }
    }

    /// A host file or folder at another place of the guest. Links inside stay links.
    pub(crate) fn host_at(&mut self, source: &Path, at: &Path) -> Result<()> {
        self.host_filtered(source, at, |_| true)
    }

    pub(crate) fn host_filtered(
        &mut self,
        source: &Path,
        at: &Path,
        keep: impl Fn(&Path) -> bool,
    ) -> Result<()> {
        ensure!(
            at.is_absolute(),
            "the guest path `{}` is not absolute",
            at.display()
        );
        for item in WalkDir::new(source)
            .into_iter()
            .filter_entry(|item| keep(item.path()))
        {
            let item = item.with_context(|| format!("read `{}`", source.display()))?;
            let below = item
                .path()
                .strip_prefix(source)
                .context("leave the source folder")?;
            let to = if below.as_os_str().is_empty() {
                at.to_owned()
            } else {
                at.join(below)
            };
            let meta = item
                .metadata()
                .with_context(|| format!("read `{}`", item.path().display()))?;
            let mode = meta.mode() & 0o7777;
            if item.path_is_symlink() && item.depth() > 0 {
                let target = fs::read_link(item.path()).context("read a symlink")?;
                self.link(&to, target);
            } else if item.path().is_dir() {
                self.dir(&to, mode);
            } else if item.path().is_file() {
                let meta = fs::metadata(item.path()).context("read a file")?;
                let mut entry = Entry::root(Kind::File(item.path().to_owned()), meta.mode() & 0o7777);
                entry.mtime = u32::try_from(meta.mtime()).unwrap_or_default();
                self.put(&to, entry);
            }
        }
        Ok(())
    }

    /// A host path at its own place, every symlink on the way to it included.
    pub(crate) fn host(&mut self, path: &Path) -> Result<()> {
        let real = self.follow(path)?;
        self.host_at(&real, &real)
    }

    /// Host files whose bytes the tree has.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Path> {
        self.entries().filter_map(|(_, entry)| match &entry.kind {
            Kind::File(source) => Some(source.as_path()),
            _ => None,
        })
    }

    /// An executable or library with its loader and every library it names.
    pub(crate) fn elf(&mut self, path: &Path) -> Result<()> {
        self.host(path)?;
        self.libraries(path)
    }

    /// What an executable or library needs besides itself.
    pub(crate) fn libraries(&mut self, path: &Path) -> Result<()> {
        let found = DependencyAnalyzer::default()
            .analyze(path)
            .with_context(|| format!("read the libraries of `{}`", path.display()))?;
        if let Some(loader) = &found.interpreter {
            self.host(Path::new(loader))?;
        }
        for library in found.libraries.values() {
            ensure!(
                library.found(),
                "`{}` needs `{}`, which is not here",
                path.display(),
                library.name
            );
            self.host(&library.path)?;
        }
        Ok(())
    }

    /// Adds the symlinks among a path's components, and returns where the path ends.
    fn follow(&mut self, path: &Path) -> Result<PathBuf> {
        let parts = |path: &Path| -> Vec<PathBuf> {
            path.components()
                .rev()
                .map(|part| PathBuf::from(part.as_os_str()))
                .collect()
        };
        let mut done = PathBuf::from("/");
        let mut todo = parts(path);
        for _ in 0..255 {
            let Some(part) = todo.pop() else { return Ok(done) };
            match part.to_str() {
                Some("/") => done = PathBuf::from("/"),
                Some("..") => drop(done.pop()),
                Some(".") => {}
                _ => {
                    let next = done.join(&part);
                    let meta =
                        fs::symlink_metadata(&next).with_context(|| format!("find `{}`", path.display()))?;
                    if meta.is_symlink() {
                        let target = fs::read_link(&next).context("read a symlink")?;
                        self.link(&next, &target);
                        todo.extend(parts(&target));
                    } else {
                        done = next;
                    }
                }
            }
        }
        anyhow::bail!("too many symlinks on the way to `{}`", path.display())
    }

    /// Bytes of all contents.
    pub(crate) fn size(&self) -> Result<u64> {
        let mut sum = 0;
        for entry in self.entries.values() {
            sum += match &entry.kind {
                Kind::Bytes(bytes) => bytes.len() as u64,
                Kind::File(source) => fs::metadata(source)
                    .with_context(|| format!("read `{}`", source.display()))?
                    .len(),
                Kind::Directory | Kind::Link(_) => 0,
            };
        }
        Ok(sum)
    }

    /// Changes when any file does, judged by size and times as build tools do.
    pub(crate) fn key(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for (path, entry) in &self.entries {
            hash.update(path.as_os_str().as_bytes());
            hash.update(format!(
                "\0{:o} {} {} {} ",
                entry.mode, entry.uid, entry.gid, entry.mtime
            ));
            match &entry.kind {
                Kind::Directory => hash.update("d"),
                Kind::Link(target) => hash.update([b"l", target.as_os_str().as_bytes()].concat()),
                Kind::Bytes(bytes) => hash.update([b"b", bytes.as_slice()].concat()),
                Kind::File(source) => {
                    let meta =
                        fs::metadata(source).with_context(|| format!("read `{}`", source.display()))?;
                    hash.update(source.as_os_str().as_bytes());
                    hash.update(format!(
                        "\0f{} {}.{} ",
                        meta.len(),
                        meta.ctime(),
                        meta.ctime_nsec()
                    ));
                    hash.update(format!("{}.{}", meta.mtime(), meta.mtime_nsec()));
                }
            }
            hash.update([0]);
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Guests have a merged `/usr` as Debian has: what is named below `/bin` or `/lib` lies in `/usr`, and an archive
/// entry for the folder itself would replace the link.
fn merged(path: &Path) -> PathBuf {
    let mut parts = path.components().skip(1);
    let first = parts
        .next()
        .and_then(|part| part.as_os_str().to_str())
        .unwrap_or_default();
    if MERGED.contains(&first) && parts.next().is_some() {
        return Path::new("/usr").join(path.strip_prefix("/").unwrap_or(path));
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_folders_lead_to_usr() {
        for (path, expected) in [
            ("/bin/sh", "/usr/bin/sh"),
            ("/lib64/x/y", "/usr/lib64/x/y"),
            ("/lib", "/lib"),
            ("/etc/lib", "/etc/lib"),
        ] {
            assert_eq!(merged(Path::new(path)), Path::new(expected));
        }
    }

    #[test]
    fn a_path_through_links_brings_the_links_along() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("usr/lib")).unwrap();
        fs::write(base.join("usr/lib/real.so.1.2"), "x").unwrap();
        std::os::unix::fs::symlink("real.so.1.2", base.join("usr/lib/real.so.1")).unwrap();
        std::os::unix::fs::symlink("usr/lib", base.join("lib")).unwrap();
        let mut tree = Tree::default();
        tree.host(&base.join("lib/real.so.1")).unwrap();
        let kinds: BTreeMap<_, _> = tree
            .entries()
            .filter_map(|(path, e)| Some((path.strip_prefix(&base).ok()?.to_owned(), &e.kind)))
            .collect();
        assert_eq!(kinds[Path::new("lib")], &Kind::Link("usr/lib".into()));
        assert_eq!(
            kinds[Path::new("usr/lib/real.so.1")],
            &Kind::Link("real.so.1.2".into())
        );
        assert_eq!(
            kinds[Path::new("usr/lib/real.so.1.2")],
            &Kind::File(base.join("usr/lib/real.so.1.2"))
        );
    }

    #[test]
    fn a_dynamic_program_brings_its_loader_and_libraries() {
        let mut tree = Tree::default();
        tree.elf(Path::new("/usr/bin/dpkg-deb")).unwrap();
        let has = |text: &str| {
            tree.entries().any(|(path, entry)| {
                matches!(entry.kind, Kind::File(_)) && path.to_string_lossy().contains(text)
            })
        };
        for part in [
            "/usr/bin/dpkg-deb",
            "/ld-linux-x86-64.so.",
            "/libc.so.",
            "/libz.so.",
        ] {
            assert!(has(part), "no `{part}`");
        }
        assert!(matches!(&tree.entries[Path::new("/lib64")].kind, Kind::Link(_)));
    }

    #[test]
    fn the_key_changes_with_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("file");
        fs::write(&source, "one").unwrap();
        let mut tree = Tree::default();
        tree.file("/file", &source, 0o644);
        let before = tree.key().unwrap();
        assert_eq!(before, tree.key().unwrap());
        fs::write(&source, "three").unwrap();
        assert_ne!(before, tree.key().unwrap());
    }
}
