//! The commands as somebody types them, each in a process of its own.

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
    for command in ["verify", "tail", "query"] {
        let (status, lines, said) = finished(&[command, "--audit", missing.to_str().unwrap()]);
        assert_eq!((status, lines.len()), (Some(2), 0), "{lines:?}");
        let expected = format!(
            "error: cannot read the audit trail\n  why: `{}` does not exist: no `run` has recorded anything there yet\n  \
             fix: name the directory of a `run` with `--audit`, or start one",
            missing.display()
        );
        assert!(said.starts_with(&expected), "{said}");
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

/// The place of what `finished` gives for a query in `dir`.
fn query(dir: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>, String) {
    finished(&[&["query", "--audit", dir], arguments].concat())
}

#[test]
fn query_shows_records_byte_for_byte_or_as_tail_does() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().to_str().unwrap();
    chain(place.path()).close().unwrap();
    let written = fs::read_to_string(place.path().join("000001.jsonl")).unwrap();
    let written: Vec<&str> = written.lines().collect();
    let (status, lines, said) = query(dir, &["--json"]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    assert_eq!(lines, written);
    let (_, lines, _) = query(dir, &["--json", "--kind", "gap", "--limit", "2", "--since", "1h"]);
    assert_eq!(lines, written[..2]);
    let (_, shown, _) = query(dir, &[]);
    let (_, tailed, _) = finished(&["tail", "--audit", dir]);
    assert_eq!(shown, tailed);
    let (status, lines, said) = query(dir, &["--until", "1h"]);
    assert_eq!((status, lines.len()), (Some(0), 0));
    assert_eq!(said, "note: no record fits\n");
}

#[test]
fn query_counts_what_fits() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().to_str().unwrap();
    chain(place.path()).close().unwrap();
    let (_, lines, _) = query(dir, &["--by", "kind", "--json"]);
    assert_eq!(
        lines,
        [
            r#"{"by":{"kind":"gap"},"records":3,"attempts":0,"lost":0}"#,
            r#"{"by":{"kind":"checkpoint"},"records":1,"attempts":0,"lost":0}"#
        ]
    );
    let (_, lines, _) = query(dir, &["--count", "--kind", "gap"]);
    assert_eq!(lines, ["        3 records         0 attempts"]);
    let (_, lines, said) = query(dir, &["--count", "--decision", "deny", "--json"]);
    assert_eq!(lines, [r#"{"by":{},"records":0,"attempts":0,"lost":0}"#]);
    assert_eq!(said, "note: no record fits\n");
}

#[test]
fn query_refuses_what_can_never_fit_and_lists_what_can() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().to_str().unwrap();
    chain(place.path()).close().unwrap();
    for (arguments, expected) in [
        (
            &["--kind", "exit", "--op", "openat"][..],
            "only records of the kind `kernel` have",
        ),
        (&["--since", "1h", "--until", "2h"], "which is before"),
        (&["--server", "x", "--kind", "gap"], "name no server"),
        (&["--path", ""], "`--path `: it is empty"),
        (&["--path", "/a/[*"], "as a pattern: unclosed character class"),
    ] {
        let (status, lines, said) = query(dir, arguments);
        assert_eq!((status, lines.len()), (Some(2), 0), "{said}");
        assert!(
            said.starts_with("error: cannot search for that\n  why: "),
            "{said}"
        );
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn an_empty_directory_is_said_to_be_empty() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("old.log"), "not ours").unwrap();
    let dir = place.path().to_str().unwrap();
    for command in ["tail", "query"] {
        let (status, lines, said) = finished(&[command, "--audit", dir]);
        assert_eq!((status, lines.len()), (Some(0), 0));
        assert!(said.contains("note: there is no record in"), "{said}");
    }
    let (_, _, said) = query(dir, &[]);
    assert!(said.contains("note: `old.log` is no file of the audit"), "{said}");
}

#[test]
fn query_tells_of_damage_and_shows_what_stands_around_it() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().to_str().unwrap();
    chain(place.path()).close().unwrap();
    let segment = place.path().join("000001.jsonl");
    let written = fs::read_to_string(&segment).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    fs::write(&segment, [lines[0], "{\u{1b}", lines[2], lines[3], ""].join("\n")).unwrap();
    let (status, shown, said) = query(dir, &["--json"]);
    assert_eq!(status, Some(1));
    assert_eq!(shown, [lines[0], lines[2], lines[3]]);
    assert!(said.starts_with("damaged: 000001.jsonl line 2: "), "{said}");
    assert!(said.contains("error: the audit trail is damaged"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    // Counting tells as well.
    let (status, shown, _) = query(dir, &["--count"]);
    assert_eq!(status, Some(1));
    assert_eq!(shown, ["        3 records         0 attempts"]);
}

#[test]
fn query_ends_quietly_with_its_reader() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().to_str().unwrap();
    let mut trail = chain(place.path());
    for _ in 0..3000 {
        trail.append(&gap(), Origin::Warden, Durability::Soon).unwrap();
    }
    trail.close().unwrap();
    let mut child = start(&["query", "--audit", dir, "--json"]);
    // One record, after the harness's own words; then the reader goes.
    let reader = BufReader::new(child.stdout.take().unwrap());
    assert!(reader.lines().any(|line| line.unwrap().contains('{')));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
