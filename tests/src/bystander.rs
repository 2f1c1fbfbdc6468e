//! The neighbour as a process of its own (see `probes/neighbour.rs`).

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::control::User;

pub(crate) struct Neighbour {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    pub(crate) names: BTreeMap<String, String>,
}

impl Neighbour {
    pub(crate) fn start(top: &Path, user: &User) -> Result<Self> {
        let mut command = Command::new(top.join("bin/guard-probe"));
        command
            .arg("neighbour")
            .arg(format!("dir={}", top.join("outside/neighbour").display()));
        command.arg(format!("root={}", top.join("roots/rw/neighbour").display()));
        command
            .env("GUARD_NEIGHBOUR", "GUARD-SECRET")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command
            .uid(user.uid)
            .gid(user.gid)
            .spawn()
            .context("failed to start the neighbour")?;
        let to = child.stdin.take();
        let mut from = BufReader::new(child.stdout.take().context("the neighbour has no output")?);
        let mut line = String::new();
        from.read_line(&mut line)?;
        let value: Value = serde_json::from_str(&line).context("the neighbour did not start")?;
        let names = value.as_object().context("unreadable neighbour")?.iter();
        let names = names
            .filter_map(|(key, value)| {
                Some((
                    key.clone(),
                    value.as_str().filter(|text| !text.is_empty())?.to_owned(),
                ))
            })
            .collect();
        Ok(Self {
            child,
            to,
            from,
            names,
        })
    }

    pub(crate) fn reached(&mut self) -> Result<u64> {
        // What was sent just before has had time to be counted.
        std::thread::sleep(std::time::Duration::from_millis(100));
        self.to
            .as_mut()
            .context("the neighbour is gone")?
            .write_all(b"count\n")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        serde_json::from_str::<Value>(&line)?["reached"]
            .as_u64()
            .context("no count")
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // End of input is its sign to remove what it made.
        drop(self.to.take());
        drop(self.child.wait());
    }
}
