//! Where the programs under test are: beside the test program, or where the environment says.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

/// The agent: `GUARD_AGENT_BIN`, or `guard-agent` beside the tests.
///
/// # Errors
/// When there is none: the tests do not build the agent themselves.
pub fn agent() -> Result<PathBuf> {
    if let Some(path) = env::var_os("GUARD_AGENT_BIN") {
        return Ok(path.into());
    }
    named("guard-agent").context("build it first: `cargo build -p guard-agent`, or set `GUARD_AGENT_BIN`")
}

/// The probe program.
///
/// # Errors
/// When it is not beside the test program.
pub fn probe() -> Result<PathBuf> {
    named("guard-probe")
}

/// The program that opens a file with its first instruction.
///
/// # Errors
/// When it is not beside the test program.
pub fn first() -> Result<PathBuf> {
    named("guard-first")
}

/// The program that takes Landlock away from what it starts.
///
/// # Errors
/// When it is not beside the test program.
pub fn around() -> Result<PathBuf> {
    named("guard-around")
}

/// The server whose life the tests watch.
///
/// # Errors
/// When it is not beside the test program.
pub fn puppet() -> Result<PathBuf> {
    named("guard-puppet")
}

/// The server that writes and hears what the test wants.
///
/// # Errors
/// When it is not beside the test program.
pub fn scripted() -> Result<PathBuf> {
    named("guard-scripted")
}

/// The gateway of a session with a sandbox a call.
///
/// # Errors
/// When it is not beside the test program.
pub fn caller() -> Result<PathBuf> {
    named("guard-caller")
}

/// The program that makes the calls it is told to.
///
/// # Errors
/// When it is not beside the test program.
pub fn observe() -> Result<PathBuf> {
    named("guard-observe")
}

fn named(name: &str) -> Result<PathBuf> {
    let test = env::current_exe().context("failed to find the test program itself")?;
    // Cargo puts tests in `deps/`, one below the programs; in a virtual machine all lie together.
    for dir in test.ancestors().skip(1).take(2) {
        let path = dir.join(name);
        if path.is_file() {
            return Ok(path);
        }
    }
    bail!("no program `{name}` beside `{}`", test.display())
}

/// A file of this package's source tree.
#[must_use]
pub fn source(path: &str) -> PathBuf {
    env::var_os("GUARD_TESTS_DIR")
        .map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf(),
            PathBuf::from,
        )
        .join(path)
}

/// Finds a program as a shell would.
#[must_use]
pub fn which(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}
