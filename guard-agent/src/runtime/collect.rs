//! Gathers grants and links, then drops what another one already gives.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::{Path, PathBuf},
};

use crate::{config::rights::Rights, octets::Octets};

use super::{
    Grant, Link,
    walk::{self, Found, Lost, show},
};

/// Notes beyond this many are counted, not kept.
const MAX_NOTES: usize = 32;

#[derive(Debug, Clone)]
struct Need {
    tree: bool,
    exec: bool,
    map: bool,
    reason: String,
}

#[derive(Debug, Default)]
pub(super) struct Collector {
    needs: BTreeMap<PathBuf, Need>,
    links: BTreeMap<PathBuf, PathBuf>,
    notes: Vec<String>,
    notes_dropped: usize,
}

impl Collector {
    /// Records the links a walk went through, so that its path works in the view.
    pub(super) fn keep(&mut self, found: &Found) {
        for (path, target) in &found.links {
            self.links.insert(path.clone(), target.clone());
        }
    }

    /// A file that is only read.
    pub(super) fn file(&mut self, found: &Found, reason: impl Into<String>) {
        self.add(
            found,
            Need {
                tree: false,
                exec: false,
                map: false,
                reason: reason.into(),
            },
        );
    }

    /// A file whose code is mapped, never executed.
    pub(super) fn library(&mut self, found: &Found, reason: impl Into<String>) {
        self.add(
            found,
            Need {
                tree: false,
                exec: false,
                map: true,
                reason: reason.into(),
            },
        );
    }

    /// A file that is executed: the program and its loader.
    pub(super) fn program(&mut self, found: &Found, reason: impl Into<String>) {
        self.add(
            found,
            Need {
                tree: false,
                exec: true,
                map: true,
                reason: reason.into(),
            },
        );
    }

    /// A directory with all beneath it; native add-ons in it may be mapped.
    pub(super) fn tree(&mut self, found: &Found, reason: impl Into<String>) {
        self.add(
            found,
            Need {
                tree: true,
                exec: false,
                map: true,
                reason: reason.into(),
            },
        );
    }

    /// A tree that may not be there: the absence of an optional directory is no error.
    pub(super) fn optional_tree(&mut self, path: &Path, reason: &str) -> Option<PathBuf> {
        match walk::follow(path) {
            Ok(found) if found.metadata.is_dir() => {
                self.tree(&found, reason);
                Some(found.real)
            }
            Ok(_) => None,
            Err(lost) => {
                self.note_lost(&lost, reason);
                None
            }
        }
    }

    /// The same for a tree that holds no code.
    pub(super) fn optional_data_tree(&mut self, path: &Path, reason: &str) {
        if let Ok(found) = walk::follow(path)
            && found.metadata.is_dir()
        {
            let need = Need {
                tree: true,
                exec: false,
                map: false,
                reason: reason.into(),
            };
            self.add(&found, need);
        }
    }

    /// A file that may not be there.
    pub(super) fn optional_file(&mut self, path: &Path, reason: &str) {
        match walk::follow(path) {
            Ok(found) if found.metadata.is_file() => self.file(&found, reason),
            Ok(_) => {}
            Err(lost) => self.note_lost(&lost, reason),
        }
    }

    fn note_lost(&mut self, lost: &Lost, reason: &str) {
        if !lost.is_absent() {
            self.note(format!("{reason}: {lost}"));
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if self.notes.contains(&note) {
            return;
        }
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        } else {
            self.notes_dropped += 1;
        }
    }

    fn add(&mut self, found: &Found, need: Need) {
        self.keep(found);
        match self.needs.entry(found.real.clone()) {
            Entry::Vacant(slot) => {
                slot.insert(need);
            }
            Entry::Occupied(mut slot) => {
                let old = slot.get_mut();
                old.exec |= need.exec;
                old.map |= need.map;
            }
        }
    }

    /// Whether a granted tree holds this real path.
    pub(super) fn covers(&self, path: &Path) -> bool {
        path.ancestors()
            .any(|ancestor| self.needs.get(ancestor).is_some_and(|need| need.tree))
    }

    /// Grants and links in path order, without those that another one or a root already gives.
    pub(super) fn finish(self, roots: &[(Octets, Rights)]) -> (Vec<Grant>, Vec<Link>, Vec<String>) {
        let covered = |path: &Path, need: &Need| {
            !need.exec
                && path
                    .ancestors()
                    .skip(1)
                    .filter_map(|ancestor| self.needs.get(ancestor))
                    .any(|outer| outer.tree && (outer.map || !need.map))
        };
        let grants = self
            .needs
            .iter()
            .filter(|(path, need)| !covered(path, need))
            .map(|(path, need)| Grant {
                path: path.as_path().into(),
                exec: need.exec,
                map: need.map,
                reason: need.reason.clone(),
            })
            .collect();
        let links = self
            .links
            .iter()
            .filter(|(path, _)| {
                !self.covers(path) && !roots.iter().any(|(root, _)| path.starts_with(root.as_path()))
            })
            .map(|(path, target)| Link {
                path: path.as_path().into(),
                target: target.as_path().into(),
            })
            .collect();
        let mut notes = self.notes;
        if self.notes_dropped > 0 {
            notes.push(format!("{} more notes were left out", self.notes_dropped));
        }
        (grants, links, notes)
    }
}

/// "library of `/usr/bin/node`".
pub(super) fn part_of(what: &str, path: &Path) -> String {
    format!("{what} of `{}`", show(path))
}
