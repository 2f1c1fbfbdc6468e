//! What passed between a client and the process it started, recorded by `tee` on both pipes, one directory a start.
//!
//! The process that the client started becomes the server or the agent itself, so that the client's signals reach that
//! one, and the two recorders are nobody's children.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// One start of the server: what its client wrote, and what its client got.
#[derive(Debug)]
pub(crate) struct Start {
    pub client: Vec<u8>,
    pub server: Vec<u8>,
}

/// A program without arguments that is `command` to whoever starts it, recorded below `record` where that is wanted.
pub(crate) fn launcher(place: &Path, command: &Command, record: Option<&Path>) -> Result<()> {
    let mut words = vec![quoted(OsStr::new("env"))];
    for (name, value) in command.get_envs() {
        let value = value.context("variables are set, not removed")?;
        let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
        words.push(quoted(OsStr::from_bytes(&pair)));
    }
    words.push(quoted(command.get_program()));
    words.extend(command.get_args().map(quoted));
    let words = words.join(" ");
    let script = match record {
        None => format!("#!/bin/bash\nexec {words}\n"),
        Some(record) => format!(
            "#!/bin/bash\nset -e\nat={record}; n=100\nwhile ! mkdir \"$at/$n\" 2>/dev/null; do n=$((n+1)); done\n\
             at=\"$at/$n\"; mkfifo \"$at/to\" \"$at/from\"; exec 3<&0\n\
             (tee \"$at/client\" <&3 >\"$at/to\" & tee \"$at/server\" <\"$at/from\" 3<&- &)\n\
             exec {words} <\"$at/to\" >\"$at/from\" 3<&-\n",
            record = quoted(record.as_os_str()),
        ),
    };
    fs::write(place, script)?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// For a shell; nothing in single quotes means anything to it but their end.
fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

/// Every start on record, in the order of the starts.
pub(crate) fn starts(record: &Path) -> Result<Vec<Start>> {
    let mut places: Vec<PathBuf> = fs::read_dir(record)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    places.sort();
    let read = |place: &PathBuf, name: &str| {
        let path = place.join(name);
        fs::read(&path).with_context(|| format!("nothing recorded in `{}`", path.display()))
    };
    let start = |place: &PathBuf| {
        Ok(Start {
            client: read(place, "client")?,
            server: read(place, "server")?,
        })
    };
    places.iter().map(start).collect()
}

/// A request that is a call to the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub method: String,
    /// The tool's or prompt's name, or the address of what is read.
    pub name: String,
    pub arguments: Value,
    pub status: &'static str,
}

impl Start {
    pub(crate) fn messages(text: &[u8]) -> Result<Vec<Value>> {
        text.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| Ok(serde_json::from_slice(line)?))
            .collect()
    }

    /// The calls that the client made, in their order, and how each ended.
    pub(crate) fn calls(&self) -> Result<Vec<Call>> {
        let mut ends: BTreeMap<String, &'static str> = BTreeMap::new();
        let asked = Self::messages(&self.client)?;
        for message in Self::messages(&self.server)? {
            let failed = message.get("error").is_some() || message["result"]["isError"] == true;
            if message.get("method").is_none() {
                ends.insert(message["id"].to_string(), if failed { "error" } else { "ok" });
            }
        }
        for message in &asked {
            if message["method"] == "notifications/cancelled" {
                ends.entry(message["params"]["requestId"].to_string())
                    .or_insert("cancelled");
            }
        }
        let mut calls = Vec::new();
        for message in &asked {
            let method = message["method"].as_str().unwrap_or_default();
            let name = match method {
                "tools/call" | "prompts/get" => &message["params"]["name"],
                "resources/read" => &message["params"]["uri"],
                _ => continue,
            };
            let status = ends.get(&message["id"].to_string()).copied();
            calls.push(Call {
                method: method.to_owned(),
                name: name.as_str().context("a call has a name")?.to_owned(),
                arguments: message["params"]["arguments"].clone(),
                status: status.with_context(|| format!("no answer to {message}"))?,
            });
        }
        Ok(calls)
    }

    /// By what its client opened it, in this order.
    pub(crate) fn opening(&self) -> Result<Vec<String>> {
        let asked = Self::messages(&self.client)?;
        let methods = asked
            .iter()
            .filter_map(|message| message["method"].as_str())
            .filter(|method| ["initialize", "server/discover"].contains(method));
        Ok(methods.map(str::to_owned).collect())
    }

    /// Both ends wrote the same.
    pub(crate) fn same(&self, guarded: &Self, at: usize) -> Result<()> {
        let end = |name: &str, direct: &[u8], guarded: &[u8], other_way: fn(&Value) -> bool| {
            equal(&apart(direct, other_way)?, &apart(guarded, other_way)?)
                .with_context(|| format!("start {at}: the {name} wrote something else with the agent there"))
        };
        end("client", &self.client, &guarded.client, |message| {
            message.get("method").is_none()
        })?;
        end("server", &self.server, &guarded.server, |message| {
            message.get("method").is_some() && message.get("id").is_some()
        })
    }
}

/// The lines of one end, those that belong to questions of the server's after all others. A server asks when it likes,
/// and which of the client's next messages comes before the answer is chance, with or without anybody in between.
fn apart(text: &[u8], other_way: fn(&Value) -> bool) -> Result<Vec<u8>> {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let message: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
        let to = if other_way(&message) { &mut other } else { &mut one };
        to.extend_from_slice(line);
    }
    ensure!(!one.is_empty(), "nothing is on record of it");
    one.extend_from_slice(&other);
    Ok(one)
}

/// To the byte, line by line for the sake of the message.
pub(crate) fn equal(direct: &[u8], guarded: &[u8]) -> Result<()> {
    let shown = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        text.chars().take(600).collect::<String>()
    };
    let lines =
        |text: &[u8]| -> Vec<Vec<u8>> { text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect() };
    let (one, other) = (lines(direct), lines(guarded));
    for (at, (one, other)) in one.iter().zip(&other).enumerate() {
        ensure!(
            one == other,
            "line {}:\n  directly {}\n  guarded  {}",
            at + 1,
            shown(one),
            shown(other)
        );
    }
    ensure!(
        direct == guarded,
        "{} lines directly, {} guarded",
        one.len(),
        other.len()
    );
    Ok(())
}
