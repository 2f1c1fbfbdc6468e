//! `guard-agent audit verify`: the whole chain, proved.

use std::path::PathBuf;

use clap::Args;

use super::{directory, unreadable};
use crate::{
    audit::{self, Report, VerifyOptions},
    cli::out::{self, Out, Stop},
    exit::ExitStatus,
    refusal::Refusal,
};

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
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

pub(super) fn run(args: VerifyArgs) -> Result<ExitStatus, Refusal> {
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
