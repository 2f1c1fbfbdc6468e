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

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{BufRead as _, BufReader, Read as _},
        process::{Child, Command, Stdio},
        time::{Duration, Instant},
    };

    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::audit::{Body, Durability, Gap, GapKind, Options, Origin, Trail};

    const ARGUMENTS: &str = "GUARD_AGENT_TEST_AUDIT_ARGUMENTS";

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        audit: AuditArgs,
    }

    /// Not a test: the command, in a process of its own, as the tests below start it.
    #[test]
    fn child() {
        let Ok(arguments) = std::env::var(ARGUMENTS) else {
            return;
        };
        let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
        let cli = Cli::parse_from([vec!["audit".to_owned()], arguments].concat());
        let status = run(cli.audit).unwrap_or_else(|refusal| {
            eprintln!("{refusal}");
            refusal.exit
        });
        std::process::exit(status as i32);
    }

    fn start(arguments: &[&str]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "cli::audit::tests::child",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ARGUMENTS, serde_json::to_string(arguments).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Exit status, lines on stdout without those of the test harness, stderr.
    fn finished(arguments: &[&str]) -> (Option<i32>, Vec<String>, String) {
        let output = start(arguments).wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (
            output.status.code(),
            lines(&text),
            String::from_utf8(output.stderr).unwrap(),
        )
    }

    fn lines(text: &str) -> Vec<String> {
        let ours = text.split_once("running 1 test\n").map_or(text, |(_, ours)| ours);
        let ours = ours
            .strip_prefix("test cli::audit::tests::child ... ")
            .unwrap_or(ours);
        ours.lines().map(str::to_owned).collect()
    }

    fn gap() -> Body {
        Body::Gap(Gap::unknown(Some("s\u{1b}1".into()), GapKind::RingFull))
    }

    fn chain(dir: &std::path::Path) -> Trail {
        let mut trail = Trail::open(dir, Options::default()).unwrap();
        for _ in 0..3 {
            trail.append(&gap(), Origin::Warden, Durability::Soon).unwrap();
        }
        trail
    }

    #[test]
    fn verify_tells_whole_from_changed_and_names_the_record() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().to_str().unwrap();
        chain(place.path()).close().unwrap();
        let (status, lines, _) = finished(&["verify", "--audit", dir]);
        assert_eq!(status, Some(0));
        assert_eq!(lines[0], "ok: 4 records in 1 segments, 1 checkpoints by 1 keys");
        let segment = place.path().join("000001.jsonl");
        fs::write(
            &segment,
            fs::read_to_string(&segment)
                .unwrap()
                .replacen("ring-full", "ring-fuller", 1),
        )
        .unwrap();
        let (status, lines, _) = finished(&["verify", "--audit", dir]);
        assert_eq!(status, Some(1));
        assert!(
            lines[0].starts_with("BAD: 000001.jsonl line 1 (record 1): its hash"),
            "{lines:?}"
        );
        let (status, lines, _) = finished(&["verify", "--audit", dir, "--json"]);
        assert_eq!((status, lines.len()), (Some(1), 1));
        let report: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(report["ok"], false);
        assert_eq!(report["first_bad"]["reason"], "wrong-hash");
        assert_eq!(report["first_bad"]["seq"], 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_usage_error() {
        let place = tempfile::tempdir().unwrap();
        let missing = place.path().join("missing");
        for command in ["verify", "tail"] {
            let (status, lines, said) = finished(&[command, "--audit", missing.to_str().unwrap()]);
            assert_eq!((status, lines.len()), (Some(2), 0), "{lines:?}");
            assert!(said.contains("missing`: No such file"), "{said}");
        }
    }

    #[test]
    fn tail_shows_the_last_records_as_text_or_json() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().to_str().unwrap();
        chain(place.path()).close().unwrap();
        let (status, lines, _) = finished(&["tail", "--audit", dir, "-n", "2"]);
        assert_eq!((status, lines.len()), (Some(0), 2));
        assert!(
            lines[0].ends_with(r"     3 gap        s\u{1b}1 ring-full lost=unknown"),
            "{lines:?}"
        );
        let (_, lines, _) = finished(&["tail", "--audit", dir, "--json", "--kind", "checkpoint"]);
        assert_eq!(lines.len(), 1);
        assert_eq!(
            serde_json::from_str::<Value>(&lines[0]).unwrap()["kind"],
            "checkpoint"
        );
    }

    #[test]
    fn tail_follows_and_ends_quietly_with_its_reader() {
        let place = tempfile::tempdir().unwrap();
        let mut trail = chain(place.path());
        let dir = place.path().to_str().unwrap();
        let mut child = start(&["tail", "--audit", dir, "-f", "-n", "1", "--json", "--kind", "gap"]);
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut next = |seq: u64| loop {
            let mut line = String::new();
            assert_ne!(reader.read_line(&mut line).unwrap(), 0, "it ended");
            // The harness's own words may stand before ours.
            let Some(start) = line.find('{') else { continue };
            assert_eq!(serde_json::from_str::<Value>(&line[start..]).unwrap()["seq"], seq);
            break;
        };
        next(3);
        for seq in [4, 5] {
            trail.append(&gap(), Origin::Warden, Durability::Soon).unwrap();
            next(seq);
        }
        drop(reader);
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > Duration::from_secs(20) {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0));
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
    }
}
