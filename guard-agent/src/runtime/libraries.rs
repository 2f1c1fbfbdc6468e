//! Finds shared libraries where the dynamic loader would, in its order.
//!
//! glibc: DT_RPATH of the requester and of those that loaded it, DT_RUNPATH, `/etc/ld.so.cache`, default
//! directories. musl: both paths, then its own list. Every CPU variant (`glibc-hwcaps`) counts, because
//! which one is taken depends on the processor. `LD_LIBRARY_PATH` is not passed on, so it is not read.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    rc::Rc,
};

use super::{
    collect::{Collector, part_of},
    elf::{self, BadElf, Elf},
    walk::{self, Found, show},
};

#[cfg(target_arch = "x86_64")]
const DEFAULTS: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
#[cfg(target_arch = "aarch64")]
const DEFAULTS: &[&str] = &[
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// The high byte of a cache entry's flags: 64-bit of this machine.
#[cfg(target_arch = "x86_64")]
const CACHE_MACHINE: u32 = 0x0303;
#[cfg(target_arch = "aarch64")]
const CACHE_MACHINE: u32 = 0x0a03;

const CACHE: &str = "/etc/ld.so.cache";
const MUSL_DEFAULTS: &str = "/lib:/usr/local/lib:/usr/lib";
/// glibc opens it by name when a thread ends or is cancelled, and aborts the process without it.
const UNWINDER: &str = "libgcc_s.so.1";

/// What one object needs, found or not.
#[derive(Debug, Default)]
pub(super) struct Closure {
    /// Names that are loaded after this, for objects opened later into the same process.
    pub(super) names: HashSet<OsString>,
    pub(super) missing: Vec<String>,
}

struct Loaded {
    /// The path it was found by: `$ORIGIN` is its directory.
    path: PathBuf,
    elf: Rc<Elf>,
    /// DT_RPATH directories of the objects that asked for this one, nearest first.
    inherited: Rc<Vec<PathBuf>>,
}

/// A readable ELF file of this machine and where it really lies.
type Object = (Rc<Elf>, Rc<Found>);

#[derive(Default)]
pub(super) struct Libraries {
    musl: Option<Vec<PathBuf>>,
    cache: Option<HashMap<Vec<u8>, Vec<PathBuf>>>,
    known: HashMap<PathBuf, Option<Object>>,
    standard: HashMap<OsString, Rc<Vec<PathBuf>>>,
    variants: HashMap<PathBuf, Rc<Vec<PathBuf>>>,
    /// Why candidates that exist were passed over, for the error about a missing library.
    passed_over: Vec<String>,
}

impl Libraries {
    /// For programs started by this ELF loader.
    pub(super) fn new(loader: &Path) -> Self {
        let mut libraries = Self::default();
        let name = loader.file_name().unwrap_or_default().as_bytes();
        if let Some(machine) = name
            .strip_prefix(b"ld-musl-")
            .and_then(|rest| rest.split(|b| *b == b'.').next())
        {
            let file =
                Path::new("/etc").join(format!("ld-musl-{}.path", OsStr::from_bytes(machine).display()));
            let list = fs::read(&file).unwrap_or_else(|_| MUSL_DEFAULTS.into());
            let directories = list
                .split(|byte| *byte == b':' || *byte == b'\n')
                .filter(|part| !part.is_empty());
            libraries.musl = Some(
                directories
                    .map(|part| PathBuf::from(OsStr::from_bytes(part)))
                    .collect(),
            );
        }
        libraries
    }

    /// Grants the loader's own cache of places, so that it finds in the view what was found here.
    pub(super) fn grant_cache(&self, collect: &mut Collector) {
        if self.musl.is_none() {
            collect.optional_file(Path::new(CACHE), "the ELF loader's list of libraries");
        }
    }

    /// Grants everything `elf` (at `path`) loads at its start. `present` is what its process has already.
    pub(super) fn closure(
        &mut self,
        path: &Path,
        elf: Rc<Elf>,
        present: &HashSet<OsString>,
        collect: &mut Collector,
    ) -> Closure {
        let reason = part_of("library", path);
        let mut closure = Closure::default();
        let mut queue = VecDeque::new();
        queue.push_back(Loaded {
            path: path.to_owned(),
            elf,
            inherited: Rc::default(),
        });
        while let Some(object) = queue.pop_front() {
            let mut wanted: Vec<&OsStr> = object.elf.needed.iter().map(OsString::as_os_str).collect();
            let unwinder =
                self.musl.is_none() && object.elf.soname.as_deref() == Some(OsStr::new("libc.so.6"));
            if unwinder {
                wanted.push(OsStr::new(UNWINDER));
            }
            let chain = rpath_chain(&object);
            for name in wanted {
                if present.contains(name) || !closure.names.insert(name.to_owned()) {
                    continue;
                }
                self.passed_over.clear();
                let found = self.find(name, &object, &chain);
                if found.is_empty() && name != UNWINDER {
                    closure.missing.push(self.describe_missing(name));
                }
                for (path, elf, place) in found {
                    collect.library(&place, reason.clone());
                    closure.names.extend(elf.soname.clone());
                    queue.push_back(Loaded {
                        path,
                        elf,
                        inherited: Rc::clone(&chain),
                    });
                }
            }
        }
        closure
    }

    fn describe_missing(&self, name: &OsStr) -> String {
        match self.passed_over.as_slice() {
            [] => format!("`{}`", name.display()),
            why => format!("`{}` ({})", name.display(), why.join("; ")),
        }
    }

    fn find(&mut self, name: &OsStr, by: &Loaded, chain: &[PathBuf]) -> Vec<(PathBuf, Rc<Elf>, Rc<Found>)> {
        if name.as_bytes().contains(&b'/') {
            return expand(name.as_bytes(), &by.path)
                .and_then(|path| self.accept(&path).map(|(elf, found)| (path, elf, found)))
                .into_iter()
                .collect();
        }
        let runpath = by
            .elf
            .runpath
            .as_deref()
            .map(|list| directories(list, &by.path))
            .unwrap_or_default();
        for directory in chain.iter().chain(&runpath) {
            let hits = self.in_directory(directory, name);
            if !hits.is_empty() {
                return hits;
            }
        }
        if by.elf.no_default {
            return Vec::new();
        }
        let candidates = self.standard(name);
        let mut hits = Vec::new();
        for path in candidates.iter() {
            if let Some((elf, found)) = self.accept(path) {
                hits.push((path.clone(), elf, found));
            }
        }
        hits
    }

    /// The places that do not depend on who asks.
    fn standard(&mut self, name: &OsStr) -> Rc<Vec<PathBuf>> {
        if let Some(known) = self.standard.get(name) {
            return Rc::clone(known);
        }
        let mut candidates = Vec::new();
        if let Some(directories) = &self.musl {
            candidates.extend(directories.iter().map(|directory| directory.join(name)));
            candidates.retain(|path| path.exists());
            candidates.truncate(1);
        } else {
            let cache = self
                .cache
                .get_or_insert_with(|| fs::read(CACHE).map(|raw| parse_cache(&raw)).unwrap_or_default());
            candidates.extend(cache.get(name.as_bytes()).into_iter().flatten().cloned());
            if candidates.is_empty() {
                for directory in DEFAULTS {
                    let hits = self.in_directory(Path::new(directory), name);
                    if !hits.is_empty() {
                        candidates.extend(hits.into_iter().map(|(path, ..)| path));
                        break;
                    }
                }
            }
        }
        let candidates = Rc::new(candidates);
        self.standard.insert(name.to_owned(), Rc::clone(&candidates));
        candidates
    }

    fn in_directory(&mut self, directory: &Path, name: &OsStr) -> Vec<(PathBuf, Rc<Elf>, Rc<Found>)> {
        let places = Rc::clone(
            self.variants
                .entry(directory.to_owned())
                .or_insert_with(|| Rc::new(with_variants(directory))),
        );
        let mut hits = Vec::new();
        for place in places.iter() {
            let path = place.join(name);
            if let Some((elf, found)) = self.accept(&path) {
                hits.push((path, elf, found));
            }
        }
        hits
    }

    /// A file the loader would take: there, readable, of this machine. Others it skips, as we do.
    fn accept(&mut self, path: &Path) -> Option<Object> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let answer = match examine(path) {
            Ok(object) => object,
            Err(why) => {
                self.passed_over.push(why);
                None
            }
        };
        self.known.insert(path.to_owned(), answer.clone());
        answer
    }
}

/// Nothing there is no reason worth telling; something that cannot be used is.
fn examine(path: &Path) -> Result<Option<Object>, String> {
    let found = match walk::follow(path) {
        Ok(found) if found.metadata.is_file() => found,
        Ok(_) => return Ok(None),
        Err(lost) if lost.is_absent() => return Ok(None),
        Err(lost) => return Err(lost.to_string()),
    };
    match File::open(&found.real)
        .map_err(BadElf::from)
        .and_then(|file| elf::read(&file))
    {
        Ok(elf) => Ok(Some((Rc::new(elf), Rc::new(found)))),
        Err(bad) => Err(format!("`{}`: {bad}", show(path))),
    }
}

/// DT_RPATH directories that count for what `object` asks for: none when it has a DT_RUNPATH.
fn rpath_chain(object: &Loaded) -> Rc<Vec<PathBuf>> {
    match (&object.elf.runpath, &object.elf.rpath) {
        (Some(_), _) => Rc::default(),
        (None, None) => Rc::clone(&object.inherited),
        (None, Some(rpath)) => {
            let mut chain = directories(rpath, &object.path);
            chain.extend(object.inherited.iter().cloned());
            Rc::new(chain)
        }
    }
}

fn directories(list: &OsStr, object: &Path) -> Vec<PathBuf> {
    list.as_bytes()
        .split(|byte| *byte == b':')
        .filter_map(|part| expand(part, object))
        .collect()
}

/// Replaces `$ORIGIN`. Other tokens depend on the loader's build and are not followed, nor are relative paths.
fn expand(part: &[u8], object: &Path) -> Option<PathBuf> {
    let origin = object.parent()?.as_os_str().as_bytes();
    let mut out = Vec::new();
    let mut rest = part;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..at]);
        let tail = &rest[at..];
        rest = tail
            .strip_prefix(b"$ORIGIN")
            .or_else(|| tail.strip_prefix(b"${ORIGIN}"))?;
        out.extend_from_slice(origin);
    }
    out.extend_from_slice(rest);
    let path = PathBuf::from(OsString::from_vec(out));
    path.is_absolute().then_some(path)
}

/// A library directory and its `glibc-hwcaps` subdirectories.
fn with_variants(directory: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = fs::read_dir(directory.join("glibc-hwcaps"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    places.push(directory.to_owned());
    places
}

/// Library name → paths, from the cache in its current form (also behind the old form's table).
fn parse_cache(raw: &[u8]) -> HashMap<Vec<u8>, Vec<PathBuf>> {
    const OLD: &[u8] = b"ld.so-1.7.0\0";
    const NEW: &[u8] = b"glibc-ld.so.cache1.1";
    let number = |bytes: &[u8], at: usize| {
        bytes
            .get(at..at + 4)
            .and_then(|four| four.try_into().ok())
            .map(u32::from_le_bytes)
    };
    let skip = match raw.strip_prefix(OLD).and_then(|_| number(raw, OLD.len())) {
        Some(count) => (16 + count as usize * 12).next_multiple_of(8),
        None => 0,
    };
    let mut places: HashMap<Vec<u8>, Vec<PathBuf>> = HashMap::new();
    let Some(body) = raw.get(skip..).filter(|body| body.starts_with(NEW)) else {
        return places;
    };
    let count = number(body, NEW.len()).unwrap_or(0) as usize;
    let text = |at: u32| {
        body.get(at as usize..)
            .and_then(|rest| rest.split(|byte| *byte == 0).next())
    };
    for entry in body.get(48..).unwrap_or_default().chunks_exact(24).take(count) {
        let (Some(flags), Some(key), Some(value)) = (number(entry, 0), number(entry, 4), number(entry, 8))
        else {
            continue;
        };
        if flags != CACHE_MACHINE {
            continue;
        }
        if let (Some(key), Some(value)) = (text(key), text(value)) {
            places
                .entry(key.to_owned())
                .or_default()
                .push(PathBuf::from(OsStr::from_bytes(value)));
        }
    }
    places
}
