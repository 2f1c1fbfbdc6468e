//! Stock Debian cloud kernels: which package is the newest of a series, and its files in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::modules::Modules;
use crate::apt::{self, Index, Package};

pub(crate) const BOOKWORM: &[&str] = &["bookworm", "bookworm-updates", "bookworm-security"];

/// Where a series is to be found: `(series, folder of the package lists, suites)`.
const SERIES: &[(&str, &str, &[&str])] = &[
    ("5.10", "bullseye", &["bullseye", "bullseye-security"]),
    ("6.1", "bookworm", BOOKWORM),
    ("6.12", "trixie", &["trixie", "trixie-updates", "trixie-security"]),
];
/// Every other series, and `newest`.
const RECENT: (&str, &[&str]) = ("recent", &["trixie-backports", "sid"]);
pub(crate) const NEWEST: &str = "newest";
const REFRESH: Duration = Duration::from_secs(24 * 3600);

/// A kernel unpacked in the cache.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// Upstream version as in `6.1.192`, for people.
    pub(crate) version: String,
    pub(crate) vmlinuz: PathBuf,
    pub(crate) modules: Modules,
}

/// What was chosen for a series, kept for a day.
#[derive(Debug, Serialize, Deserialize)]
struct Chosen {
    folder: String,
    version: String,
}

/// The newest kernel of a series, fetched when it is not in the cache.
pub(crate) fn get(cache: &Path, series: &str) -> Result<Kernel> {
    if series != NEWEST && !is_series(series) {
        bail!("`{series}` is no kernel series: give two numbers as in `6.12`, or `{NEWEST}`");
    }
    let _lock = super::lock(cache)?;
    let note = cache.join(format!("series-{series}.json"));
    let known = known(cache, &note);
    if let Some((kernel, age)) = &known
        && *age < REFRESH
    {
        return Ok(kernel.clone());
    }
    match fetch(cache, series) {
        Ok(chosen) => {
            let text = serde_json::to_vec(&chosen).context("encode the choice")?;
            fs::write(&note, text).with_context(|| format!("write `{}`", note.display()))?;
            open(cache, &chosen)
        }
        Err(error) => match known {
            Some((kernel, _)) => {
                eprintln!("[vm {}] using the kernel in the cache: {error:#}", kernel.version);
                Ok(kernel)
            }
            None => Err(error.context(format!("get a Debian cloud kernel of series `{series}`"))),
        },
    }
}

fn is_series(text: &str) -> bool {
    text.split_once('.')
        .is_some_and(|(a, b)| [a, b].iter().all(|part| part.parse::<u16>().is_ok()))
}

fn known(cache: &Path, note: &Path) -> Option<(Kernel, Duration)> {
    let chosen: Chosen = serde_json::from_slice(&fs::read(note).ok()?).ok()?;
    let at = fs::metadata(note).ok()?.modified().ok()?;
    let age = SystemTime::now().duration_since(at).unwrap_or_default();
    Some((open(cache, &chosen).ok()?, age))
}

fn fetch(cache: &Path, series: &str) -> Result<Chosen> {
    let (lists, suites) = SERIES
        .iter()
        .find(|(name, _, _)| *name == series)
        .map_or(RECENT, |(_, lists, suites)| (*lists, *suites));
    let index = Index::open(&cache.join("index").join(lists), suites)?;
    let packages = index.search("^linux-(image|binary|modules)-[0-9].*-cloud-amd64$")?;
    let Some(image) = newest(&packages, series)? else {
        bail!(
            "{} have no `linux-image-{series}*-cloud-amd64`",
            suites.join(", ")
        );
    };
    let folder = format!("{}_{}", image.name, image.version);
    let chosen = Chosen {
        folder,
        version: upstream(&image.version).to_owned(),
    };
    let target = cache.join("kernels").join(&chosen.folder);
    if !target.join("vmlinuz").exists() {
        let fresh = tempfile::tempdir_in(cache).context("create a download folder")?;
        unpack(&index, &packages, image, fresh.path())?;
        fs::create_dir_all(cache.join("kernels")).context("create the kernels folder")?;
        let _ = fs::remove_dir_all(&target);
        fs::rename(fresh.path().join("kernel"), &target)
            .with_context(|| format!("move the kernel to `{}`", target.display()))?;
    }
    Ok(chosen)
}

/// Since 7.x the image package is empty and depends on one with the kernel and one with its modules.
fn unpack(index: &Index, packages: &[Package], image: &Package, work: &Path) -> Result<()> {
    let parts = packages.iter().filter(|package| {
        *package == image || (package.version == image.version && image.depends.contains(&package.name))
    });
    let tree = work.join("tree");
    for package in parts {
        let deb = index.download(package, work)?;
        apt::extract(
            &deb,
            &tree,
            &["./boot/vmlinuz-*", "./lib/modules/*", "./usr/lib/modules/*"],
        )?;
    }
    let kernel = work.join("kernel");
    fs::create_dir(&kernel).context("create the kernel's folder")?;
    let modules =
        only_entry(&tree.join("lib/modules")).or_else(|_| only_entry(&tree.join("usr/lib/modules")))?;
    let vmlinuz = only_entry(&tree.join("boot")).unwrap_or_else(|_| modules.join("vmlinuz"));
    fs::rename(&vmlinuz, kernel.join("vmlinuz")).with_context(|| format!("no kernel in `{}`", image.name))?;
    fs::rename(&modules, kernel.join("modules")).context("move the modules")
}

fn only_entry(dir: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(dir).with_context(|| format!("list `{}`", dir.display()))?;
    let first = entries
        .next()
        .with_context(|| format!("`{}` is empty", dir.display()))?;
    Ok(first.context("list a folder")?.path())
}

fn open(cache: &Path, chosen: &Chosen) -> Result<Kernel> {
    let dir = cache.join("kernels").join(&chosen.folder);
    let vmlinuz = dir.join("vmlinuz");
    if !vmlinuz.is_file() {
        bail!("`{}` is gone", vmlinuz.display());
    }
    let modules = Modules::open(&dir.join("modules"))?;
    Ok(Kernel {
        version: chosen.version.clone(),
        vmlinuz,
        modules,
    })
}

fn newest<'a>(packages: &'a [Package], series: &str) -> Result<Option<&'a Package>> {
    let mut best: Option<&Package> = None;
    for package in packages
        .iter()
        .filter(|package| is_image_of(&package.name, series))
    {
        if match best {
            Some(best) => apt::newer(&package.version, &best.version)?,
            None => true,
        } {
            best = Some(package);
        }
    }
    Ok(best)
}

fn is_image_of(name: &str, series: &str) -> bool {
    let Some(rest) = name.strip_prefix("linux-image-") else {
        return false;
    };
    // `linux-image-6.12-cloud-amd64` names a series, not a kernel.
    let full = rest
        .split(['-', '+'])
        .next()
        .is_some_and(|version| version.matches('.').count() >= 2);
    full && (series == NEWEST
        || rest
            .strip_prefix(series)
            .is_some_and(|rest| rest.starts_with('.')))
}

/// `6.1.192` of `6.1.192-3`.
fn upstream(version: &str) -> &str {
    version.split(['-', '~']).next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            depends: Vec::new(),
        }
    }

    #[test]
    fn the_newest_of_a_series_is_chosen_by_debian_version_order() {
        let packages = [
            package("linux-image-6.1.0-9-cloud-amd64", "6.1.99-1"),
            package("linux-image-6.1.0-57-cloud-amd64", "6.1.192-3"),
            package("linux-image-6.1.0-57-cloud-amd64", "6.1.192-1"),
            package("linux-image-6.12.9+deb13-cloud-amd64", "6.12.9-1"),
            package("linux-image-6.12.118+deb13-cloud-amd64", "6.12.118-1"),
            package("linux-image-6.12-cloud-amd64", "6.12.200-1"),
            package("linux-binary-7.3.4+deb13-cloud-amd64", "7.3.4-1"),
            package("linux-image-7.3.4+deb13-cloud-amd64", "7.3.4-1~bpo13+1"),
        ];
        let choice = |series| {
            newest(&packages, series)
                .unwrap()
                .map(|package| package.version.as_str())
        };
        assert_eq!(choice("6.1"), Some("6.1.192-3"));
        assert_eq!(choice("6.12"), Some("6.12.118-1"));
        assert_eq!(choice(NEWEST), Some("7.3.4-1~bpo13+1"));
        assert_eq!(choice("6.6"), None);
    }

    #[test]
    fn series_are_two_numbers() {
        assert!(is_series("6.1"));
        for wrong in ["6", "6.", "six.one", "6.1.0", "../6.1"] {
            assert!(!is_series(wrong), "{wrong}");
        }
    }

    #[test]
    fn upstream_drops_the_debian_revision() {
        assert_eq!(upstream("6.1.192-3"), "6.1.192");
        assert_eq!(upstream("7.3.4-1~bpo13+1"), "7.3.4");
    }
}
