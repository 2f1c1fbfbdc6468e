//! pyenv shims: a shell script by name, in truth a choice of version.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::{
    collect::Collector,
    context::{Context, name_of},
    lookup::{self, Executable, may_execute},
    walk::{self, show},
};
use crate::refusal::Refusal;

/// Enough for any list of versions; a bound on what a foreign file makes us read.
const MAX_FILE: u64 = 4096;

/// Replaces a shim by the program pyenv would start; leaves everything else as it is.
pub(super) fn see_through(
    context: &Context<'_>,
    executable: Executable,
    collect: &mut Collector,
) -> Result<Executable, Refusal> {
    let Some(root) = shim_root(&executable.found.real) else {
        return Ok(executable);
    };
    let name = name_of(&executable.found.real);
    collect.keep(&executable.found);
    let (versions, origin) = chosen(context, &root);
    for version in &versions {
        if version == "system" {
            let shims = [
                root.join("shims"),
                executable.path.parent().unwrap_or(&root).to_owned(),
            ];
            if let Ok(found) = lookup::find(context, &name, &shims) {
                return Ok(found);
            }
            continue;
        }
        let Some(directory) = installed(&root, version) else {
            continue;
        };
        let program = directory.join("bin").join(&name);
        if program.exists() || fs::symlink_metadata(&program).is_ok() {
            return lookup::find(context, program.as_os_str(), &[]);
        }
    }
    let chosen: Vec<String> = versions
        .iter()
        .map(|version| format!("`{}`", version.display()))
        .collect();
    Err(context.refuse(
        format!(
            "the pyenv shim `{}` leads nowhere: {} (from {origin}) has no `{}`",
            show(&executable.path),
            chosen.join(", "),
            name.display()
        ),
        hint(&root, &name),
    ))
}

fn hint(root: &Path, name: &OsStr) -> String {
    let mut places: Vec<PathBuf> = fs::read_dir(root.join("versions"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin").join(name))
        .filter(|program| may_execute(program))
        .collect();
    places.sort();
    let list: Vec<String> = places.iter().map(|place| format!("`{}`", show(place))).collect();
    match list.as_slice() {
        [] => "install a version that has it, or name another interpreter by its full path".into(),
        list => format!(
            "set `PYENV_VERSION`, or name one by its full path: {}",
            list.join(", ")
        ),
    }
}

/// The pyenv directory, when `path` is `<it>/shims/<name>` and `<it>/versions` exists.
fn shim_root(path: &Path) -> Option<PathBuf> {
    let shims = path.parent()?;
    let root = shims.parent()?;
    (shims.file_name()? == "shims" && root.join("versions").is_dir()).then(|| root.to_owned())
}

/// The versions pyenv would try, in order, and what said so.
fn chosen(context: &Context<'_>, root: &Path) -> (Vec<OsString>, String) {
    if let Some(list) = context.variable("PYENV_VERSION") {
        let versions = list
            .as_bytes()
            .split(|byte| *byte == b':')
            .filter(|part| !part.is_empty());
        return (
            versions.map(|part| OsStr::from_bytes(part).to_owned()).collect(),
            "`PYENV_VERSION`".into(),
        );
    }
    let local = context
        .directory
        .ancestors()
        .map(|directory| directory.join(".python-version"));
    for file in local.chain([root.join("version")]) {
        let versions = read_versions(&file);
        if !versions.is_empty() {
            return (versions, format!("`{}`", show(&file)));
        }
    }
    (vec!["system".into()], "pyenv's default".into())
}

/// The first word of each line, without comments and without names that lead elsewhere.
fn read_versions(file: &Path) -> Vec<OsString> {
    let mut text = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(MAX_FILE).read_to_end(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    text.split(|byte| matches!(byte, b'\n' | b'\r'))
        .filter_map(|line| line.trim_ascii().split(u8::is_ascii_whitespace).next())
        .filter(|word| !word.is_empty() && !word.starts_with(b"#"))
        .map(|word| OsStr::from_bytes(word).to_owned())
        .collect()
}

/// The directory of a version: its own name, without `python-`, or the newest it is a prefix of.
fn installed(root: &Path, version: &OsStr) -> Option<PathBuf> {
    let versions = root.join("versions");
    let bytes = version.as_bytes();
    let names = [bytes, bytes.strip_prefix(b"python-").unwrap_or(bytes)];
    for name in names {
        if name.contains(&b'/') || name == b".." || name == b"." || name.is_empty() {
            return None;
        }
        let directory = versions.join(OsStr::from_bytes(name));
        if walk::follow(&directory).is_ok_and(|found| found.metadata.is_dir()) {
            return Some(directory);
        }
    }
    let prefix = [names[1], b"."].concat();
    fs::read_dir(&versions)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().as_bytes().starts_with(&prefix))
        .filter_map(|entry| Some((numbers(&entry.file_name())?, entry.path())))
        .max()
        .map(|(_, path)| path)
}

/// `3.12.10` as numbers; `None` for pre-releases and named environments.
fn numbers(name: &OsStr) -> Option<Vec<u32>> {
    name.to_str()?.split('.').map(|part| part.parse().ok()).collect()
}
