//! One warden for all sessions of a directory, and only as long as there are some.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    life::{left::Role, limit, stage::Stage, trail},
    programs,
};

use super::{ended, on_stage};

fn ready(stage: &Stage) -> Result<guard_tests::life::stage::Session> {
    let mut session = stage.start(&mut stage.puppet(["say=ready", "echo"]))?;
    ensure!(session.line()? == "ready");
    Ok(session)
}

fn wardens(stage: &Stage) -> Vec<i32> {
    stage.left().pids(Role::Warden)
}

#[test]
fn two_sessions_share_one_and_it_leaves() -> Result<()> {
    on_stage(|stage| {
        let first = ready(stage)?;
        let warden = wardens(stage);
        let second = ready(stage)?;
        ensure!(
            warden.len() == 1 && wardens(stage) == warden,
            "{warden:?}, then {:?}",
            wardens(stage)
        );
        ensure!(stage.left().sandboxes() == 2, "{:?}", stage.left().lines());
        ended(&first.finish()?, 0)?;
        // The other session goes on, longer than the idle time.
        std::thread::sleep(Duration::from_millis(u64::from(stage.idle) * 5));
        ensure!(wardens(stage) == warden, "the warden left a session alone");
        ended(&second.finish()?, 0)?;
        stage.nothing_left()?;
        ensure!(
            !stage.state().join("warden.sock").exists(),
            "its socket is still there"
        );
        Ok(())
    })
}

#[test]
fn two_cold_starts_at_once() -> Result<()> {
    on_stage(|stage| {
        for round in 0..10 {
            let both: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| ready(stage))).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("a start panicked"))
                    .collect()
            });
            let sessions = both
                .into_iter()
                .collect::<Result<Vec<_>>>()
                .with_context(|| format!("round {round}"))?;
            ensure!(
                stage.left().sandboxes() == 2,
                "round {round}: {:?}",
                stage.left().lines()
            );
            // The one that came second ended at once, and its starter has fetched it.
            let warden = stage.wait_until("more than one warden", || {
                (wardens(stage).len() == 1).then(|| wardens(stage))
            })?;
            ensure!(
                zombies_of(
                    &sessions
                        .iter()
                        .map(guard_tests::life::stage::Session::pid)
                        .collect::<Vec<_>>()
                )? == 0,
                "a zombie of `run`"
            );
            for session in sessions {
                ended(&session.finish()?, 0)?;
            }
            ensure!(!warden.is_empty());
            stage.nothing_left().with_context(|| format!("round {round}"))?;
        }
        Ok(())
    })
}

fn zombies_of(parents: &[i32]) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some(rest) = stat.rsplit(") ").next() else {
            continue;
        };
        let mut fields = rest.split(' ');
        if fields.next() == Some("Z")
            && fields
                .next()
                .and_then(|text| text.parse().ok())
                .is_some_and(|pid| parents.contains(&pid))
        {
            count += 1;
        }
    }
    Ok(count)
}

/// The warden leaves at once when it has nothing to do: each run may meet it on its way out.
#[test]
fn runs_while_it_leaves() -> Result<()> {
    on_stage(|stage| {
        stage.idle = 1;
        for round in 0..50 {
            let done = stage.finish(&mut stage.puppet(["say=here"]), b"")?;
            ended(&done, 0).with_context(|| format!("round {round}{}", stage.log()))?;
            ensure!(done.text() == "here\n", "round {round}: {:?}", done.text());
        }
        let records = stage.records()?;
        ensure!(trail::kind(&records, "launch").len() == 50 && trail::kind(&records, "exit").len() == 50);
        Ok(())
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Not a test of speed: figures for the report, with a bound that only a blunder exceeds.
#[test]
fn what_a_launch_costs() -> Result<()> {
    on_stage(|stage| {
        let cold: Vec<Duration> = (0..5)
            .map(|_| {
                let done = stage.finish(&mut stage.puppet(["exit=0"]), b"")?;
                ended(&done, 0)?;
                stage.nothing_left()?;
                Ok(done.took)
            })
            .collect::<Result<_>>()?;
        stage.idle = 2000;
        ended(&stage.finish(&mut stage.puppet(["exit=0"]), b"")?, 0)?;
        let mut warm = Vec::new();
        let mut bare = Vec::new();
        for _ in 0..50 {
            let done = stage.finish(&mut stage.puppet(["exit=0"]), b"")?;
            ended(&done, 0)?;
            warm.push(done.took);
            let start = Instant::now();
            std::process::Command::new(programs::puppet()?)
                .arg("exit=0")
                .status()?;
            bare.push(start.elapsed());
        }
        let (cold, warm, bare) = (median(cold), median(warm), median(bare));
        eprintln!("cold run {cold:?}, warm run {warm:?} (median of 50), bare {bare:?}");
        ensure!(warm < limit(Duration::from_secs(1)), "a warm run took {warm:?}");
        ensure!(cold < limit(Duration::from_secs(3)), "a cold run took {cold:?}");
        Ok(())
    })
}
