//! Works out what a command needs in a process that has only the rights of the user it will run as: whatever
//! that user may not read does not become part of the sandbox, and no parser of foreign files has privilege.

use std::{
    io::{self, Read as _, Write as _},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{
    exit::ExitStatus,
    init::message::Ids,
    refusal::Refusal,
    runtime::{self, Ask, Runtime},
    sys::process,
};

/// What is asked of the resolver.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// Taken before anything is looked at.
    pub ids: Ids,
    pub ask: Ask,
}

type Answer = Result<Runtime, Refusal>;

fn failed(cause: impl std::fmt::Display) -> Refusal {
    Refusal::internal(
        "cannot work out what the command needs",
        cause.to_string(),
        "try again; nothing was started",
    )
}

/// Asks a process of the target user.
pub(super) fn ask(question: &Question) -> Answer {
    let mut child = Command::new("/proc/self/exe")
        .arg("resolve")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .current_dir("/")
        .spawn()
        .map_err(failed)?;
    let text = serde_json::to_vec(question).map_err(failed)?;
    // The resolver reads all of its input before it writes a byte of output.
    child
        .stdin
        .take()
        .map_or(Ok(()), |mut stdin| stdin.write_all(&text))
        .map_err(failed)?;
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(failed(format!("the resolver ended with {}", output.status)));
    }
    serde_json::from_slice::<Answer>(&output.stdout).map_err(failed)?
}

/// The resolver's side. Whatever goes wrong is its answer: the asker tells the person, once.
pub(super) fn main() -> Result<ExitStatus, Refusal> {
    let answer: Answer = answer();
    let text = serde_json::to_vec(&answer).map_err(failed)?;
    io::stdout().write_all(&text).map_err(failed)?;
    Ok(ExitStatus::Ok)
}

fn answer() -> Answer {
    let mut text = Vec::new();
    io::stdin().take(4 << 20).read_to_end(&mut text).map_err(failed)?;
    let question: Question = serde_json::from_slice(&text).map_err(failed)?;
    // An ordinary user asks for themselves.
    if nix::unistd::geteuid().is_root() {
        process::drop_bounding_set().map_err(failed)?;
        process::set_ids(question.ids.uid, question.ids.gid, &question.ids.groups).map_err(failed)?;
    }
    process::no_new_privileges().map_err(failed)?;
    runtime::resolve(&question.ask)
}
