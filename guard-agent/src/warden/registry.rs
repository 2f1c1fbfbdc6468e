//! One small file a live sandbox: what a reaper or the next warden must end when this one is gone.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::octets::Octets;

/// Written before the sandbox's cgroup is made, removed after its exit is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub session: String,
    /// The call it is for, in a session with a sandbox a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    pub server: String,
    pub cgroup: Octets,
    pub audit: Octets,
    /// Microseconds since 1970.
    pub started_us: i64,
    /// Whether a launch record was written: then an exit record is owed.
    pub launched: bool,
    /// Where there is no cgroup: the sandbox's init, and when it started, which no later process with its pid has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<(i32, u64)>,
}

fn directory(state: &Path) -> PathBuf {
    state.join("sessions")
}

fn file(state: &Path, entry: &Entry) -> PathBuf {
    let name = super::subject::name(&entry.session, entry.call);
    directory(state).join(format!("{name}.json"))
}

pub fn prepare(state: &Path) -> io::Result<()> {
    match fs::create_dir(directory(state)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Writes (or replaces) an entry; whole or not at all.
pub fn write(state: &Path, entry: &Entry) -> io::Result<()> {
    let whole = file(state, entry);
    let part = whole.with_extension("part");
    let mut out = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    out.write_all(&serde_json::to_vec(entry)?)?;
    fs::rename(&part, &whole)
}

pub fn remove(state: &Path, entry: &Entry) -> io::Result<()> {
    match fs::remove_file(file(state, entry)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// All entries. An unreadable one is still an entry: its name is the session's.
pub fn entries(state: &Path) -> io::Result<Vec<Entry>> {
    let listing = match fs::read_dir(directory(state)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut entries = Vec::new();
    for item in listing {
        let path = item?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => {}
            Some("part") => {
                fs::remove_file(&path)?;
                continue;
            }
            _ => continue,
        }
        let bytes = fs::read(&path)?;
        match serde_json::from_slice(&bytes) {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "session file cannot be read; removed");
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(entries)
}
