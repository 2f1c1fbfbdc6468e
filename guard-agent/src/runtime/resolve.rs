//! The one path from a typed command to a [`Runtime`].

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs::File,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::{
    Ask, Runtime, RuntimeKind,
    collect::{Collector, part_of},
    context::{Context, name_of},
    elf::{self, Elf},
    libraries::Libraries,
    node, python, script,
    walk::{self, show},
};
use crate::{octets::Octets, refusal::Refusal};

/// Names that any runtime's users set and that carry no secret.
const COMMON_ENVIRONMENT: &[&str] = &["FORCE_COLOR", "NO_COLOR", "UV_CACHE_DIR"];

/// The program as its runtime's rules see it.
pub(super) struct Program<'a> {
    /// The path it is executed by.
    pub(super) path: &'a Path,
    pub(super) real: PathBuf,
    pub(super) argv: &'a [OsString],
}

/// Native modules that the program opens later; their libraries are searched one by one.
pub(super) struct AddOns<'a> {
    libraries: &'a mut Libraries,
    /// What the program itself has loaded by then.
    present: HashSet<OsString>,
    incomplete: Vec<String>,
}

impl AddOns<'_> {
    /// Grants the libraries of one native module. It lies in a granted tree itself.
    pub(super) fn examine(&mut self, path: &Path, collect: &mut Collector) {
        let Ok(elf) = File::open(path)
            .map_err(elf::BadElf::from)
            .and_then(|file| elf::read(&file))
        else {
            return; // For another machine, or no ELF file: the loader will not take it either.
        };
        let closure = self.libraries.closure(path, Rc::new(elf), &self.present, collect);
        if !closure.missing.is_empty() {
            self.incomplete
                .push(format!("`{}` ({})", show(path), closure.missing.join(", ")));
        }
    }

    /// Modules whose libraries are not installed fail when they are opened, guarded or not: a note, no error.
    fn report(self, collect: &mut Collector) {
        const SHOWN: usize = 5;
        if let Some(first) = self
            .incomplete
            .get(..SHOWN.min(self.incomplete.len()))
            .filter(|list| !list.is_empty())
        {
            let more = self.incomplete.len() - first.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            collect.note(format!(
                "native modules need libraries that are not there: {}{more}",
                first.join(", ")
            ));
        }
    }
}

pub(super) fn resolve(ask: &Ask) -> Result<Runtime, Refusal> {
    let context = Context::new(ask)?;
    let mut collect = Collector::default();
    let image = script::unwrap(&context, &mut collect)?;
    let (path, real) = (image.executable.path, image.executable.found.real.clone());
    let kind = kind(&context, &image.elf, &path, &real)?;
    let loader = image.elf.interpreter.clone();
    let mut argv = image.argv;

    collect.program(&image.executable.found, "the program");
    let mut libraries = Libraries::new(loader.as_deref().unwrap_or(Path::new("")));
    let present = program_libraries(&context, &mut libraries, &real, image.elf, &mut collect)?;

    let mut add_ons = AddOns {
        libraries: &mut libraries,
        present,
        incomplete: Vec::new(),
    };
    match kind {
        RuntimeKind::Node => {
            let program = Program {
                path: &path,
                real,
                argv: &argv,
            };
            node::grants(&context, &program, &mut collect, &mut add_ons)?;
        }
        RuntimeKind::Python => {
            let program = Program {
                path: &path,
                real,
                argv: &argv,
            };
            python::grants(&context, &program, &mut collect, &mut add_ons)?;
            // Python finds its virtual environment by this name, and by `PATH` when it is no path.
            if let Some(first) = argv.first_mut() {
                *first = path.as_os_str().to_owned();
            }
        }
        RuntimeKind::Auto | RuntimeKind::Static => {
            if image.script.is_some() {
                let name = show(&path);
                collect.note(format!(
                    "script of `{name}`: programs it starts are not granted; name them by `--root …:rx`"
                ));
            }
        }
    }
    add_ons.report(&mut collect);
    system_data(&mut collect);
    for (root, _) in ask.roots.iter().filter(|(_, rights)| rights.exec) {
        root_program(root.as_path(), &mut collect);
    }

    let (grants, links, notes) = collect.finish(&ask.roots);
    Ok(Runtime {
        kind,
        program: path.into(),
        argv: argv.into_iter().map(Octets::from).collect(),
        grants,
        links,
        environment: environment(kind),
        notes,
    })
}

/// Grants loader and libraries of the program; what is missing here would fail its start in the view.
fn program_libraries(
    context: &Context<'_>,
    libraries: &mut Libraries,
    real: &Path,
    elf: Elf,
    collect: &mut Collector,
) -> Result<HashSet<OsString>, Refusal> {
    let Some(loader) = elf.interpreter.clone() else {
        return Ok(HashSet::new());
    };
    let found = walk::follow(&loader).map_err(|lost| {
        let hint = "install the C library it was built for";
        context.refuse(
            format!("its ELF loader `{}` is missing: {lost}", show(&loader)),
            hint,
        )
    })?;
    collect.program(&found, part_of("ELF loader", real));
    libraries.grant_cache(collect);
    let mut closure = libraries.closure(real, Rc::new(elf), &HashSet::new(), collect);
    if !closure.missing.is_empty() {
        return Err(context.refuse(
            format!("`{}` needs libraries that are not there: {}", show(real), closure.missing.join(", ")),
            "install them, and run `ldconfig` if they lie in a directory of their own (`LD_LIBRARY_PATH` is not passed on)",
        ));
    }
    closure.names.extend(loader.file_name().map(OsStr::to_owned));
    Ok(closure.names)
}

/// What the C library and the runtimes read of every system, without a secret in it. Where the host's tree is
/// visible, a file that is there and may not be read is fatal to node (OpenSSL) and Python (`mimetypes`, time
/// zones); where it is not, a server would tell another local time than the same server outside.
fn system_data(collect: &mut Collector) {
    for file in [
        "/etc/localtime",
        "/etc/timezone",
        "/etc/mime.types",
        "/etc/ssl/openssl.cnf",
        "/usr/lib/ssl/openssl.cnf",
    ] {
        collect.optional_file(Path::new(file), "data of the system");
    }
    collect.optional_data_tree(Path::new("/usr/share/zoneinfo"), "time zones of the system");
    // Without `C.UTF-8` a program falls back to ASCII.
    collect.optional_data_tree(Path::new("/usr/lib/locale"), "locales of the system");
}

/// A root that is one program, to be started by the server: with its loader and libraries, or the right to
/// execute it would be worth nothing. What does not work out is a note: the server may never start it.
fn root_program(root: &Path, collect: &mut Collector) {
    let Ok(found) = walk::follow(root) else { return };
    if !found.metadata.is_file() {
        return;
    }
    let Ok(elf) = File::open(&found.real)
        .map_err(elf::BadElf::from)
        .and_then(|file| elf::read(&file))
    else {
        return; // A script: its interpreter is a root of its own.
    };
    let Some(loader) = elf.interpreter.clone() else {
        return;
    };
    match walk::follow(&loader) {
        Ok(found_loader) => collect.program(&found_loader, part_of("ELF loader", &found.real)),
        Err(lost) => {
            return collect.note(format!(
                "root `{}`: its ELF loader is missing: {lost}",
                show(root)
            ));
        }
    }
    let mut libraries = Libraries::new(&loader);
    libraries.grant_cache(collect);
    let closure = libraries.closure(&found.real, Rc::new(elf), &HashSet::new(), collect);
    if !closure.missing.is_empty() {
        let missing = closure.missing.join(", ");
        collect.note(format!(
            "root `{}` needs libraries that are not there: {missing}",
            show(root)
        ));
    }
}

fn kind(context: &Context<'_>, elf: &Elf, path: &Path, real: &Path) -> Result<RuntimeKind, Refusal> {
    let is_static = elf.interpreter.is_none() && elf.needed.is_empty();
    let named = |test: fn(&OsStr) -> bool| test(&name_of(path)) || test(&name_of(real));
    match context.ask.kind {
        RuntimeKind::Static if !is_static => Err(context.refuse(
            format!(
                "`{}` is not a static program: it asks for an ELF loader or libraries",
                show(real)
            ),
            "use `--runtime auto`, or build the program static",
        )),
        RuntimeKind::Auto if named(is_node) => Ok(RuntimeKind::Node),
        RuntimeKind::Auto if named(python::is_python) => Ok(RuntimeKind::Python),
        RuntimeKind::Auto if is_static => Ok(RuntimeKind::Static),
        asked => Ok(asked),
    }
}

fn is_node(name: &OsStr) -> bool {
    name == "node" || name == "nodejs"
}

fn environment(kind: RuntimeKind) -> Vec<String> {
    let more: &[&str] = match kind {
        RuntimeKind::Node => node::ENVIRONMENT,
        RuntimeKind::Python => python::ENVIRONMENT,
        RuntimeKind::Auto | RuntimeKind::Static => &[],
    };
    COMMON_ENVIRONMENT
        .iter()
        .chain(more)
        .map(|name| (*name).to_owned())
        .collect()
}
