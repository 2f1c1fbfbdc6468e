//! What a Python program imports besides the standard library: its own project and editable installs.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::{
    project,
    python::{Python, read_text},
    walk::{self, Found, show},
};
use crate::refusal::Refusal;

const MARKERS: &[&str] = &["pyproject.toml", "setup.py", "setup.cfg"];
/// Path files and the paths they name.
const MAX_PATH_FILES: usize = 64;

impl Python<'_, '_> {
    pub(super) fn script(&mut self, typed: &OsStr) -> Result<(), Refusal> {
        let path = self.context.absolute(typed);
        let found = walk::follow(&path).map_err(|lost| {
            let refusal = self.context.lost(&lost);
            Refusal {
                why: format!("its script `{}`: {}", show(&path), refusal.why),
                ..refusal
            }
        })?;
        self.project(&found);
        Ok(())
    }

    /// `-m` looks in the working directory first.
    pub(super) fn module(&mut self, module: &OsStr) {
        let top = module
            .as_bytes()
            .split(|byte| *byte == b'.')
            .next()
            .unwrap_or_default();
        if top.is_empty() || top.contains(&b'/') {
            return;
        }
        let top = OsStr::from_bytes(top);
        let package = self.context.directory.join(top);
        let mut file = package.clone().into_os_string();
        file.push(".py");
        let starts = ["__init__.py", "__main__.py"].map(|name| package.join(name));
        for candidate in starts.iter().map(PathBuf::as_path).chain([Path::new(&file)]) {
            if let Ok(found) = walk::follow(candidate) {
                self.project(&found);
                return;
            }
        }
    }

    /// The project a script belongs to, the package it lies in, or the file alone.
    fn project(&mut self, script: &Found) {
        self.collect.keep(script);
        if self.collect.covers(&script.real) {
            return;
        }
        let is_directory = script.metadata.is_dir();
        let start = if is_directory {
            Some(script.real.as_path())
        } else {
            script.real.parent()
        };
        let project = start
            .and_then(|start| project::nearest(self.context, start, MARKERS, self.collect))
            .or_else(|| start.and_then(|start| self.import_package(start)))
            .or_else(|| {
                start
                    .filter(|start| is_directory && !project::is_shared(self.context, start))
                    .map(Path::to_owned)
            });
        match project {
            Some(project) => {
                self.tree(
                    &project,
                    &format!("project of the script `{}`", show(&script.real)),
                );
            }
            None => self.collect.file(script, "the script"),
        }
    }

    /// The topmost directory of an unbroken line of `__init__.py`.
    fn import_package(&self, start: &Path) -> Option<PathBuf> {
        start
            .ancestors()
            .take_while(|directory| directory.join("__init__.py").is_file())
            .take_while(|directory| !project::is_shared(self.context, directory))
            .last()
            .map(Path::to_owned)
    }

    /// Editable installs name the project's directory in a path file, or in the finder it imports.
    pub(super) fn path_files(&mut self) {
        let mut budget = MAX_PATH_FILES;
        for directory in self.packages.clone() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let is_finder =
                    name.as_bytes().starts_with(b"__editable__") && name.as_bytes().ends_with(b"_finder.py");
                if !name.as_bytes().ends_with(b".pth") && !is_finder {
                    continue;
                }
                if budget == 0 {
                    self.collect.note(format!(
                        "only the first {MAX_PATH_FILES} path files were followed"
                    ));
                    return;
                }
                budget -= 1;
                self.path_file(&entry.path(), is_finder);
            }
        }
    }

    fn path_file(&mut self, file: &Path, is_finder: bool) {
        let Ok(text) = read_text(file) else { return };
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let names: Vec<&[u8]> = if is_finder {
            lines
                .filter(|line| line.starts_with(b"MAPPING"))
                .flat_map(quoted_paths)
                .collect()
        } else {
            lines.filter(|line| line.starts_with(b"/")).collect()
        };
        for name in names.into_iter().take(MAX_PATH_FILES) {
            let Ok(found) = walk::follow(Path::new(OsStr::from_bytes(name))) else {
                continue;
            };
            if let Some(package) = project::grant_named(self.context, &found, MARKERS, file, self.collect) {
                self.packages.push(package);
            }
        }
    }
}

/// Absolute paths in single quotes: `MAPPING: dict[str, str] = {'pkg': '/src/pkg'}`.
fn quoted_paths(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b'\'')
        .filter(|part| part.starts_with(b"/"))
}
