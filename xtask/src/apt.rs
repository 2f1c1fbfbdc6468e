//! Packages through apt: installing tools, and fetching files of suites this machine does not use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const REFRESH: Duration = Duration::from_secs(24 * 3600);

/// Installs the Debian packages whose program is not in `PATH`, given as `(program, package)`.
pub(crate) fn ensure_programs(wanted: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|(program, _)| self::program(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        install(&missing)
    }
}

/// Where a program is; also where only root's `PATH` leads.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// Installs packages from the machine's own sources.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    eprintln!("[apt] installing {list}");
    let args = ["install", "--yes", "--no-install-recommends"];
    if quiet(Command::new("apt-get").args(args).args(packages)).is_ok() {
        return Ok(());
    }
    eprintln!("[apt] not in the package lists, refreshing them");
    quiet(Command::new("apt-get").arg("update")).context("refresh the package lists")?;
    quiet(Command::new("apt-get").args(args).args(packages))
        .with_context(|| format!("install {list}; as root: `apt-get install {list}`"))
}

fn quiet(command: &mut Command) -> Result<()> {
    output(command.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

/// Runs a command to its end; its error stream is part of the error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start `{name}`"))?;
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        let tail: Vec<&str> = text.lines().rev().take(5).collect();
        bail!(
            "`{name}` ended with {}: {}",
            done.status,
            tail.into_iter().rev().collect::<Vec<_>>().join(" / ")
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// One package of an [`Index`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Names only, alternatives and versions dropped.
    pub(crate) depends: Vec<String>,
}

/// Package lists of chosen Debian suites, apart from the machine's own apt.
pub(crate) struct Index {
    config: PathBuf,
    dir: PathBuf,
}

impl Index {
    /// Opens the index in `dir`, refreshing its lists when they are older than a day. Without a network the
    /// lists there are serve on; without lists this fails.
    pub(crate) fn open(dir: &Path, suites: &[&str]) -> Result<Self> {
        let index = Self {
            config: dir.join("apt.conf"),
            dir: dir.to_owned(),
        };
        if !Path::new(KEYRING).exists() {
            install(&["debian-archive-keyring"])?;
        }
        index.configure(suites)?;
        let stamp = dir.join("refreshed");
        let age = fs::metadata(&stamp)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age < REFRESH) {
            return Ok(index);
        }
        eprintln!("[apt] reading the package lists of {}", suites.join(", "));
        match output(index.apt("apt-get").args(["update", "--error-on=any"])) {
            Ok(_) => fs::write(&stamp, "").with_context(|| format!("write `{}`", stamp.display()))?,
            Err(error) if age.is_some() => eprintln!("[apt] using the lists there are: {error:#}"),
            Err(error) => {
                return Err(error.context(format!("read the package lists of {}", suites.join(", "))));
            }
        }
        Ok(index)
    }

    fn configure(&self, suites: &[&str]) -> Result<()> {
        for sub in ["state/lists/partial", "cache/archives/partial"] {
            let path = self.dir.join(sub);
            fs::create_dir_all(&path).with_context(|| format!("create `{}`", path.display()))?;
        }
        let (main, security) = mirrors();
        let sources: String = suites
            .iter()
            .map(|suite| {
                let uri = if suite.ends_with("-security") {
                    &security
                } else {
                    &main
                };
                format!("deb [signed-by={KEYRING}] {uri} {suite} main\n")
            })
            .collect();
        let dir = self.dir.display();
        // The machine's hooks and caches stay out of it; its proxy and credentials stay in.
        let config = format!(
            "Dir::Etc::sourcelist \"{dir}/sources.list\";\nDir::Etc::sourceparts \"-\";\n\
             Dir::State \"{dir}/state\";\nDir::State::status \"/dev/null\";\nDir::Cache \"{dir}/cache\";\n\
             Dir::Cache::pkgcache \"pkgcache.bin\";\nDir::Cache::srcpkgcache \"srcpkgcache.bin\";\n\
             #clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n\
             #clear Acquire::IndexTargets::deb::DEP-11;\n#clear Acquire::IndexTargets::deb::DEP-11-icons;\n\
             #clear Acquire::IndexTargets::deb::DEP-11-icons-small;\n\
             #clear Acquire::IndexTargets::deb::DEP-11-icons-large;\n\
             #clear Acquire::IndexTargets::deb::DEP-11-icons-hidpi;\n\
             #clear Acquire::IndexTargets::deb::DEP-11-icons-large-hidpi;\n\
             Acquire::Languages \"none\";\nAPT::Architecture \"amd64\";\nAPT::Architectures \"amd64\";\n\
             APT::Sandbox::User \"\";\n"
        );
        for (name, text) in [("sources.list", &sources), ("apt.conf", &config)] {
            let path = self.dir.join(name);
            fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))?;
        }
        Ok(())
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(&self.config);
        command
    }

    /// Every version of the packages whose name matches the regular expression.
    pub(crate) fn search(&self, pattern: &str) -> Result<Vec<Package>> {
        let found = output(self.apt("apt-cache").args(["search", "--names-only", pattern]))?;
        let names: Vec<&str> = found
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        Ok(parse(&output(
            self.apt("apt-cache").args(["show", "--"]).args(names),
        )?))
    }

    /// Downloads a package into `dir` and returns its path. apt checks the hash against the signed index.
    pub(crate) fn download(&self, package: &Package, dir: &Path) -> Result<PathBuf> {
        let what = format!("{}={}", package.name, package.version);
        eprintln!("[apt] downloading {} {}", package.name, package.version);
        fs::create_dir_all(dir).with_context(|| format!("create `{}`", dir.display()))?;
        output(self.apt("apt-get").args(["download", &what]).current_dir(dir))
            .with_context(|| format!("download `{what}`"))?;
        let start = format!("{}_", package.name);
        for entry in fs::read_dir(dir).with_context(|| format!("list `{}`", dir.display()))? {
            let path = entry.context("list the download folder")?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with(&start) && name.ends_with(".deb") {
                return Ok(path);
            }
        }
        bail!("`apt-get download {what}` left no file in `{}`", dir.display())
    }
}

/// Unpacks the paths of a package that match the tar patterns.
pub(crate) fn extract(deb: &Path, into: &Path, patterns: &[&str]) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("create `{}`", into.display()))?;
    let mut reader = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdout(Stdio::piped())
        .spawn()
        .context("start `dpkg-deb`")?;
    let from = reader.stdout.take().context("`dpkg-deb` has no output")?;
    let tar = Command::new("tar")
        .args(["--extract", "--wildcards", "--no-same-owner", "--directory"])
        .arg(into)
        .args(patterns)
        .stdin(from)
        .output()
        .context("start `tar`")?;
    let unpacked = reader.wait().context("wait for `dpkg-deb`")?;
    // tar ends with 2 when a pattern matches nothing: kernels differ in which of them they have.
    let text = String::from_utf8_lossy(&tar.stderr);
    let serious = text
        .lines()
        .any(|line| !line.contains("Not found in archive") && !line.contains("previous errors"));
    ensure!(
        unpacked.success() && (tar.status.success() || !serious),
        "unpack `{}`: {text}",
        deb.display()
    );
    Ok(())
}

/// Whether Debian version `a` is newer than `b`.
pub(crate) fn newer(a: &str, b: &str) -> Result<bool> {
    let status = Command::new("dpkg")
        .args(["--compare-versions", a, "gt", b])
        .status()
        .context("start `dpkg`")?;
    Ok(status.success())
}

/// The machine's Debian mirrors, main and security, as apt itself reads its sources.
fn mirrors() -> (String, String) {
    let format = "$(REPO_URI) $(RELEASE)";
    let targets =
        output(Command::new("apt-get").args(["indextargets", "--no-release-info", "--format", format]));
    choose_mirrors(&targets.unwrap_or_default())
}

fn choose_mirrors(targets: &str) -> (String, String) {
    let mut main = None;
    let mut security = None;
    for line in targets.lines() {
        let Some((uri, release)) = line.split_once(' ') else {
            continue;
        };
        let uri = uri.trim_end_matches('/');
        if release.ends_with("-security") && uri.ends_with("debian-security") {
            security.get_or_insert_with(|| uri.to_owned());
        } else if uri.ends_with("/debian") {
            main.get_or_insert_with(|| uri.to_owned());
        }
    }
    (
        main.unwrap_or_else(|| "http://deb.debian.org/debian".to_owned()),
        security.unwrap_or_else(|| "http://deb.debian.org/debian-security".to_owned()),
    )
}

fn parse(stanzas: &str) -> Vec<Package> {
    stanzas
        .split("\n\n")
        .filter_map(|stanza| {
            let field = |name: &str| {
                stanza
                    .lines()
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
            };
            let depends = field("Depends").unwrap_or_default();
            let names = depends
                .split([',', '|'])
                .filter_map(|part| part.split_whitespace().next());
            Some(Package {
                name: field("Package")?,
                version: field("Version")?,
                depends: names.map(str::to_owned).collect(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas_become_packages() {
        let text = "Package: linux-image-7.3\nVersion: 7.3.4-1~bpo13+1\n\
                    Depends: dracut | initramfs-tools (>= 0.120), linux-binary-7.3 (= 7.3.4-1~bpo13+1)\n\n\
                    Package: plain\nVersion: 1\n\n";
        let packages = parse(text);
        assert_eq!(packages.len(), 2);
        assert_eq!(
            packages[0].depends,
            ["dracut", "initramfs-tools", "linux-binary-7.3"]
        );
        assert_eq!(packages[1].depends, Vec::<String>::new());
    }

    #[test]
    fn mirrors_come_from_the_machine_where_it_is_debian() {
        let local =
            "http://mirror.test/debian/ trixie\nhttp://mirror.test/debian-security/ trixie-security\n";
        assert_eq!(
            choose_mirrors(local),
            (
                "http://mirror.test/debian".to_owned(),
                "http://mirror.test/debian-security".to_owned()
            )
        );
        let other =
            "http://archive.ubuntu.com/ubuntu/ noble\nhttps://deb.nodesource.com/node_20.x/ nodistro\n";
        assert_eq!(
            choose_mirrors(other),
            (
                "http://deb.debian.org/debian".to_owned(),
                "http://deb.debian.org/debian-security".to_owned()
            )
        );
    }

    #[test]
    fn versions_follow_debian_order() {
        for (a, b, expected) in [
            ("6.1.192-3", "6.1.99-1", true),
            ("6.12.118-1~bpo12+1", "6.12.118-1", false),
            ("7.3.4-1~bpo13+1", "7.2.13-1", true),
            ("6.1.1-1", "6.1.1-1", false),
        ] {
            assert_eq!(newer(a, b).unwrap(), expected, "{a} against {b}");
        }
    }
}
