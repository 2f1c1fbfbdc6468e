//! `guard-agent audit`: look at the trail, and prove it.

use std::{io, os::fd::AsFd as _, path::PathBuf};

use clap::{Args, Subcommand};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::out::{self, Out, Stop};
use crate::{
    audit::{self, AuditError, Filter, Kind, Report, Tail, VerifyOptions},
    exit::ExitStatus,
    refusal::{Refusal, chain},
};

/// How long `tail --follow` sleeps when nothing is new.
const POLL_MS: u16 = 100;

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Check every hash, link and signature; name the first bad record
    Verify(VerifyArgs),
    /// Show the last records, one a line
    Tail(TailArgs),
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// The audit directory [default: the system's, without root $XDG_STATE_HOME/guard-agent]
    #[arg(long, value_name = "DIR")]
    audit: Option<PathBuf>,
    /// Trust the public keys in this directory, not those in the audit directory
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct TailArgs {
    /// The audit directory [default: the system's, without root $XDG_STATE_HOME/guard-agent]
    #[arg(long, value_name = "DIR")]
    audit: Option<PathBuf>,
    /// How many records to start with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Go on with records as they are written
    #[arg(short, long)]
    follow: bool,
    /// Print the records as they are, one JSON object a line
    #[arg(long)]
    json: bool,
    /// Only records of this kind (may be repeated)
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Only records of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only records of this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
}

pub fn run(args: AuditArgs) -> Result<ExitStatus, Refusal> {
    match args.command {
        AuditCommand::Verify(args) => verify(args),
        AuditCommand::Tail(args) => tail(args),
    }
}

fn directory(given: Option<PathBuf>) -> Result<PathBuf, Refusal> {
    given.map_or_else(audit::default_directory, Ok)
}

fn unreadable(error: &AuditError) -> Refusal {
    Refusal::usage(
        "cannot read the audit trail",
        chain(error),
        "name a directory you may read with `--audit`",
    )
}

fn verify(args: VerifyArgs) -> Result<ExitStatus, Refusal> {
    let directory = directory(args.audit)?;
    let options = VerifyOptions { keys: args.keys };
    let report = audit::verify(&directory, &options).map_err(|error| unreadable(&error))?;
    let status = if report.ok {
        ExitStatus::Ok
    } else {
        ExitStatus::Failed
    };
    out::with(status, |out| {
        if args.json {
            out.json(&report)
        } else {
            report_text(out, &report)
        }
    })
}

fn report_text(out: &mut Out, report: &Report) -> Result<(), Stop> {
    for note in &report.notes {
        out.line(format_args!("note: {note}"))?;
    }
    if report.more_notes > 0 {
        out.line(format_args!("note: {} more notes", report.more_notes))?;
    }
    let Report {
        records,
        segments,
        checkpoints,
        unsigned,
        ..
    } = report;
    match &report.first_bad {
        Some(bad) => {
            out.line(format_args!("BAD: {bad}"))?;
            out.line(format_args!(
                "{records} records before it are good ({checkpoints} checkpoints)"
            ))
        }
        None => {
            out.line(format_args!(
                "ok: {records} records in {segments} segments, {checkpoints} checkpoints by {} keys",
                report.keys.len()
            ))?;
            if let Some((seq, hash)) = &report.head {
                out.line(format_args!("head: record {seq} {hash}"))?;
            }
            if *unsigned > 0 {
                out.line(format_args!(
                    "the last {unsigned} are signed by no checkpoint yet: a cut among them could not be seen"
                ))?;
            }
            Ok(())
        }
    }
}

fn tail(args: TailArgs) -> Result<ExitStatus, Refusal> {
    let directory = directory(args.audit)?;
    let filter = Filter {
        kinds: args.kind,
        session: args.session,
        server: args.server,
    };
    let mut tail = Tail::open(&directory, filter, args.lines).map_err(|error| unreadable(&error))?;
    let mut failure = None;
    let status = out::with(ExitStatus::Ok, |out| {
        loop {
            match tail.read_next() {
                // A damaged line must not break the form of the output.
                Ok(Some(entry)) if args.json && entry.value.is_null() => {
                    out.json(&serde_json::json!({ "unreadable": entry.text }))?;
                }
                Ok(Some(entry)) if args.json => out.line(&entry.text)?,
                Ok(Some(entry)) => out.line(audit::text_line(&entry))?,
                Ok(None) if args.follow => {
                    out.flush()?;
                    wait()?;
                }
                Ok(None) => return Ok(()),
                Err(error) => {
                    failure = Some(error);
                    return Ok(());
                }
            }
        }
    })?;
    match failure {
        Some(error) => Err(unreadable(&error)),
        None => Ok(status),
    }
}

/// Sleeps a little, but not beyond the end of whoever reads us.
fn wait() -> Result<(), Stop> {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    match poll(&mut fds, PollTimeout::from(POLL_MS)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(Stop::Failed(errno.into())),
    }
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    if fds[0].revents().is_some_and(|events| events.intersects(gone)) {
        Err(Stop::ReaderGone)
    } else {
        Ok(())
    }
}
