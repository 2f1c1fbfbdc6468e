//! `guard-agent audit tail`: the last records, and those that come.

use std::{io, os::fd::AsFd as _, path::PathBuf};

use clap::Args;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::{directory, note_if_empty, unreadable};
use crate::{
    audit::{self, Filter, Kind, Tail},
    cli::out::{self, Stop},
    exit::ExitStatus,
    refusal::Refusal,
};

/// How long `--follow` sleeps when nothing is new.
const POLL_MS: u16 = 100;

#[derive(Debug, Args)]
pub(super) struct TailArgs {
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
    /// Only records of this session (may be repeated)
    #[arg(long, value_name = "ID")]
    session: Vec<String>,
    /// Only records of this server (may be repeated)
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
}

pub(super) fn run(args: TailArgs) -> Result<ExitStatus, Refusal> {
    let directory = directory(args.audit)?;
    let filter = Filter {
        kinds: args.kind,
        sessions: args.session,
        servers: args.server,
        ..Filter::default()
    };
    note_if_empty(&directory)?;
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
