//! `guard-agent audit query`: the records that fit, shown or counted.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::{
    directory, note_if_empty,
    time::{self, When},
    unreadable,
};
use crate::{
    audit::{
        self, AddressPattern, AuditError, By, Damage, Decision, Errno, Filter, Found, Groups, Kind, Layer,
        Op, PathPattern, Query, Status,
    },
    cli::out::{self, Out, Stop},
    exit::ExitStatus,
    refusal::Refusal,
};

/// Places of damage that are named; the rest is counted.
const MAX_NAMED: u64 = 20;
/// The same for files that are none of ours.
const MAX_FOREIGN: usize = 10;

#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// The audit directory [default: the system's, without root $XDG_STATE_HOME/guard-agent]
    #[arg(long, value_name = "DIR")]
    audit: Option<PathBuf>,
    /// From this time on: RFC 3339, a date, or how long ago (`10m`, `2h`, `3d`)
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<When>,
    /// Up to this time, in the same forms; a date is that whole day
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<When>,
    /// Only this kind
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Only this server
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    session: Vec<String>,
    /// Only this call of a session, and what may have happened in it
    #[arg(long, value_name = "NUMBER")]
    call: Vec<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
    /// Only calls that ended so
    #[arg(long, value_name = "STATUS")]
    status: Vec<Status>,
    /// Only this operation, such as `openat` or `connect`
    #[arg(long, value_name = "NAME")]
    op: Vec<Op>,
    /// Only what was allowed, or only what was denied
    #[arg(long, value_name = "DECISION")]
    decision: Option<Decision>,
    /// Only what this layer decided
    #[arg(long, value_name = "LAYER")]
    layer: Vec<Layer>,
    /// Only what ended with this error, such as `EACCES`
    #[arg(long, value_name = "NAME")]
    errno: Vec<Errno>,
    /// Only this path and what is below it, or what a pattern with `*` or `**` fits
    #[arg(long, value_name = "PATH")]
    path: Vec<OsString>,
    /// Only this address or network, with a port if one is given
    #[arg(long, value_name = "ADDR[:PORT]")]
    address: Vec<AddressPattern>,
    /// Only this process or thread
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Stop after so many records, or with `--count` after so many groups
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Count records and the attempts they stand for, in place of showing them
    #[arg(long)]
    count: bool,
    /// Count for each value of these fields (implies `--count`)
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    by: Vec<By>,
    /// Print the records as they are, one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &QueryArgs) -> Result<ExitStatus, Refusal> {
    let directory = directory(args.audit.clone())?;
    let filter = filter(args)?;
    note_if_empty(&directory)?;
    let mut query = Query::open(&directory, filter).map_err(|error| unreadable(&error))?;
    note_foreign(&query)?;
    let mut seen = Seen::default();
    let mut failure = None;
    let counting = args.count || !args.by.is_empty();
    let status = out::with(ExitStatus::Ok, |out| {
        let read = if counting {
            count(out, &mut query, args, &mut seen)
        } else {
            show(out, &mut query, args, &mut seen)
        };
        match read {
            Ok(()) => Ok(()),
            Err(Ended::Output(stop)) => Err(stop),
            Err(Ended::Audit(error)) => {
                failure = Some(error);
                Ok(())
            }
        }
    })?;
    match failure {
        Some(error) => Err(unreadable(&error)),
        None => seen.judge(status),
    }
}

fn filter(args: &QueryArgs) -> Result<Filter, Refusal> {
    let what = "cannot search for that";
    let mut paths = Vec::new();
    for path in &args.path {
        let pattern = PathPattern::new(path).map_err(|why| {
            let shown = audit::escape(&path.to_string_lossy());
            Refusal::usage(
                what,
                format!("`--path {shown}`: {why}"),
                "give a path, or a pattern in which `*` stops at `/` and `**` does not",
            )
        })?;
        paths.push(pattern);
    }
    let filter = Filter {
        kinds: args.kind.clone(),
        sessions: args.session.clone(),
        servers: args.server.clone(),
        calls: args.call.clone(),
        tools: args.tool.clone(),
        statuses: args.status.clone(),
        since: args.since.map(When::since),
        until: args.until.map(When::until),
        ops: args.op.clone(),
        decision: args.decision,
        layers: args.layer.clone(),
        errnos: args.errno.clone(),
        paths,
        addresses: args.address.clone(),
        pids: args.pid.clone(),
    };
    match filter.contradiction() {
        Some(why) => Err(Refusal::usage(
            what,
            format!("no record can fit: {why}"),
            "leave one of the filters out",
        )),
        None => Ok(filter),
    }
}

fn note_foreign(query: &Query) -> Result<(), Refusal> {
    let foreign = query.foreign().map_err(|error| unreadable(&error))?;
    for name in foreign.iter().take(MAX_FOREIGN) {
        eprintln!(
            "note: `{}` is no file of the audit and was not looked at",
            audit::escape(name)
        );
    }
    if foreign.len() > MAX_FOREIGN {
        eprintln!(
            "note: {} more files are none of the audit",
            foreign.len() - MAX_FOREIGN
        );
    }
    Ok(())
}

enum Ended {
    Output(Stop),
    Audit(AuditError),
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        Self::Output(stop)
    }
}
impl From<AuditError> for Ended {
    fn from(error: AuditError) -> Self {
        Self::Audit(error)
    }
}

fn show(out: &mut Out, query: &mut Query, args: &QueryArgs, seen: &mut Seen) -> Result<(), Ended> {
    let limit = args.limit.unwrap_or(u64::MAX);
    while seen.records < limit {
        match query.read_next()? {
            Some(Found::Record(entry)) => {
                seen.records += 1;
                if args.json {
                    out.line(&entry.text)?;
                } else {
                    out.line(audit::text_line(&entry))?;
                }
            }
            Some(Found::Damage(damage)) => {
                // In the order it was found, where both go to one terminal.
                out.flush()?;
                seen.damage(&damage);
            }
            None => {
                seen.note_none();
                break;
            }
        }
    }
    Ok(())
}

fn count(out: &mut Out, query: &mut Query, args: &QueryArgs, seen: &mut Seen) -> Result<(), Ended> {
    let mut groups = Groups::new(args.by.clone());
    while let Some(found) = query.read_next()? {
        match found {
            Found::Record(entry) => {
                seen.records += 1;
                groups.add(&entry.value);
            }
            Found::Damage(damage) => seen.damage(&damage),
        }
    }
    seen.note_none();
    let limit = args.limit.and_then(|limit| usize::try_from(limit).ok());
    for group in groups.finish().into_iter().take(limit.unwrap_or(usize::MAX)) {
        if args.json {
            out.json(&group)?;
        } else {
            out.line(&group)?;
        }
    }
    Ok(())
}

/// What was met on the way.
#[derive(Debug, Default)]
struct Seen {
    records: u64,
    damaged: u64,
}

impl Seen {
    fn damage(&mut self, damage: &Damage) {
        self.damaged += 1;
        if self.damaged <= MAX_NAMED {
            eprintln!("damaged: {damage}");
        }
    }

    fn note_none(&self) {
        if self.records == 0 {
            eprintln!("note: no record fits");
        }
    }

    fn judge(&self, status: ExitStatus) -> Result<ExitStatus, Refusal> {
        if self.damaged == 0 {
            return Ok(status);
        }
        let named = if self.damaged > MAX_NAMED {
            format!("the first {MAX_NAMED} are named above")
        } else {
            "named above".into()
        };
        Err(Refusal::new(
            ExitStatus::Failed,
            "the audit trail is damaged: not every record could be read",
            format!("{} places are not as they were written, {named}", self.damaged),
            "keep the directory as evidence, and see what `guard-agent audit verify` says of it",
        ))
    }
}
