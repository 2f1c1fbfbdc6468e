//! Node: the package of the script, the `node_modules` it searches, and native add-ons' libraries.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs::{self, DirEntry},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::{
    collect::{Collector, part_of},
    context::{Context, name_of},
    options::{self, Main},
    project,
    resolve::{AddOns, Program},
    walk::{self, Found, show},
};
use crate::refusal::Refusal;

const MARKERS: &[&str] = &["package.json"];
/// Directory entries looked at in search of add-ons and links, over all trees.
const MAX_ENTRIES: usize = 20_000;
/// Linked packages that are followed.
const MAX_LINKED: usize = 64;

pub(super) const ENVIRONMENT: &[&str] = &[
    "NODE_ENV",
    "NODE_EXTRA_CA_CERTS",
    "NODE_NO_WARNINGS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_USE_ENV_PROXY",
    // Both spellings are read by npm and npx; a cache that moves breaks the first start.
    "NPM_CONFIG_CACHE",
    "npm_config_cache",
];

pub(super) fn grants(
    context: &Context<'_>,
    program: &Program<'_>,
    collect: &mut Collector,
    add_ons: &mut AddOns<'_>,
) -> Result<(), Refusal> {
    let mut node = Node {
        context,
        collect,
        entries: 0,
        seen: HashSet::new(),
        pending: Vec::new(),
    };
    node.installation(&program.real);
    let arguments = options::node(program.argv.iter().skip(1).map(OsString::as_os_str));
    if let Main::Script(script) = &arguments.main {
        node.script(script)?;
    }
    let from_environment: Vec<OsString> = context
        .variable("NODE_OPTIONS")
        .map(|text| {
            text.as_bytes()
                .split(u8::is_ascii_whitespace)
                .map(|word| OsStr::from_bytes(word).to_owned())
                .collect()
        })
        .unwrap_or_default();
    let more = options::node(from_environment.iter().map(OsString::as_os_str));
    for module in arguments.modules.iter().chain(&more.modules) {
        node.module(module);
    }
    for file in arguments.files.iter().chain(&more.files) {
        node.collect
            .optional_file(&context.absolute(file), "file named by an option of node");
    }
    node.environment();
    node.scan(add_ons);
    Ok(())
}

struct Node<'a, 'c> {
    context: &'a Context<'a>,
    collect: &'c mut Collector,
    entries: usize,
    seen: HashSet<PathBuf>,
    /// Trees still to be scanned for links and add-ons.
    pending: Vec<PathBuf>,
}

impl Node<'_, '_> {
    /// npm and global packages; Debian spreads node's own modules over more places.
    fn installation(&mut self, real: &Path) {
        let Some(prefix) = real.parent().and_then(Path::parent) else {
            return;
        };
        let reason = part_of("global modules", real);
        self.collect
            .optional_tree(&prefix.join("lib/node_modules"), &reason);
        if prefix == Path::new("/usr") {
            for place in ["/usr/share/nodejs", "/usr/share/node_modules", "/usr/lib/nodejs"] {
                self.collect.optional_tree(Path::new(place), &reason);
            }
            let machine = concat_machine("/usr/lib", "nodejs");
            self.collect.optional_tree(&machine, &reason);
        }
    }

    fn script(&mut self, typed: &OsStr) -> Result<(), Refusal> {
        let path = self.context.absolute(typed);
        // Node tries these endings itself.
        let candidates = ["", ".js", ".json", ".node"].map(|ending| {
            let mut name = path.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        });
        let mut first = None;
        for candidate in &candidates {
            match walk::follow(candidate) {
                Ok(found) => {
                    self.package(&found, "script");
                    return Ok(());
                }
                Err(lost) => first = first.or(Some(lost)),
            }
        }
        Err(first.map_or_else(
            || self.context.refuse("the script does not exist", "check the path"),
            |lost| {
                let refusal = self.context.lost(&lost);
                Refusal {
                    why: format!("its script `{}`: {}", show(&path), refusal.why),
                    ..refusal
                }
            },
        ))
    }

    /// `--require` and `--import`: a path, or a name searched from the working directory upwards.
    fn module(&mut self, module: &OsStr) {
        let bytes = module.as_bytes();
        let bytes = bytes.strip_prefix(b"file://").unwrap_or(bytes);
        let path = Path::new(OsStr::from_bytes(bytes));
        if path.is_absolute() || bytes.starts_with(b"./") || bytes.starts_with(b"../") {
            match walk::follow(&self.context.directory.join(path)) {
                Ok(found) => self.package(&found, "module"),
                Err(lost) => self.collect.note(format!("module `{}`: {lost}", show(path))),
            }
            return;
        }
        for directory in self.context.directory.ancestors() {
            if let Ok(found) = walk::follow(&directory.join("node_modules").join(path)) {
                self.package(&found, "module");
                return;
            }
        }
    }

    /// Everything a file of this package may load: its package and the `node_modules` above it.
    fn package(&mut self, found: &Found, what: &str) {
        self.collect.keep(found);
        let reason = format!("{what} `{}`", show(&found.real));
        if let Some(modules) = outermost_modules(&found.real) {
            self.tree(&modules, &reason);
            return;
        }
        if self.collect.covers(&found.real) {
            return;
        }
        let is_directory = found.metadata.is_dir();
        let start = if is_directory {
            Some(found.real.as_path())
        } else {
            found.real.parent()
        };
        let package = start.and_then(|start| project::nearest(self.context, start, MARKERS, self.collect));
        match package {
            Some(package) => self.tree(&package, &format!("package of the {reason}")),
            // A directory that was typed is meant as a whole, as long as it is one project's.
            None if is_directory && !project::is_shared(self.context, &found.real) => {
                self.tree(&found.real, &reason);
            }
            None => self.collect.file(found, &*reason),
        }
        for directory in start.into_iter().flat_map(Path::ancestors) {
            let modules = directory.join("node_modules");
            if !self.collect.covers(&modules) && modules.is_dir() {
                self.tree(&modules, &format!("modules above the {reason}"));
            }
        }
    }

    fn tree(&mut self, path: &Path, reason: &str) {
        if let Some(real) = self.collect.optional_tree(path, reason) {
            self.pending.push(real);
        }
    }

    fn environment(&mut self) {
        if let Some(list) = self.context.variable("NODE_PATH") {
            for directory in self.context.list(list) {
                self.tree(&directory, "directory of `NODE_PATH`");
            }
        }
        if let Some(file) = self.context.variable("NODE_EXTRA_CA_CERTS") {
            self.collect.optional_file(
                &self.context.absolute(file),
                "file named by `NODE_EXTRA_CA_CERTS`",
            );
        }
    }

    /// Looks through the granted trees for links that leave them and for native add-ons.
    fn scan(&mut self, add_ons: &mut AddOns<'_>) {
        let mut linked = 0;
        while let Some(tree) = self.pending.pop() {
            let mut packages = vec![tree];
            while let Some(directory) = packages.pop() {
                if self.seen.insert(directory.clone()) {
                    self.package_directory(&directory, &mut packages, &mut linked, add_ons);
                }
            }
        }
        if self.entries >= MAX_ENTRIES {
            self.collect.note(format!(
                "the search for native add-ons stopped after {MAX_ENTRIES} directory entries; a library that only a later one needs is not granted"
            ));
        }
    }

    fn list(&mut self, directory: &Path) -> Vec<DirEntry> {
        let left = MAX_ENTRIES.saturating_sub(self.entries);
        let entries: Vec<DirEntry> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .take(left)
            .collect();
        self.entries += entries.len();
        entries
    }

    /// One package directory, or a `node_modules` (or `@scope`, or `.pnpm`) directory of packages.
    fn package_directory(
        &mut self,
        directory: &Path,
        packages: &mut Vec<PathBuf>,
        linked: &mut usize,
        add_ons: &mut AddOns<'_>,
    ) {
        let own = name_of(directory);
        let holds_packages = own == "node_modules" || own == ".pnpm" || own.as_bytes().starts_with(b"@");
        for entry in self.list(directory) {
            let (name, path) = (entry.file_name(), entry.path());
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() && holds_packages {
                self.link(&path, linked);
            } else if kind.is_dir() && (holds_packages || name == "node_modules") {
                if name != ".bin" && name != ".cache" {
                    packages.push(path);
                }
            } else if kind.is_dir() {
                self.binaries(&path, &name, add_ons);
            } else if name.as_bytes().ends_with(b".node") {
                add_ons.examine(&path, self.collect);
            }
        }
    }

    /// The places where builds leave add-ons: `build/Release`, `prebuilds/<platform>`, `lib`, `bin`.
    fn binaries(&mut self, directory: &Path, name: &OsStr, add_ons: &mut AddOns<'_>) {
        let places: Vec<PathBuf> = match name.as_bytes() {
            b"build" => vec![directory.join("Release"), directory.join("Debug")],
            b"prebuilds" => {
                let entries = self.list(directory);
                entries
                    .iter()
                    .filter(|entry| entry.file_name().as_bytes().starts_with(b"linux"))
                    .map(DirEntry::path)
                    .collect()
            }
            // Platform packages carry their one add-on here; other packages' `lib` is plain code.
            b"lib" | b"bin"
                if directory
                    .parent()
                    .is_some_and(|package| is_platform(&name_of(package))) =>
            {
                vec![directory.to_owned()]
            }
            _ => Vec::new(),
        };
        for place in places {
            for entry in self.list(&place) {
                if entry.file_name().as_bytes().ends_with(b".node") {
                    add_ons.examine(&entry.path(), self.collect);
                }
            }
        }
    }

    /// A workspace or `npm link` package: the link itself is in the tree, its target may be outside.
    fn link(&mut self, path: &Path, linked: &mut usize) {
        let Ok(found) = walk::follow(path) else { return };
        if self.collect.covers(&found.real) || *linked >= MAX_LINKED {
            return;
        }
        *linked += 1;
        if let Some(package) = project::grant_named(self.context, &found, MARKERS, path, self.collect) {
            self.pending.push(package);
        }
    }
}

fn is_platform(package: &OsStr) -> bool {
    package.as_bytes().windows(5).any(|part| part == b"linux")
}

/// The topmost directory named `node_modules` in a path.
fn outermost_modules(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .filter(|ancestor| ancestor.file_name() == Some(OsStr::new("node_modules")))
        .last()
        .map(Path::to_owned)
}

fn concat_machine(prefix: &str, rest: &str) -> PathBuf {
    Path::new(prefix)
        .join(format!("{}-linux-gnu", std::env::consts::ARCH))
        .join(rest)
}
