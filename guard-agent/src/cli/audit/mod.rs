//! `guard-agent audit`: look at the trail, search it, and prove it.

mod query;
mod show;
mod tail;
#[cfg(test)]
mod tests;
mod time;
mod verify;

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use nix::unistd::geteuid;

use crate::{
    audit::{self, AuditError},
    exit::ExitStatus,
    refusal::{Refusal, chain},
};

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Check every hash, link and signature; name the first bad record
    Verify(verify::VerifyArgs),
    /// Show the last records, one a line
    Tail(tail::TailArgs),
    /// Show or count the records that fit
    Query(Box<query::QueryArgs>),
    /// Tell one call: who asked what, what each gate said, what the server did, what came of it
    Show(show::ShowArgs),
}

pub fn run(args: AuditArgs) -> Result<ExitStatus, Refusal> {
    match args.command {
        AuditCommand::Verify(args) => verify::run(args),
        AuditCommand::Tail(args) => tail::run(args),
        AuditCommand::Query(args) => query::run(&args),
        AuditCommand::Show(args) => show::run(args),
    }
}

fn directory(given: Option<PathBuf>) -> Result<PathBuf, Refusal> {
    given.map_or_else(audit::default_directory, Ok)
}

fn unreadable(error: &AuditError) -> Refusal {
    let what = "cannot read the audit trail";
    let whose = if geteuid().is_root() {
        ""
    } else {
        "; what a `run` under `sudo` recorded is root's: call this under `sudo` too"
    };
    match error {
        AuditError::Io { path, source, .. } if source.kind() == io::ErrorKind::NotFound => Refusal::usage(
            what,
            format!(
                "`{}` does not exist: no `run` has recorded anything there yet",
                path.display()
            ),
            format!("name the directory of a `run` with `--audit`, or start one{whose}"),
        ),
        _ => Refusal::usage(
            what,
            chain(error),
            format!("name a directory you may read with `--audit`{whose}"),
        ),
    }
}

/// Says so when there is nothing to show, where otherwise there would be silence.
fn note_if_empty(directory: &Path) -> Result<(), Refusal> {
    if audit::is_empty(directory).map_err(|error| unreadable(&error))? {
        eprintln!(
            "note: there is no record in `{}` yet: no server was launched that records there",
            audit::escape(&directory.display().to_string())
        );
    }
    Ok(())
}
