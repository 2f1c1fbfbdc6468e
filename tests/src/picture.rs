//! A picture of a place before and after: a refusal that changed something is none.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::Result;

/// Names, kinds, owners, modes, sizes, contents and change times below a place.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Picture(BTreeMap<PathBuf, String>);

impl Picture {
    /// Takes in the place and everything below it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let meta = fs::symlink_metadata(path)?;
        // The change time moves with every change of content, links, owner, mode and attributes.
        let mut line = format!(
            "{:o} {}:{} {} {}.{}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.nlink(),
            meta.ctime(),
            meta.ctime_nsec()
        );
        if meta.is_file() {
            line += &format!(
                " {} {:x?}",
                meta.len(),
                &fs::read(path)?.iter().take(64).collect::<Vec<_>>()
            );
        }
        self.0.insert(path.to_owned(), line);
        if meta.is_dir() {
            for entry in fs::read_dir(path)? {
                self.add(&entry?.path())?;
            }
        }
        Ok(())
    }

    /// Takes one object out again, not what lies below it.
    pub fn forget(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Lines that differ, for the failure's text.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Vec<String> {
        let keys = self
            .0
            .keys()
            .chain(other.0.keys())
            .collect::<std::collections::BTreeSet<_>>();
        keys.into_iter()
            .filter(|key| self.0.get(*key) != other.0.get(*key))
            .map(|key| {
                format!(
                    "{}: {:?} → {:?}",
                    key.display(),
                    self.0.get(key),
                    other.0.get(key)
                )
            })
            .collect()
    }
}
