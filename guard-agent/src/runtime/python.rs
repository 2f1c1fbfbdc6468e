//! Python: the standard library, the virtual environment, installed packages and the script's project.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs,
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::{
    collect::{Collector, part_of},
    context::{Context, name_of},
    extensions::Extensions,
    options::{self, Main},
    project,
    resolve::{AddOns, Program},
    walk::{self, Found, show},
};
use crate::refusal::Refusal;

const MAX_TEXT: u64 = 64 << 10;

pub(super) const ENVIRONMENT: &[&str] = &[
    "PIP_CACHE_DIR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONFAULTHANDLER",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONNOUSERSITE",
    "PYTHONOPTIMIZE",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
    "PYTHONUNBUFFERED",
    "PYTHONUSERBASE",
    "PYTHONUTF8",
    "PYTHONWARNINGS",
    "VIRTUAL_ENV",
];

/// `python`, `python3`, `python3.11`, `python3.13t`.
pub(super) fn is_python(name: &OsStr) -> bool {
    let Some(rest) = name.as_bytes().strip_prefix(b"python") else {
        return false;
    };
    rest.iter()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b't' | b'd'))
}

pub(super) fn grants(
    context: &Context<'_>,
    program: &Program<'_>,
    collect: &mut Collector,
    add_ons: &mut AddOns<'_>,
) -> Result<(), Refusal> {
    let mut python = Python {
        context,
        collect,
        packages: Vec::new(),
    };
    let environment = python.virtual_environment(program)?;
    let base = match environment
        .as_ref()
        .and_then(|environment| environment.home.clone())
    {
        Some(home) => home,
        None => program.real.parent().unwrap_or(Path::new("/")).to_owned(),
    };
    let version = python.standard_library(&base, program)?;
    if environment
        .as_ref()
        .is_none_or(|environment| environment.system_packages)
    {
        python.system_packages(&version);
    }
    python.search_path();
    match options::python(program.argv.iter().skip(1).map(OsString::as_os_str)) {
        Main::Script(script) => python.script(&script)?,
        Main::Module(module) => python.module(&module),
        Main::Inline => {}
    }
    python.path_files();
    let Python {
        packages, collect, ..
    } = python;
    let mut extensions = Extensions::new(add_ons, collect);
    let mut seen = HashSet::new();
    for tree in packages.into_iter().filter(|tree| seen.insert(tree.clone())) {
        extensions.tree(&tree);
    }
    Ok(())
}

struct Environment {
    /// Where the interpreter it was made from lies: `home =`.
    home: Option<PathBuf>,
    system_packages: bool,
}

pub(super) struct Python<'a, 'c> {
    pub(super) context: &'a Context<'a>,
    pub(super) collect: &'c mut Collector,
    /// Trees that hold modules: searched for path files and extension modules.
    pub(super) packages: Vec<PathBuf>,
}

impl Python<'_, '_> {
    /// `pyvenv.cfg` beside the program or one above, where Python looks without following its own link.
    fn virtual_environment(&mut self, program: &Program<'_>) -> Result<Option<Environment>, Refusal> {
        let Some(bin) = program.path.parent() else {
            return Ok(None);
        };
        for directory in [Some(bin), bin.parent()].into_iter().flatten() {
            let file = directory.join("pyvenv.cfg");
            let Ok(found) = walk::follow(&file) else { continue };
            let text =
                read_text(&found.real).map_err(|error| self.context.unreadable(&found.real, &error))?;
            let root = walk::follow(directory).map_err(|lost| self.context.lost(&lost))?;
            self.grant_environment(&root, &found);
            return Ok(Some(parse_environment(&text)));
        }
        Ok(None)
    }

    fn grant_environment(&mut self, root: &Found, config: &Found) {
        let reason = "the virtual environment";
        if project::is_shared(self.context, &root.real) {
            self.collect.file(config, reason);
            for part in ["bin", "lib", "lib64"] {
                self.collect.optional_tree(&root.real.join(part), reason);
            }
        } else {
            self.collect.tree(root, reason);
        }
        for entry in fs::read_dir(root.real.join("lib"))
            .into_iter()
            .flatten()
            .flatten()
        {
            if is_python(&entry.file_name()) {
                self.packages.push(entry.path().join("site-packages"));
            }
        }
    }

    /// Finds `lib/pythonX.Y/os.py` from the interpreter's directory upwards, as Python does.
    fn standard_library(&mut self, bin: &Path, program: &Program<'_>) -> Result<OsString, Refusal> {
        let names = version_names(program);
        // `home` may itself be a link; Python resolves the program there once more.
        let beside_real = program.real.parent().unwrap_or(Path::new("/")).to_owned();
        for start in [bin, beside_real.as_path()] {
            for prefix in start.ancestors() {
                let Some(library) = library_of(prefix, &names) else {
                    continue;
                };
                let found = walk::follow(&library).map_err(|lost| self.context.lost(&lost))?;
                self.collect
                    .tree(&found, part_of("standard library", &program.real));
                self.packages.push(found.real.join("lib-dynload"));
                self.packages.push(found.real.join("site-packages"));
                self.sixty_four(prefix, &found, program);
                return Ok(name_of(&found.real));
            }
        }
        Err(self.context.refuse(
            format!(
                "no standard library (`lib/python3.*/os.py`) above `{}` for `{}`",
                show(bin),
                show(&program.real)
            ),
            "install it (`libpython3-stdlib`), or repair `home` in the virtual environment's `pyvenv.cfg`",
        ))
    }

    /// Fedora keeps extension modules in `lib64`; Debian keeps a link to `/etc` in the library.
    fn sixty_four(&mut self, prefix: &Path, library: &Found, program: &Program<'_>) {
        let version = name_of(&library.real);
        let reason = part_of("standard library", &program.real);
        if let Some(real) = self
            .collect
            .optional_tree(&prefix.join("lib64").join(&version), &reason)
        {
            self.packages.push(real.join("lib-dynload"));
            self.packages.push(real.join("site-packages"));
        }
        if prefix == Path::new("/usr") {
            self.collect
                .optional_tree(&Path::new("/etc").join(&version), &reason);
        }
    }

    /// Packages outside virtual environments: the distribution's, the machine's, the user's own.
    fn system_packages(&mut self, version: &OsStr) {
        let mut places = vec![
            (
                PathBuf::from("/usr/lib/python3/dist-packages"),
                "Python packages of the distribution",
            ),
            (
                Path::new("/usr/local/lib").join(version).join("dist-packages"),
                "Python packages of this machine",
            ),
            (
                Path::new("/usr/local/lib").join(version).join("site-packages"),
                "Python packages of this machine",
            ),
        ];
        let base = self
            .context
            .variable("PYTHONUSERBASE")
            .map(|base| self.context.absolute(base));
        // A home that this user cannot pass holds nothing its Python would find either.
        let user = base.or_else(|| self.context.home.as_ref().map(|home| home.join(".local")));
        let user = user.map(|base| base.join("lib").join(version).join("site-packages"));
        if let Some(place) = user.filter(|place| walk::follow(place).is_ok()) {
            places.push((place, "Python packages of the user"));
        }
        let distribution = self.packages.iter().any(|place| place.starts_with("/usr/lib"));
        for (place, reason) in places {
            // `/usr` paths are searched by the distribution's Python alone.
            if place.starts_with("/usr") && !distribution {
                continue;
            }
            self.tree(&place, reason);
        }
    }

    fn search_path(&mut self) {
        if let Some(list) = self.context.variable("PYTHONPATH") {
            for directory in self.context.list(list) {
                self.tree(&directory, "directory of `PYTHONPATH`");
            }
        }
    }

    pub(super) fn tree(&mut self, path: &Path, reason: &str) {
        if let Some(real) = self.collect.optional_tree(path, reason) {
            self.packages.push(real);
        }
    }
}

/// `python3.11` from the program's names, or nothing when they do not say.
fn version_names(program: &Program<'_>) -> Vec<OsString> {
    [name_of(&program.real), name_of(program.path)]
        .into_iter()
        .filter(|name| is_python(name) && name.as_bytes().contains(&b'.'))
        .collect()
}

fn library_of(prefix: &Path, names: &[OsString]) -> Option<PathBuf> {
    let has_landmark = |library: &PathBuf| library.join("os.py").is_file();
    let library = prefix.join("lib");
    if !names.is_empty() {
        return names.iter().map(|name| library.join(name)).find(has_landmark);
    }
    let mut candidates: Vec<PathBuf> = fs::read_dir(&library)
        .ok()?
        .flatten()
        .filter(|entry| is_python(&entry.file_name()))
        .map(|entry| entry.path())
        .filter(has_landmark)
        .collect();
    candidates.sort();
    candidates.pop()
}

fn parse_environment(text: &[u8]) -> Environment {
    let mut environment = Environment {
        home: None,
        system_packages: false,
    };
    for line in text.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
        match key {
            b"home" if value.starts_with(b"/") => {
                environment.home = Some(PathBuf::from(OsStr::from_bytes(value)));
            }
            b"include-system-site-packages" => {
                environment.system_packages = value.eq_ignore_ascii_case(b"true");
            }
            _ => {}
        }
    }
    environment
}

pub(super) fn read_text(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_TEXT).read_to_end(&mut text)?;
    Ok(text)
}
