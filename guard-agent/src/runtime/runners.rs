//! `npx`, `npm exec`, `uvx`: programs that fetch a package and start it. A contained server has no network, and they
//! would wait for it; what is installed is started directly instead, what is not is refused at once.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::Read as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    collect::Collector,
    context::{Context, name_of},
    lookup::{self, Executable},
    walk::{self, show},
};
use crate::refusal::Refusal;

/// More than any real `package.json`.
const MAX_MANIFEST: u64 = 1 << 20;
/// Caches of single `npx` calls that are looked through.
const MAX_CACHED: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    Npx,
    Uvx,
}

impl Runner {
    /// By the name that was typed and what it leads to, and how many words belong to the runner itself.
    fn of(executable: &Executable, arguments: &[OsString]) -> Option<(Self, usize)> {
        let (typed, real) = (name_of(&executable.path), name_of(&executable.found.real));
        let first = arguments.first().map(|word| word.as_bytes());
        let second = arguments.get(1).map(|word| word.as_bytes());
        if typed == "npx" || real == "npx-cli.js" {
            Some((Self::Npx, 0))
        } else if (typed == "npm" || real == "npm-cli.js") && matches!(first, Some(b"exec" | b"x")) {
            Some((Self::Npx, 1))
        } else if typed == "uvx" {
            Some((Self::Uvx, 0))
        } else if typed == "uv" && (first, second) == (Some(b"tool"), Some(b"run")) {
            Some((Self::Uvx, 2))
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Npx => "npx",
            Self::Uvx => "uvx",
        }
    }

    /// Options whose value is the next word.
    fn takes_value(self, option: &[u8]) -> bool {
        let options: &[&[u8]] = match self {
            Self::Npx => &[
                b"-p",
                b"--package",
                b"-c",
                b"--call",
                b"--cache",
                b"--prefix",
                b"-w",
                b"--workspace",
            ],
            Self::Uvx => &[
                b"--from",
                b"--with",
                b"-p",
                b"--python",
                b"--index-url",
                b"-i",
                b"--extra-index-url",
                b"--index",
                b"--cache-dir",
                b"--directory",
                b"--project",
                b"-c",
                b"--constraints",
                b"-w",
            ],
        };
        options.contains(&option)
    }
}

/// What a runner is to start.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    /// The package as named, without a version.
    package: OsString,
    version: Option<OsString>,
    /// The program in it, when another than the package's own was named.
    program: Option<OsString>,
    arguments: Vec<OsString>,
    offline: bool,
}

enum Read {
    Wish(Wish),
    /// A shell command, several packages, a directory: left to the runner.
    Other {
        offline: bool,
    },
}

/// Replaces a runner by the program that is installed; leaves everything else as it is.
pub(super) fn see_through(
    context: &Context<'_>,
    executable: Executable,
    argv: Vec<OsString>,
    collect: &mut Collector,
) -> Result<(Executable, Vec<OsString>), Refusal> {
    let Some((runner, own)) = Runner::of(&executable, argv.get(1..).unwrap_or_default()) else {
        return Ok((executable, argv));
    };
    let name = runner.name();
    let wish = match read(runner, argv.get(1 + own..).unwrap_or_default()) {
        Read::Wish(wish) => wish,
        Read::Other { offline } => {
            if !offline {
                collect.note(format!(
                    "`{name}` may wait for a network that a contained server does not have; name the server's program itself"
                ));
            }
            return Ok((executable, argv));
        }
    };
    let found = match runner {
        Runner::Npx => npm(context, &executable, &wish)?,
        Runner::Uvx => uv(context, &wish),
    };
    let Some(program) = found else {
        if wish.offline {
            // It says itself that its cache lacks the package, and ends.
            return Ok((executable, argv));
        }
        return Err(not_installed(context, runner, &wish));
    };
    let next = lookup::find(context, program.as_os_str(), &[])?;
    collect.note(format!(
        "`{name}` is left out: `{}` is installed as `{}` and started directly",
        wish.package.display(),
        show(&program)
    ));
    let mut words = vec![program.into_os_string()];
    words.extend(wish.arguments);
    Ok((next, words))
}

fn not_installed(context: &Context<'_>, runner: Runner, wish: &Wish) -> Refusal {
    let package = wish.package.display();
    match runner {
        Runner::Npx => context.refuse(
            format!(
                "`npx` would download `{package}`, and a contained server has no network: it is in no `node_modules` from `{}` upwards, not installed globally and not in the cache of `npx`",
                show(&context.directory)
            ),
            format!("install it once, `npm install -g {package}`, and start it the same way again"),
        ),
        Runner::Uvx => context.refuse(
            format!("`uvx` would download `{package}`, and a contained server has no network: it is no installed tool"),
            format!("install it once, `uv tool install {package}`, and start it the same way again"),
        ),
    }
}

fn read(runner: Runner, words: &[OsString]) -> Read {
    let mut wish = Wish::default();
    let mut packages: Vec<OsString> = Vec::new();
    let mut other = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            wish.program = words.next().cloned();
            break;
        }
        if !bytes.starts_with(b"-") {
            wish.program = Some(word.clone());
            break;
        }
        let (option, value) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) => (&bytes[..at], Some(OsString::from_vec(bytes[at + 1..].to_vec()))),
            None if runner.takes_value(bytes) => (bytes, words.next().cloned()),
            None => (bytes, None),
        };
        match (runner, option) {
            (_, b"--offline") => wish.offline = value.as_deref() != Some(OsStr::new("false")),
            (Runner::Npx, b"-p" | b"--package") | (Runner::Uvx, b"--from") => packages.extend(value),
            (Runner::Npx, b"-c" | b"--call" | b"-w" | b"--workspace" | b"--workspaces" | b"--prefix") => {
                other = true;
            }
            (Runner::Uvx, b"--with" | b"--with-editable" | b"--with-requirements" | b"-w") => other = true,
            _ => {}
        }
    }
    wish.arguments = words.cloned().collect();
    let offline = wish.offline;
    let package = match (packages.as_slice(), &wish.program) {
        ([], Some(program)) => program.clone(),
        ([package], Some(_)) => package.clone(),
        _ => return Read::Other { offline },
    };
    // A directory, an archive, a repository.
    let bytes = package.as_bytes();
    let is_name = !bytes.contains(&b':')
        && !matches!(bytes.first(), None | Some(b'.' | b'/' | b'~'))
        && bytes.iter().filter(|byte| **byte == b'/').count() == usize::from(bytes.starts_with(b"@"));
    if other || !is_name {
        return Read::Other { offline };
    }
    if packages.is_empty() {
        wish.program = None;
    }
    (wish.package, wish.version) = match runner {
        Runner::Npx => split_version(bytes, b"@"),
        Runner::Uvx => split_version(bytes, b"@=<>~!["),
    };
    Read::Wish(wish)
}

/// `@scope/name@1.2.3`, `name==1.2.3`.
fn split_version(package: &[u8], marks: &[u8]) -> (OsString, Option<OsString>) {
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    match package.iter().skip(1).position(|byte| marks.contains(byte)) {
        Some(at) => {
            let version = package[at + 1..].iter().skip_while(|byte| marks.contains(byte));
            let version: Vec<u8> = version.copied().collect();
            (text(&package[..=at]), Some(OsString::from_vec(version)))
        }
        None => (text(package), None),
    }
}

/// Where npm has put a package: above the working directory, globally, or for an earlier `npx`.
fn npm(context: &Context<'_>, npx: &Executable, wish: &Wish) -> Result<Option<PathBuf>, Refusal> {
    let above = context
        .directory
        .ancestors()
        .map(|directory| directory.join("node_modules"));
    let prefix = |path: &Path| {
        path.parent()
            .and_then(Path::parent)
            .map(|prefix| prefix.join("lib/node_modules"))
    };
    let global = [prefix(&npx.path), Some("/usr/local/lib/node_modules".into())];
    let cached = context.home.iter().flat_map(|home| {
        let entries = fs::read_dir(home.join(".npm/_npx"))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .take(MAX_CACHED)
            .map(|entry| entry.path().join("node_modules"))
    });
    let mut other_version = None;
    for modules in above.chain(global.into_iter().flatten()).chain(cached) {
        let directory = modules.join(&wish.package);
        let Some(manifest) = manifest(&directory) else {
            continue;
        };
        let installed = manifest
            .get("version")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !satisfies(installed, wish.version.as_deref()) {
            other_version.get_or_insert_with(|| (directory.clone(), installed.to_owned()));
            continue;
        }
        if let Some(file) = program(&manifest, wish) {
            return Ok(Some(directory.join(file)));
        }
        return Err(context.refuse(
            format!("`{}` has no program that `npx` could choose", show(&directory)),
            "name the server's program itself",
        ));
    }
    match other_version {
        Some((directory, installed)) if !wish.offline => Err(context.refuse(
            format!(
                "`npx` would download version {} of `{}`, and a contained server has no network: `{}` is {installed}",
                wish.version.as_deref().unwrap_or_default().display(),
                wish.package.display(),
                show(&directory)
            ),
            "install the version that is wanted, or leave the version out",
        )),
        _ => Ok(None),
    }
}

/// A version that is written out must be the one. What `latest` or a range means cannot be asked without a network:
/// what is installed has to do.
fn satisfies(installed: &str, wanted: Option<&OsStr>) -> bool {
    let Some(wanted) = wanted.and_then(OsStr::to_str) else {
        return wanted.is_none();
    };
    let is_exact = wanted.split('.').count() == 3 && wanted.starts_with(|first: char| first.is_ascii_digit());
    !is_exact || installed == wanted
}

fn manifest(directory: &Path) -> Option<Value> {
    let found = walk::follow(&directory.join("package.json")).ok()?;
    let mut text = Vec::new();
    File::open(&found.real)
        .ok()?
        .take(MAX_MANIFEST)
        .read_to_end(&mut text)
        .ok()?;
    serde_json::from_slice(&text).ok()
}

/// The file that npm would link: the one asked for, the only one, or the one named as the package.
fn program(manifest: &Value, wish: &Wish) -> Option<PathBuf> {
    let own = Path::new(&wish.package).file_name()?.to_str()?;
    let file = match manifest.get("bin")? {
        Value::String(file) => wish
            .program
            .as_deref()
            .is_none_or(|program| program == own)
            .then_some(file)?,
        Value::Object(programs) => {
            let named = |name: &str| programs.get(name).and_then(Value::as_str);
            match wish.program.as_deref() {
                Some(program) => named(program.to_str()?)?,
                None if programs.len() == 1 => programs.values().next()?.as_str()?,
                None => named(own)?,
            }
        }
        _ => return None,
    };
    let file = Path::new(file.strip_prefix("./").unwrap_or(file));
    // It stays in its package.
    let plain = file
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    (plain && file.components().next().is_some()).then(|| file.to_owned())
}

/// `uv tool install` makes a virtual environment for each tool.
fn uv(context: &Context<'_>, wish: &Wish) -> Option<PathBuf> {
    let tools = context.home.as_ref()?.join(".local/share/uv/tools");
    // Names of packages are compared in this form.
    let package: Vec<u8> = wish
        .package
        .as_bytes()
        .iter()
        .map(|byte| match byte {
            b'_' | b'.' => b'-',
            byte => byte.to_ascii_lowercase(),
        })
        .collect();
    let program = wish.program.as_ref().unwrap_or(&wish.package);
    let path = tools.join(OsStr::from_bytes(&package)).join("bin").join(program);
    walk::follow(&path).is_ok().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn wish(runner: Runner, text: &str) -> Option<Wish> {
        match read(runner, &words(text)) {
            Read::Wish(wish) => Some(wish),
            Read::Other { .. } => None,
        }
    }

    #[test]
    fn what_is_to_be_started_is_read_as_the_runner_reads_it() {
        let plain =
            |package: &str, version: Option<&str>, program: Option<&str>, arguments: &str, offline| {
                Some(Wish {
                    package: package.into(),
                    version: version.map(OsString::from),
                    program: program.map(OsString::from),
                    arguments: words(arguments),
                    offline,
                })
            };
        for (text, expected) in [
            ("server", plain("server", None, None, "", false)),
            (
                "-y @a/b@latest --x /srv",
                plain("@a/b", Some("latest"), None, "--x /srv", false),
            ),
            (
                "--yes --offline server@1.2.3 -y",
                plain("server", Some("1.2.3"), None, "-y", true),
            ),
            ("-p pkg tool arg", plain("pkg", None, Some("tool"), "arg", false)),
            (
                "--package=pkg -- tool --x",
                plain("pkg", None, Some("tool"), "--x", false),
            ),
            ("-- server -p x", plain("server", None, None, "-p x", false)),
            ("-p a -p b tool", None),
            ("-c ls", None),
            ("./here", None),
            ("user/repository", None),
            ("https://example.org/x.tgz", None),
            ("", None),
        ] {
            assert_eq!(wish(Runner::Npx, text), expected, "npx {text}");
        }
        for (text, expected) in [
            (
                "mcp-server-time --zone UTC",
                plain("mcp-server-time", None, None, "--zone UTC", false),
            ),
            (
                "mcp-server-time@latest",
                plain("mcp-server-time", Some("latest"), None, "", false),
            ),
            (
                "--from pkg==1.0 tool x",
                plain("pkg", Some("1.0"), Some("tool"), "x", false),
            ),
            (
                "--python 3.12 --offline tool",
                plain("tool", None, None, "", true),
            ),
            ("--with more tool", None),
            ("--from git+https://example.org/x tool", None),
        ] {
            assert_eq!(wish(Runner::Uvx, text), expected, "uvx {text}");
        }
    }

    #[test]
    fn only_a_version_written_out_is_compared() {
        for (wanted, fits) in [
            (None, true),
            (Some("latest"), true),
            (Some("^1"), true),
            (Some("1"), true),
            (Some("1.2.3"), true),
            (Some("1.2.4"), false),
        ] {
            assert_eq!(satisfies("1.2.3", wanted.map(OsStr::new)), fits, "{wanted:?}");
        }
    }
}
