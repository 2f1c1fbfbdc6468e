//! Audit directories with a trail that is damaged, or with files of somebody else in them.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use anyhow::{Result, ensure};
use guard_tests::{
    agent::AgentBuilder,
    picture::Picture,
    programs,
    refused::{PATIENCE, Stage, Status, text},
};

fn audit(stage: &Stage, words: &[&str]) -> Result<Output> {
    Ok(Command::new(programs::agent()?)
        .args(["audit", words[0], "--audit"])
        .arg(stage.bench.audit())
        .args(&words[1..])
        .output()?)
}

/// A trail of two launches, its warden gone.
fn trail(name: &str) -> Result<Stage> {
    let stage = Stage::new(name)?;
    for _ in 0..2 {
        let finished = stage.run().run("", PATIENCE)?;
        ensure!(finished.status.success(), "{}", finished.stderr);
        // Another uid each time.
        fs::remove_file(stage.marker())?;
    }
    stage.no_session()?;
    Ok(stage)
}

fn picture(path: &Path) -> Result<Picture> {
    let mut picture = Picture::default();
    picture.add(path)?;
    // Its text is the last writer's number.
    picture.forget(&path.join("lock"));
    picture.forget(path);
    Ok(picture)
}

/// One byte of the first record: nothing is launched over it, nothing of it is changed, and each reader says so.
#[test]
fn a_damaged_segment() -> Result<()> {
    let stage = trail("damaged")?;
    let segment = stage.bench.audit().join("000001.jsonl");
    let good = fs::read_to_string(&segment)?;
    let lines: Vec<&str> = good.lines().collect();
    let bad = good.replacen("\"tier\":\"T2\"", "\"tier\":\"T1\"", 1);
    ensure!(bad != good, "the launch has a tier");
    fs::write(&segment, &bad)?;
    let before = picture(&stage.bench.audit())?;
    let run = stage.run();
    let why = format!(
        "audit segment `{}` is damaged at line 1 (record 1): its hash is not that of its content",
        text(&segment)
    );
    let fix =
        "run `guard-agent audit verify`, keep the directory as evidence, and start a new one with `--audit`";
    let finished = run.run("", PATIENCE)?;
    let told = format!("error: cannot use the audit trail\n  why: {why}\n  fix: {fix}\n");
    ensure!(finished.stderr == told, "{}", finished.stderr);
    ensure!(
        finished.status.code() == Some(Status::Internal as i32) && finished.stdout.is_empty(),
        "{}",
        finished.status
    );
    ensure!(!stage.marker().exists(), "the server was started");
    stage.no_session()?;
    let after = picture(&stage.bench.audit())?;
    ensure!(before == after, "changed: {:#?}", before.difference(&after));

    let verify = audit(&stage, &["verify"])?;
    let said = String::from_utf8_lossy(&verify.stdout);
    ensure!(
        verify.status.code() == Some(1) && said.contains("BAD: 000001.jsonl line 1 (record 1): its hash"),
        "{said}"
    );
    let query = audit(&stage, &["query", "--json"])?;
    let shown = String::from_utf8_lossy(&query.stdout);
    let said = String::from_utf8_lossy(&query.stderr);
    ensure!(
        query.status.code() == Some(1) && shown.lines().eq(lines[1..].iter().copied()),
        "{shown}"
    );
    ensure!(
        said.starts_with("damaged: 000001.jsonl line 1: its hash"),
        "{said}"
    );
    // With a directory of its own the same launch works, and the evidence stays.
    let other = stage.path("other-audit");
    let elsewhere = AgentBuilder::bare()
        .option("--state", stage.bench.state())
        .option("--audit", &other)
        .root(&stage.path("mark"), "rw")
        .command(stage.touch())
        .outer_env("GUARD_AGENT_IDLE_MS", "100");
    let finished = elsewhere.run("", PATIENCE)?;
    ensure!(
        finished.status.success() && stage.marker().exists(),
        "{}",
        finished.stderr
    );
    ensure!(other.join("000001.jsonl").is_file(), "no trail was begun");
    let after = picture(&stage.bench.audit())?;
    ensure!(before == after, "changed: {:#?}", before.difference(&after));
    Ok(())
}

/// Notes of somebody, another program's log, a directory: they are left alone, told by the readers, and no reason to
/// refuse.
#[test]
fn foreign_files() -> Result<()> {
    let stage = trail("foreign-files")?;
    let place = stage.bench.audit();
    for (name, content) in [
        ("notes.txt", "mine"),
        ("000002.jsonl.bak", "{}"),
        ("0000003.jsonl", "{}"),
        ("torn-x.bin", "?"),
    ] {
        fs::write(place.join(name), content)?;
    }
    fs::create_dir(place.join("old"))?;
    let names = [
        "0000003.jsonl",
        "000002.jsonl.bak",
        "notes.txt",
        "old",
        "torn-x.bin",
    ];
    let mut before = Picture::default();
    for name in names {
        before.add(&place.join(name))?;
    }
    let finished = stage.run().run("", PATIENCE)?;
    ensure!(
        finished.status.success() && stage.marker().exists(),
        "{}",
        finished.stderr
    );
    stage.no_session()?;
    let mut after = Picture::default();
    for name in names {
        after.add(&place.join(name))?;
    }
    ensure!(before == after, "changed: {:#?}", before.difference(&after));
    for words in [&["verify"][..], &["query"], &["tail"]] {
        let output = audit(&stage, words)?;
        ensure!(output.status.success(), "{words:?}: {}", output.status);
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        for name in names.iter().filter(|_| words[0] != "tail") {
            let note = format!("note: `{name}` is no file of the audit and was not looked at\n");
            ensure!(
                said.contains(&note),
                "{words:?} does not tell of `{name}`: {said}"
            );
        }
        ensure!(
            words[0] == "verify" || said.contains(" launch "),
            "{words:?}: {said}"
        );
    }
    Ok(())
}

/// A state directory in the audit directory, or the other way round: neither may hold files of the other.
#[test]
fn state_and_audit_in_one_another() -> Result<()> {
    let stage = Stage::new("nested")?;
    let place = stage.directory("place")?;
    let run = |state: &Path, audit: &Path| {
        AgentBuilder::bare()
            .option("--state", state)
            .option("--audit", audit)
            .root(&stage.path("mark"), "rw")
            .command(stage.touch())
            .outer_env("GUARD_AGENT_IDLE_MS", "100")
    };
    for (state, audit, how) in [
        (place.clone(), place.clone(), "is"),
        (place.join("state"), place.clone(), "lies in"),
        (place.clone(), place.join("audit"), "holds"),
    ] {
        let what = format!("cannot use state directory `{}`", text(&state));
        let why = format!(
            "it {how} the audit directory `{}`: neither may hold files of the other",
            text(&audit)
        );
        let fix = "give them directories apart with `--state` and `--audit`";
        stage.refused(&run(&state, &audit), Status::Usage, [&what, &why, fix])?;
    }
    ensure!(fs::read_dir(&place)?.next().is_none(), "something was made");
    Ok(())
}
