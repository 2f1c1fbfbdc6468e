//! The first instruction of a server already runs confined: a planted file, a thousand launches.
//!
//! `GUARD_TEST_ROUNDS` sets another number of rounds.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    control::User,
    guards::Scratch,
    leftovers::Ours,
    programs,
};
use serde::Deserialize;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize)]
struct Said {
    first: String,
    errno: i32,
    opened: bool,
}

struct Ground {
    scratch: Scratch,
    bench: Bench,
    planted: PathBuf,
    program: PathBuf,
    user: User,
}

impl Ground {
    fn new() -> Result<Self> {
        let (scratch, bench) = (Scratch::new("race")?, Bench::new("race-bench")?);
        let bin = scratch.path().join("bin");
        fs::create_dir(&bin)?;
        let program = bin.join("guard-first");
        fs::copy(programs::first()?, &program)?;
        let planted = scratch.path().join("planted");
        fs::write(&planted, "GUARD-SECRET")?;
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o644))?;
        let new = Self {
            scratch,
            bench,
            planted,
            program,
            user: User::of_tests()?,
        };
        new.control()?;
        Ok(new)
    }

    /// Outside and as the same uid every one of the three opens succeeds.
    fn control(&self) -> Result<()> {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(&self.program);
        let output = command
            .arg(&self.planted)
            .arg("fork")
            .uid(self.user.uid)
            .gid(self.user.gid)
            .output()?;
        let said = read(&String::from_utf8_lossy(&output.stdout))?;
        let names: Vec<_> = said.iter().map(|line| line.first.as_str()).collect();
        ensure!(
            names == ["first", "grandchild", "orphan"],
            "control did not succeed: {said:?}"
        );
        ensure!(
            said.iter().all(|line| line.opened),
            "control did not succeed: {said:?}"
        );
        Ok(())
    }

    fn launch(&self, view: &str, fork: bool) -> Result<Vec<Said>> {
        let mut words = vec![
            self.program.clone().into_os_string(),
            self.planted.clone().into_os_string(),
        ];
        if fork {
            words.push("fork".into());
        }
        let finished = AgentBuilder::new(&self.bench)
            .user(&self.user.name)
            .view(view)
            .runtime("static")
            .root(&self.scratch.path().join("bin"), "rx")
            .command(words)
            .run("", PATIENCE)?;
        read(&finished.stdout).with_context(|| format!("{}: {}", finished.status, finished.stderr))
    }
}

fn read(text: &str) -> Result<Vec<Said>> {
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("unreadable: `{line}`")))
        .collect()
}

fn rounds() -> usize {
    std::env::var("GUARD_TEST_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1000)
}

fn race(fork: bool) -> Result<()> {
    let mut ground = Ground::new()?;
    rounds_of(&ground, fork).inspect_err(|_| ground.bench.keep())
}

fn rounds_of(ground: &Ground, fork: bool) -> Result<()> {
    let ours = Ours::before(&ground.bench, &[ground.scratch.path()])?;
    let expected = if fork {
        vec!["first", "grandchild", "orphan"]
    } else {
        vec!["first"]
    };
    let (rounds, started) = (rounds(), Instant::now());
    for round in 0..rounds {
        // Both views: in the host's the file is there and must be refused, in the private one it must not exist.
        let view = if round % 2 == 0 { "host" } else { "private" };
        let said = ground
            .launch(view, fork)
            .with_context(|| format!("round {round}, {view} view"))?;
        let names: Vec<_> = said.iter().map(|line| line.first.as_str()).collect();
        ensure!(names == expected, "round {round}: {said:?}");
        for line in &said {
            let refused = if view == "host" {
                vec![libc::EACCES, libc::ENOENT]
            } else {
                vec![libc::ENOENT, libc::EACCES]
            };
            ensure!(
                !line.opened && refused.contains(&line.errno),
                "round {round}, {view} view: a slip: {line:?}"
            );
        }
        if round % 100 == 99 {
            eprintln!(
                "{} of {rounds} launches, {:.1} ms each",
                round + 1,
                started.elapsed().as_secs_f64() * 1e3 / (round + 1) as f64
            );
        }
    }
    // The warden may stay until it has been idle; nothing of a sandbox may.
    ours.no_sandbox_within(Duration::from_secs(1))?;
    // With its idle time over the warden leaves too, and takes everything with it.
    ours.none_within(Duration::from_secs(20))?;
    let records = ground.bench.records()?;
    for kind in ["launch", "exit"] {
        let count = records.iter().filter(|record| record.kind == kind).count();
        ensure!(count == rounds, "{count} `{kind}` records for {rounds} launches");
    }
    Ok(())
}

#[test]
fn thousand_launches() -> Result<()> {
    race(false)
}

#[test]
fn thousand_double_forks() -> Result<()> {
    race(true)
}
