//! A server that floods us: every attempt is counted, memory and disk stay small, neighbours see nothing of it, and
//! where the policy says so it is frozen.

mod quarantine;

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    acting::{PATIENCE, Stage, Told, act},
    agent::{Bench, Live},
    life::left::{Left, Role},
    records::Record,
};
use serde_json::{Value, json};

/// Refused opens of the server that floods.
fn attempts() -> u64 {
    let asked = std::env::var("GUARD_TEST_FLOOD")
        .ok()
        .and_then(|text| text.parse().ok());
    asked.unwrap_or(1_000_000)
}

/// How long a flood may take, on an emulated machine too.
const FLOOD: Duration = Duration::from_secs(400);
/// What a warden, a gateway, a reaper and an init may have had in memory, each and together.
const MOST_KIB: u64 = 64 << 10;
/// Bytes a session may write: both budgets, and what is always written.
const MOST_BYTES: usize = (1 << 20) + (256 << 10) + (64 << 10);

/// The most memory each of our processes ever had, KiB.
fn peaks(bench: &Bench) -> Result<Vec<(Role, u64)>> {
    let left = Left::look(bench.path(), &bench.state());
    let mut found = Vec::new();
    for role in [Role::Warden, Role::Run, Role::Reaper, Role::Init] {
        let pids = left.pids(role);
        ensure!(!pids.is_empty(), "no {role:?} runs");
        for pid in pids {
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            let peak = status
                .lines()
                .find_map(|line| {
                    line.strip_prefix("VmHWM:")?
                        .trim()
                        .strip_suffix(" kB")?
                        .parse()
                        .ok()
                })
                .with_context(|| format!("no peak of {role:?}"))?;
            found.push((role, peak));
        }
    }
    Ok(found)
}

/// Everything of a session that was denied, whatever became of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    first: u64,
    repeated: u64,
    over: u64,
    lost: u64,
    unread: u64,
}

impl Sum {
    fn of(told: &Told) -> Self {
        let mut sum = Self::default();
        for record in told.kernel.iter().filter(|record| record["decision"] == "deny") {
            match record["repeat"].as_u64() {
                None => sum.first += 1,
                Some(repeat) => sum.repeated += repeat,
            }
        }
        for gap in &told.gaps {
            let lost = gap["gap"]["lost"].as_u64().unwrap_or(0);
            match gap["gap"]["kind"].as_str() {
                Some("over-budget") => sum.over += lost,
                Some("ring-full") => sum.lost += lost,
                Some("unread") => sum.unread += lost,
                _ => {}
            }
        }
        sum
    }

    fn all(&self) -> u64 {
        self.first + self.repeated + self.over + self.lost + self.unread
    }
}

/// Bytes of one session's lines on the disk.
fn bytes(stage: &Stage, session: &str) -> Result<usize> {
    let mut sum = 0;
    for entry in fs::read_dir(stage.bench.audit())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = fs::read_to_string(&path)?;
            sum += text
                .lines()
                .filter(|line| line.contains(session))
                .map(|line| line.len() + 1)
                .sum::<usize>();
        }
    }
    Ok(sum)
}

fn answer(server: &mut Live, within: Duration) -> Result<Value> {
    let line = server.line(within)?;
    serde_json::from_str(&line).with_context(|| format!("unreadable: `{line}`"))
}

/// What a server is refused that does nothing at all.
fn of_start(stage: &mut Stage) -> Result<u64> {
    let agent = stage.agent();
    stage.start(&agent)?;
    ensure!(stage.act(&act("open", stage.at("rw/file")))? == "ok");
    Ok(Sum::of(&stage.told()?).all())
}

struct Neighbour {
    calls: u32,
    refused: u64,
    slowest: Duration,
}

/// A hundred calls of another server, ten of them refused.
fn neighbour(stage: &Stage, server: &mut Live) -> Result<Neighbour> {
    let mut done = Neighbour {
        calls: 0,
        refused: 0,
        slowest: Duration::ZERO,
    };
    for call in 0..100 {
        let refused = call % 10 == 5;
        let path = if refused {
            stage.at("outside").join(format!("neighbour-{call}"))
        } else {
            stage.at("rw/file")
        };
        let start = Instant::now();
        server.send(&act("open", &path).to_string())?;
        let answer = answer(server, PATIENCE)?;
        done.slowest = done.slowest.max(start.elapsed());
        ensure!((answer["outcome"] == "ok") != refused, "{path:?}: {answer}");
        done.calls += 1;
        done.refused += u64::from(refused);
    }
    Ok(done)
}

/// One flood beside one neighbour.
fn flooded(every: u64) -> Result<()> {
    let mut stage = Stage::new("private")?;
    let base = of_start(&mut stage)?;
    let (mut bad, mut good) = (
        stage.agent().option("--name", "flood").spawn()?,
        stage.agent().option("--name", "neighbour").spawn()?,
    );
    // Both run before it begins.
    for server in [&mut bad, &mut good] {
        server.send(&act("open", stage.at("rw/file")).to_string())?;
        ensure!(answer(server, PATIENCE)?["outcome"] == "ok");
    }
    let times = attempts();
    let begun = Instant::now();
    let flood = json!({"act": "flood", "path": stage.at("outside/flood"), "times": times, "number": every});
    bad.send(&flood.to_string())?;
    let done = neighbour(&stage, &mut good)?;
    let meanwhile = begun.elapsed();
    let told = answer(&mut bad, FLOOD)?;
    let took = begun.elapsed();
    let tried = told["opens"].as_u64().unwrap_or(0) + told["connects"].as_u64().unwrap_or(0);
    ensure!(tried >= times, "{told}");
    let peaks = peaks(&stage.bench)?;
    for server in [bad, good] {
        let finished = server.finish(PATIENCE)?;
        ensure!(
            finished.status.success(),
            "{}: {}",
            finished.status,
            finished.stderr
        );
    }
    let told = session(&stage, "flood")?;
    let sum = Sum::of(&told);
    eprintln!(
        "every {every}: {tried} denied in {took:?}: {sum:?}; neighbour {meanwhile:?}, slowest call {:?}; peaks {peaks:?}",
        done.slowest
    );
    ensure!(
        sum.all() == tried + base,
        "tried {tried} and {base} at its start, told {}: {sum:?}",
        sum.all()
    );
    ensure!(sum.unread == 0, "{sum:?}");
    if every > 0 {
        ensure!(sum.over > 0, "so many different ones go over the budget: {sum:?}");
    } else {
        ensure!(sum.over == 0, "the same one again costs nothing: {sum:?}");
    }
    let id = told
        .launch
        .field("session")
        .and_then(Value::as_str)
        .context("no session")?;
    let written = bytes(&stage, id)?;
    ensure!(written <= MOST_BYTES, "{written} bytes were written");
    // Those of this server: one of each role.
    let most = |role| {
        peaks
            .iter()
            .filter(|(is, _)| *is == role)
            .map(|(_, peak)| *peak)
            .max()
    };
    let all: u64 = [Role::Warden, Role::Run, Role::Reaper, Role::Init]
        .into_iter()
        .filter_map(most)
        .sum();
    ensure!(all < MOST_KIB, "{all} KiB in all: {peaks:?}");

    // The neighbour's own ten are on record, one by one.
    ensure!((done.calls, done.refused) == (100, 10));
    ensure!(
        done.slowest < Duration::from_secs(5),
        "a call took {:?}",
        done.slowest
    );
    let told = session(&stage, "neighbour")?;
    ensure!(told.gaps.is_empty(), "{:?}", told.gaps);
    for call in (0..100).filter(|call| call % 10 == 5) {
        let path = stage.text(&format!("outside/neighbour-{call}"));
        let records = told.about("open", &path);
        ensure!(
            records.len() == 1 && records[0]["repeat"].is_null(),
            "{path}: {records:?}"
        );
    }
    Ok(())
}

/// The records of the server of that name.
fn session(stage: &Stage, server: &str) -> Result<Told> {
    let records = stage.bench.records()?;
    let ours = |record: &&Record| record.field("server").and_then(Value::as_str) == Some(server);
    let launch = records
        .iter()
        .filter(ours)
        .rfind(|record| record.kind == "launch")
        .with_context(|| format!("no launch of `{server}`"))?;
    Told::of(&records, launch, String::new())
}

#[test]
fn the_same_attempt_a_million_times() -> Result<()> {
    flooded(0)
}

#[test]
fn many_different_attempts_among_them() -> Result<()> {
    flooded(20)
}
