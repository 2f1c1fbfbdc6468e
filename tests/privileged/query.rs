//! `audit query` on what real servers left: what was denied is found by each of its marks, also in a trail that
//! was damaged afterwards.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    control::User,
    guards::Scratch,
    programs,
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// How often each server makes each attempt.
const TIMES: usize = 7;

struct Trail {
    bench: Bench,
    /// Every line as it was written.
    lines: Vec<String>,
}

struct Asked {
    status: Option<i32>,
    lines: Vec<String>,
    said: String,
}

fn ask_in(audit: &Path, arguments: &[&str]) -> Result<Asked> {
    let output = Command::new(programs::agent()?)
        .args(["audit", "query", "--audit"])
        .arg(audit)
        .args(arguments)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(Asked {
        status: output.status.code(),
        lines: text.lines().map(str::to_owned).collect(),
        said: String::from_utf8(output.stderr)?,
    })
}

impl Trail {
    /// Two servers, each with its own attempts, every one of them refused.
    fn new() -> Result<Self> {
        let (scratch, bench, user) = (
            Scratch::new("query")?,
            Bench::new("query-bench")?,
            User::of_tests()?,
        );
        let bin = scratch.path().join("bin");
        fs::create_dir(&bin)?;
        let probe = bin.join("guard-probe");
        fs::copy(programs::probe()?, &probe)?;
        for (name, attempts) in [
            (
                "left",
                [
                    ("tcp4", json!({"tcp4": "4711"})),
                    ("ptrace-seize", json!({"neighbour": "1"})),
                ],
            ),
            (
                "right",
                [
                    ("tcp6", json!({"tcp6": "4712"})),
                    ("unix-outside", json!({"unix": "/run/guard-query.sock"})),
                ],
            ),
        ] {
            let input: String = (attempts.iter())
                .flat_map(|(probe, args)| {
                    vec![json!({"probe": probe, "args": args}).to_string() + "\n"; TIMES]
                })
                .collect();
            let finished = AgentBuilder::new(&bench)
                .user(&user.name)
                .runtime("static")
                .option("--name", name)
                .root(&bin, "rx")
                .command([probe.clone().into_os_string(), "batch".into()])
                .outer_env("GUARD_AGENT_IDLE_MS", "100")
                .converse(&input, PATIENCE)?;
            ensure!(finished.stdout.lines().count() == 2 * TIMES, "{finished:?}");
            ensure!(
                !finished.stdout.contains("\"ok\""),
                "something was allowed: {}",
                finished.stdout
            );
        }
        // The warden closes the chain when it leaves.
        bench.wait_record(PATIENCE, |record| record.kind == "checkpoint")?;
        std::thread::sleep(Duration::from_millis(300));
        let text = fs::read_to_string(bench.audit().join("000001.jsonl"))?;
        Ok(Self {
            bench,
            lines: text.lines().map(str::to_owned).collect(),
        })
    }

    fn ask(&self, arguments: &[&str]) -> Result<Asked> {
        ask_in(&self.bench.audit(), arguments)
    }

    /// The same trail elsewhere, for a test to spoil.
    fn copy(&self, name: &str) -> Result<PathBuf> {
        let place = self.bench.path().join(name);
        fs::create_dir(&place)?;
        fs::copy(
            self.bench.audit().join("000001.jsonl"),
            place.join("000001.jsonl"),
        )?;
        Ok(place)
    }
}

/// The lines that a reader who knows nothing of the agent would choose.
fn chosen(trail: &Trail, fits: impl Fn(&Value) -> bool) -> Result<Vec<String>> {
    let mut chosen = Vec::new();
    for line in &trail.lines {
        if fits(&serde_json::from_str(line)?) {
            chosen.push(line.clone());
        }
    }
    Ok(chosen)
}

#[test]
fn each_filter_finds_its_lines_byte_for_byte() -> Result<()> {
    let trail = Trail::new()?;
    type Fits = fn(&Value) -> bool;
    let cases: [(&[&str], Fits); 14] = [
        (&[], |_| true),
        (&["--server", "left"], |record| record["server"] == "left"),
        (&["--kind", "launch", "--kind", "exit"], |record| {
            record["kind"] == "launch" || record["kind"] == "exit"
        }),
        (&["--decision", "deny"], |record| record["decision"] == "deny"),
        (&["--op", "connect"], |record| record["op"] == "connect"),
        (&["--op", "connect", "--server", "right"], |record| {
            record["op"] == "connect" && record["server"] == "right"
        }),
        (&["--op", "ptrace", "--op", "connect"], |record| {
            record["op"] == "ptrace" || record["op"] == "connect"
        }),
        (&["--layer", "seccomp"], |record| record["layer"] == "seccomp"),
        (&["--errno", "eperm"], |record| record["errno"] == "EPERM"),
        (&["--address", "127.0.0.1"], |record| {
            record["address"] == "127.0.0.1"
        }),
        (&["--address", "127.0.0.0/24:4711"], |record| {
            record["address"] == "127.0.0.1" && record["port"] == 4711
        }),
        (&["--address", "::/64"], |record| record["address"] == "::1"),
        (&["--since", "1h"], |_| true),
        (
            &["--since", "1970-01-01", "--until", "2199-01-01T00:00:00+01:00"],
            |_| true,
        ),
    ];
    for (arguments, fits) in cases {
        let asked = trail.ask(&[arguments, &["--json"]].concat())?;
        let expected = chosen(&trail, fits)?;
        ensure!(
            asked.status == Some(0) && asked.said.is_empty(),
            "{arguments:?}: {}",
            asked.said
        );
        ensure!(
            asked.lines == expected,
            "{arguments:?} gave {:#?}, not {expected:#?}",
            asked.lines
        );
        ensure!(!expected.is_empty(), "{arguments:?} proves nothing here");
    }
    for arguments in [
        &["--address", "127.0.0.1:4712"][..],
        &["--until", "1h"],
        &["--pid", "1"],
        &["--path", "/nowhere"],
    ] {
        let asked = trail.ask(arguments)?;
        ensure!(
            asked.status == Some(0) && asked.lines.is_empty(),
            "{arguments:?}: {:?}",
            asked.lines
        );
        ensure!(
            asked.said == "note: no record fits\n",
            "{arguments:?}: {}",
            asked.said
        );
    }
    Ok(())
}

#[test]
fn by_session_and_process() -> Result<()> {
    let trail = Trail::new()?;
    let denied = chosen(&trail, |record| record["op"] == "ptrace")?;
    let record: Value = serde_json::from_str(denied.first().context("no ptrace was recorded")?)?;
    let session = record["session"].as_str().context("it has a session")?;
    let asked = trail.ask(&["--json", "--session", session])?;
    ensure!(
        asked.lines == chosen(&trail, |record| record["session"] == session)?,
        "{:?}",
        asked.lines
    );
    ensure!(
        asked.lines.len() >= 3,
        "a launch, denials and an exit: {:?}",
        asked.lines
    );
    let pid = record["pid"].to_string();
    let asked = trail.ask(&["--json", "--pid", &pid])?;
    ensure!(
        asked.lines == chosen(&trail, |other| other["pid"] == record["pid"])?,
        "{:?}",
        asked.lines
    );
    Ok(())
}

#[test]
fn counts_add_up_to_the_attempts() -> Result<()> {
    let trail = Trail::new()?;
    let asked = trail.ask(&[
        "--by",
        "server,op",
        "--json",
        "--decision",
        "deny",
        "--op",
        "connect",
        "--op",
        "ptrace",
    ])?;
    let mut attempts = std::collections::BTreeMap::new();
    for line in &asked.lines {
        let group: Value = serde_json::from_str(line)?;
        let name = format!(
            "{} {}",
            group["by"]["server"].as_str().unwrap_or(""),
            group["by"]["op"].as_str().unwrap_or("")
        );
        attempts.insert(name, group["attempts"].as_u64().context("a count")?);
    }
    let mut expected = std::collections::BTreeMap::new();
    for line in &trail.lines {
        let record: Value = serde_json::from_str(line)?;
        if let (Some(server), Some(op @ ("connect" | "ptrace"))) =
            (record["server"].as_str(), record["op"].as_str())
        {
            *expected.entry(format!("{server} {op}")).or_insert(0) += record["repeat"].as_u64().unwrap_or(1);
        }
    }
    ensure!(
        attempts == expected,
        "counted are {attempts:?}, recorded {expected:?}"
    );
    for name in ["left connect", "left ptrace", "right connect"] {
        let found = attempts.get(name).copied().unwrap_or(0);
        ensure!(
            found >= TIMES as u64,
            "{name} was tried {TIMES} times, counted {found}"
        );
    }
    let total = trail.ask(&["--count"])?;
    ensure!(total.lines.len() == 1, "{:?}", total.lines);
    ensure!(
        total.lines[0].split_whitespace().next() == Some(&trail.lines.len().to_string()),
        "{} of {}",
        total.lines[0],
        trail.lines.len()
    );
    Ok(())
}

#[test]
fn for_people_it_is_what_tail_shows() -> Result<()> {
    let trail = Trail::new()?;
    let tail = Command::new(programs::agent()?)
        .args(["audit", "tail", "-n", "10000", "--server", "left", "--audit"])
        .arg(trail.bench.audit())
        .output()?;
    let asked = trail.ask(&["--server", "left"])?;
    ensure!(
        String::from_utf8(tail.stdout)?.lines().eq(&asked.lines),
        "{:?}",
        asked.lines
    );
    ensure!(
        asked
            .lines
            .iter()
            .any(|line| line.contains("deny connect 127.0.0.1:4711")),
        "{:?}",
        asked.lines
    );
    let first = trail.ask(&["--server", "left", "--limit", "2"])?;
    ensure!(first.lines == asked.lines[..2], "{:?}", first.lines);
    Ok(())
}

#[test]
fn damage_and_foreign_files_are_told_and_the_rest_is_shown() -> Result<()> {
    let trail = Trail::new()?;
    let place = trail.copy("damaged")?;
    let mut lines = trail.lines.clone();
    // One record altered so that a careless reader would believe it, one line of rubbish.
    lines[1] = lines[1].replacen("\"server\":\"left\"", "\"server\":\"lefd\"", 1);
    ensure!(lines[1] != trail.lines[1], "the second record names a server");
    let last = lines.len() - 1;
    lines[last] = "\u{1b}[31mgarbage".into();
    fs::write(place.join("000001.jsonl"), lines.join("\n") + "\n")?;
    fs::write(place.join("notes.txt"), "somebody's")?;
    std::os::unix::fs::symlink("/etc/shadow", place.join("000002.jsonl"))?;
    let asked = ask_in(&place, &["--json"])?;
    ensure!(asked.status == Some(1), "{:?}: {}", asked.status, asked.said);
    let expected: Vec<&String> = trail
        .lines
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 1 && *at != last)
        .map(|(_, line)| line)
        .collect();
    ensure!(asked.lines.iter().eq(expected), "{:?}", asked.lines);
    for words in [
        "note: `notes.txt` is no file of the audit".to_owned(),
        "damaged: 000001.jsonl line 2: its hash is not that of its content".to_owned(),
        format!("damaged: 000001.jsonl line {}: ", last + 1),
        "damaged: 000002.jsonl: it cannot be opened".to_owned(),
        "error: the audit trail is damaged".to_owned(),
    ] {
        ensure!(asked.said.contains(&words), "`{words}` is not in: {}", asked.said);
    }
    ensure!(
        !asked.said.contains('\u{1b}'),
        "a control character came through: {:?}",
        asked.said
    );
    Ok(())
}

#[test]
fn names_that_no_record_has_are_usage_errors_that_list_those_there_are() -> Result<()> {
    let trail = Trail::new()?;
    for (arguments, known) in [
        (["--kind", "calls"], "launch"),
        (["--status", "fine"], "cancelled"),
        (["--op", "opnat"], "`open`, `exec`"),
        (["--layer", "selinux"], "cgroup-bpf"),
        (["--errno", "EACCESS"], "EACCES"),
        (["--decision", "maybe"], "deny"),
        (["--by", "colour"], "errno"),
        (["--since", "yesterday"], "how long ago"),
        (["--address", "localhost"], "192.0.2.0/24"),
    ] {
        let asked = trail.ask(&arguments)?;
        ensure!(
            asked.status == Some(2) && asked.lines.is_empty(),
            "{arguments:?}: {:?}",
            asked.status
        );
        let shape: Vec<&str> = asked
            .said
            .lines()
            .map(|line| line.split(':').next().unwrap_or(""))
            .collect();
        ensure!(
            shape == ["error", "  why", "  fix"],
            "{arguments:?}: {}",
            asked.said
        );
        ensure!(asked.said.contains(known), "{arguments:?}: {}", asked.said);
    }
    Ok(())
}

#[test]
fn a_trail_that_is_not_there_or_empty_is_called_so() -> Result<()> {
    let bench = Bench::new("query-none")?;
    let asked = ask_in(&bench.audit(), &[])?;
    ensure!(
        asked.status == Some(2) && asked.lines.is_empty(),
        "{:?}",
        asked.status
    );
    ensure!(
        asked
            .said
            .contains("does not exist: no `run` has recorded anything there yet"),
        "{}",
        asked.said
    );
    ensure!(!asked.said.contains("os error"), "{}", asked.said);
    fs::create_dir(bench.audit())?;
    let asked = ask_in(&bench.audit(), &[])?;
    ensure!(
        asked.status == Some(0) && asked.said.contains("there is no record in"),
        "{}",
        asked.said
    );
    Ok(())
}

/// While servers write: no line is half, none is called damage.
#[test]
fn a_live_directory_is_read_without_false_alarms() -> Result<()> {
    let (scratch, bench, user) = (
        Scratch::new("query-live")?,
        Bench::new("query-live-bench")?,
        User::of_tests()?,
    );
    let probe = scratch.path().join("guard-probe");
    fs::copy(programs::probe()?, &probe)?;
    let mut server = AgentBuilder::new(&bench)
        .user(&user.name)
        .runtime("static")
        .root(scratch.path(), "rx")
        .command([probe.into_os_string(), "batch".into()])
        .spawn()?;
    let mut before = 0;
    for port in 1000..1060 {
        server.send(&json!({"probe": "tcp4", "args": {"tcp4": port.to_string()}}).to_string())?;
        server.line(PATIENCE)?;
        let asked = ask_in(&bench.audit(), &["--json"])?;
        ensure!(asked.status == Some(0), "{}", asked.said);
        for line in &asked.lines {
            serde_json::from_str::<Value>(line).with_context(|| format!("no record: {line}"))?;
        }
        ensure!(asked.lines.len() >= before, "records went away");
        before = asked.lines.len();
    }
    ensure!(
        before > 20,
        "only {before} records were seen while they were made"
    );
    server.finish(PATIENCE)?;
    Ok(())
}
