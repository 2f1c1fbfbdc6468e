//! Extension modules of Python packages: found by the lists installers leave, else by a bounded walk.
//!
//! Walking a large `site-packages` costs a launch tens of milliseconds; a wheel's `RECORD` names its
//! files in one read. A package that lies there only hides a library from itself.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs,
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use walkdir::{DirEntry, WalkDir};

use super::{collect::Collector, resolve::AddOns, walk::show};

/// Directory entries looked at, over all trees.
const MAX_ENTRIES: usize = 20_000;
/// The largest lists, of whole SDKs, have a few hundred kilobytes.
const MAX_RECORD: u64 = 8 << 20;
/// Modules examined: each costs a read and the search of its libraries.
const MAX_MODULES: usize = 2_000;
/// Directories that hold no module of the tree they lie in.
const SKIPPED: &[&str] = &["__pycache__", "node_modules", ".git", ".venv", "venv", ".tox"];

pub(super) struct Extensions<'a, 'l, 'c> {
    pub(super) add_ons: &'a mut AddOns<'l>,
    pub(super) collect: &'c mut Collector,
    entries: usize,
    modules: HashSet<PathBuf>,
}

impl<'a, 'l, 'c> Extensions<'a, 'l, 'c> {
    pub(super) fn new(add_ons: &'a mut AddOns<'l>, collect: &'c mut Collector) -> Self {
        Self {
            add_ons,
            collect,
            entries: 0,
            modules: HashSet::new(),
        }
    }

    /// Grants the libraries that modules in this tree load.
    pub(super) fn tree(&mut self, tree: &Path) {
        let recorded = self.recorded(tree);
        let top = |entry: &DirEntry| {
            entry.depth() == 1 && (recorded.contains(entry.file_name()) || is_metadata(entry.file_name()))
        };
        let skipped =
            |entry: &DirEntry| entry.depth() > 0 && SKIPPED.iter().any(|name| entry.file_name() == *name);
        let walk = WalkDir::new(tree)
            .into_iter()
            .filter_entry(|entry| !top(entry) && !skipped(entry));
        for entry in walk.flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                self.collect.note(format!(
                    "the search for extension modules stopped after {MAX_ENTRIES} files, in `{}`; a library that only a later one needs is not granted",
                    show(tree)
                ));
                return;
            }
            if entry.file_type().is_file() && is_module(entry.file_name().as_bytes()) {
                self.module(entry.into_path());
            }
        }
    }

    /// Examines what `RECORD` files list and returns the top-level names they account for.
    fn recorded(&mut self, tree: &Path) -> HashSet<OsString> {
        let mut names = HashSet::new();
        for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
            self.entries += 1;
            if !entry.file_name().as_bytes().ends_with(b".dist-info") {
                continue;
            }
            let Some(record) = read_record(&entry.path().join("RECORD")) else {
                continue;
            };
            for line in record.split(|byte| *byte == b'\n') {
                // `path,hash,size`; a path with a comma is quoted and holds no module we could miss.
                let path = line.split(|byte| *byte == b',').next().unwrap_or_default();
                let mut parts = path.splitn(2, |byte| *byte == b'/');
                let top = parts.next().unwrap_or_default();
                if top.is_empty() || top == b".." || top.starts_with(b"\"") {
                    continue;
                }
                if !names.contains(OsStr::from_bytes(top)) {
                    names.insert(OsStr::from_bytes(top).to_owned());
                }
                if is_module(path) {
                    self.module(tree.join(OsStr::from_bytes(path)));
                }
            }
        }
        names
    }

    fn module(&mut self, path: PathBuf) {
        if self.modules.len() >= MAX_MODULES {
            self.collect.note(format!(
                "only the first {MAX_MODULES} extension modules were examined"
            ));
        } else if !self.modules.contains(&path) {
            self.add_ons.examine(&path, self.collect);
            self.modules.insert(path);
        }
    }
}

fn read_record(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_RECORD).read_to_end(&mut text).ok()?;
    // Cut off, it accounts for nothing: the walk takes over.
    (!text.is_empty() && (text.len() as u64) < MAX_RECORD).then_some(text)
}

fn is_module(path: &[u8]) -> bool {
    path.ends_with(b".so")
}

fn is_metadata(name: &OsStr) -> bool {
    name.as_bytes().ends_with(b".dist-info") || name.as_bytes().ends_with(b".egg-info")
}
