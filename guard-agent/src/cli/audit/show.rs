//! `guard-agent audit show`: one call with everything that happened in it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::{directory, note_if_empty, unreadable};
use crate::{
    audit::{self, Activity, Call, Entry, Filter, Found, Identity, Kind, Phase, Query},
    cli::out::{self, Out, Stop},
    exit::ExitStatus,
    refusal::Refusal,
};

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The call: its number, of the last session that has it; or with its session, as `s-0123456789ab.7`
    #[arg(value_name = "CALL")]
    call: String,
    /// The audit directory [default: the system's, without root $XDG_STATE_HOME/guard-agent]
    #[arg(long, value_name = "DIR")]
    audit: Option<PathBuf>,
    /// Of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print the records as they are, one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ShowArgs) -> Result<ExitStatus, Refusal> {
    let directory = directory(args.audit)?;
    let (session, number) = match args.call.rsplit_once('.') {
        Some((session, number)) => (Some(session.to_owned()), number.to_owned()),
        None => (args.session, args.call.clone()),
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::usage(
            format!("cannot show call `{}`", audit::escape(&args.call)),
            "a call is named by its number, alone or behind its session",
            "take both from `guard-agent audit query --kind call`, such as `s-0123456789ab.7`",
        ));
    }
    note_if_empty(&directory)?;
    let mut damaged = 0;
    let session = match session {
        Some(session) => Some(session),
        None => newest(&directory, &number, &mut damaged)?,
    };
    let found = match &session {
        Some(session) => of_call(&directory, session, &number, &mut damaged)?,
        None => Vec::new(),
    };
    if !found.iter().any(|entry| entry.value["kind"] == "call") {
        let of = session.map_or_else(String::new, |session| {
            format!(" of session `{}`", audit::escape(&session))
        });
        return Err(Refusal::new(
            ExitStatus::Failed,
            format!("there is no call {number}{of} on record"),
            format!(
                "no record in `{}` names it",
                audit::escape(&directory.display().to_string())
            ),
            "see which there are with `guard-agent audit query --kind call`",
        ));
    }
    out::with(ExitStatus::Ok, |out| {
        if args.json {
            found.iter().try_for_each(|entry| out.line(&entry.text))
        } else {
            tell(out, &number, &found)
        }
    })?;
    if damaged > 0 {
        return Err(Refusal::new(
            ExitStatus::Failed,
            "the audit trail is damaged: not every record could be read",
            format!("{damaged} places are not as they were written"),
            "see what `guard-agent audit verify` says of it",
        ));
    }
    Ok(ExitStatus::Ok)
}

fn read(
    directory: &Path,
    filter: Filter,
    damaged: &mut u64,
    mut take: impl FnMut(Entry),
) -> Result<(), Refusal> {
    let mut query = Query::open(directory, filter).map_err(|error| unreadable(&error))?;
    while let Some(found) = query.read_next().map_err(|error| unreadable(&error))? {
        match found {
            Found::Record(entry) => take(entry),
            Found::Damage(damage) => {
                *damaged += 1;
                eprintln!("damaged: {damage}");
            }
        }
    }
    Ok(())
}

/// The last session that has a call of this number.
fn newest(directory: &Path, number: &str, damaged: &mut u64) -> Result<Option<String>, Refusal> {
    let filter = Filter {
        kinds: vec![Kind::Call],
        calls: vec![number.to_owned()],
        ..Filter::default()
    };
    let mut session = None;
    read(directory, filter, damaged, |entry| {
        session = entry.value["session"].as_str().map(str::to_owned);
    })?;
    *damaged = 0;
    Ok(session)
}

fn of_call(directory: &Path, session: &str, number: &str, damaged: &mut u64) -> Result<Vec<Entry>, Refusal> {
    let filter = Filter {
        sessions: vec![session.to_owned()],
        calls: vec![number.to_owned()],
        ..Filter::default()
    };
    let mut found = Vec::new();
    read(directory, filter, damaged, |entry| found.push(entry))?;
    Ok(found)
}

fn tell(out: &mut Out, number: &str, found: &[Entry]) -> Result<(), Stop> {
    let calls = |phase: Phase| {
        found.iter().find_map(|entry| {
            let call: Call = serde_json::from_value(entry.value.clone()).ok()?;
            (entry.value["kind"] == "call" && call.phase == phase)
                .then(|| (text(&entry.value, "time"), text(&entry.value, "origin"), call))
        })
    };
    let (begin, end) = (calls(Phase::Begin), calls(Phase::End));
    if let Some((_, _, call)) = begin.as_ref().or(end.as_ref()) {
        out.line(format_args!(
            "call {number} of session {}, server {}",
            audit::escape(&call.session),
            audit::escape(&call.server)
        ))?;
    }
    match &begin {
        Some((time, _, call)) => {
            out.line(format_args!(
                "asked   {time} by {}, flow {}",
                who(&call.identity),
                audit::escape(&call.flow)
            ))?;
            out.line(format_args!("what    {}", what(call)))?;
            match (&call.arguments, call.arguments_bytes) {
                (Some(arguments), _) => out.line(format_args!("        {}", audit::escape(arguments)))?,
                (None, Some(bytes)) => {
                    out.line(format_args!(
                        "        arguments of {bytes} bytes are not on record"
                    ))?;
                }
                (None, None) => {}
            }
            for verdict in &call.gates {
                let mut line = format!(
                    "gate    {}: {}",
                    audit::escape(&verdict.gate),
                    audit::escape(&verdict.verdict)
                );
                for more in [&verdict.rule, &verdict.reason].into_iter().flatten() {
                    line.push_str(", ");
                    line.push_str(&audit::escape(more));
                }
                out.line(line)?;
            }
        }
        None => out.line("asked   its beginning is not on record, or could not be read")?,
    }
    events(
        out,
        found,
        end.as_ref().and_then(|(_, _, call)| call.kernel.as_ref()),
    )?;
    match &end {
        Some((time, origin, call)) => ended(out, time, origin, call),
        None => out.line("end     not on record: it is still in flight, or the record could not be read"),
    }
}

fn events(out: &mut Out, found: &[Entry], kernel: Option<&Activity>) -> Result<(), Stop> {
    if let Some(kernel) = kernel {
        out.line(format_args!(
            "kernel  {} allowed, {} denied",
            kernel.allowed, kernel.denied
        ))?;
    }
    for entry in found {
        let kind = text(&entry.value, "kind");
        if kind == "call" {
            continue;
        }
        // Which of several it was nobody knows.
        let doubt = if entry.value["attribution"] == "one-of" {
            "? "
        } else {
            ""
        };
        out.line(format_args!("  {doubt}{}", audit::text_line(entry)))?;
    }
    Ok(())
}

fn ended(out: &mut Out, time: &str, origin: &str, call: &Call) -> Result<(), Stop> {
    let mut line = format!(
        "end     {time} {}",
        call.status.map_or("unknown", audit::Status::name)
    );
    if let Some(duration) = call.duration_us {
        line.push_str(&format!(
            " after {}.{:03} ms",
            duration.0 / 1000,
            duration.0 % 1000
        ));
    }
    if let Some(bytes) = call.output_bytes {
        line.push_str(&format!(", {bytes} bytes"));
    }
    if origin == "warden" {
        line.push_str(", told by nobody: closed by the warden");
    }
    out.line(line)?;
    for body in [&call.result, &call.error].into_iter().flatten() {
        out.line(format_args!("        {}", audit::escape(body)))?;
    }
    if call.output_bytes.is_some() && call.result.is_none() && call.error.is_none() {
        out.line("        it is too long to be on record")?;
    }
    Ok(())
}

fn what(call: &Call) -> String {
    let names = [&call.method, &call.tool, &call.prompt, &call.uri];
    let names: Vec<String> = names
        .into_iter()
        .flatten()
        .map(|name| audit::escape(name))
        .collect();
    names.join(" ")
}

fn who(identity: &Identity) -> String {
    let mut who = identity
        .user
        .as_deref()
        .map_or_else(|| "somebody".into(), audit::escape);
    if let Some(uid) = identity.uid {
        who.push_str(&format!(" (uid {uid}, {})", audit::escape(&identity.via)));
    }
    who
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("?")
}
