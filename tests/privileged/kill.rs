//! SIGKILL for each of our processes, at every step and at any moment: no orphan, and the trail knows.

use std::{
    collections::BTreeSet,
    io::Read as _,
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    life::{
        chance::Chance,
        left::{self, Role},
        limit,
        stage::{Session, Stage},
        steps, trail,
    },
    programs,
    tier::Tier,
    workers::Ordinary,
};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

#[path = "kill/outside.rs"]
mod outside;

use outside::Outside;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let mut trials = vec![Trial::test("every_step_is_here", || told(steps::complete()))];
    let tier = match Tier::current() {
        Ok(tier) => tier,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    let points = [
        steps::warden(tier),
        vec!["reaper.ready"],
        steps::launch(tier),
        steps::LAUNCH_WRITES.to_vec(),
        steps::gateway(tier),
    ];
    for step in points.concat() {
        trials.push(Trial::test(format!("at::{step}"), move || {
            told(at(step, step.starts_with("gateway.")))
        }));
    }
    for step in steps::END_WRITES {
        trials.push(Trial::test(format!("at::{step}"), move || told(at(step, true))));
    }
    for step in steps::CLOSE_WRITES {
        trials.push(Trial::test(format!("at::{step}"), move || {
            told(closing(step, true))
        }));
    }
    trials.push(Trial::test("at::warden.leave", || {
        told(closing("warden.leave", false))
    }));
    for step in steps::SWEEP {
        trials.push(Trial::test(format!("reaper_at::{step}"), move || {
            told(sweeping(step, Role::Reaper))
        }));
        trials.push(Trial::test(format!("next_warden_at::{step}"), move || {
            told(sweeping(step, Role::Warden))
        }));
    }
    for (name, roles) in [
        ("run", &[Role::Run][..]),
        ("warden", &[Role::Warden]),
        ("reaper", &[Role::Reaper]),
        ("init", &[Role::Init]),
        ("warden_and_reaper", &[Role::Warden, Role::Reaper]),
        ("run_and_warden", &[Role::Run, Role::Warden]),
    ] {
        trials.push(Trial::test(format!("during::{name}"), move || {
            told(during(roles))
        }));
    }
    trials.push(Trial::test("during::warden_and_reaper_while_init_hangs", || {
        told(init_hangs())
    }));
    trials.push(Trial::test("during::warden_stands_still", || {
        told(warden_stands_still())
    }));
    trials.push(Trial::test("two_sessions_one_warden", || told(two_sessions())));
    trials.push(Trial::test("random_moments", || told(random())));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn told(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

fn on_stage<T>(test: impl FnOnce(&Stage) -> Result<T>) -> Result<T> {
    steps::require_faults(&programs::agent()?)?;
    let mut stage = Stage::new("kill")?;
    let result = test(&stage);
    if result.is_err() {
        stage.keep();
    }
    result
}

fn shoot(pid: i32) {
    // Gone already is as good.
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
}

/// Nothing is left; the next warden completes the trail; it verifies.
fn ended_well(stage: &Stage) -> Result<()> {
    stage.nothing_left_but_files()?;
    stage.works()?;
    stage.nothing_left()?;
    stage.verify()?;
    trail::complete(&stage.records()?)
}

/// The process that reaches the step dies there. `ran`: whether the child may have begun.
fn at(step: &str, ran: bool) -> Result<()> {
    on_stage(|stage| {
        let mark = stage.work("mark");
        let words = [
            format!("mark={}", mark.display()),
            "daemons=1".into(),
            "say=ran".into(),
        ];
        let mut command = stage.puppet_at(step, words);
        command.env("GUARD_AGENT_FAULT", format!("{step}=kill"));
        let done = stage.finish(&mut command, b"")?;
        ensure!(
            !done.status.success(),
            "`{step}` was not reached: success\n{}{}",
            done.stderr,
            stage.log()
        );
        // Killed itself, or told that something else was.
        let said = done.stderr.lines().any(|line| line.starts_with("error: "));
        ensure!(
            said || done.code().is_none(),
            "ended with {} without a word:\n{}",
            done.status,
            done.stderr
        );
        ensure!(ran || !mark.exists(), "the child ran");
        ended_well(stage)
    })
}

/// The warden dies when the session is over and told: while it closes the trail, while it leaves.
fn closing(step: &str, unclean: bool) -> Result<()> {
    on_stage(|stage| {
        let mut command = stage.puppet_at(step, ["say=ran"]);
        command.env("GUARD_AGENT_FAULT", format!("{step}=kill"));
        let done = stage.finish(&mut command, b"")?;
        ensure!(
            done.code() == Some(0),
            "ended with {}:\n{}",
            done.status,
            done.stderr
        );
        stage.nothing_left_but_files()?;
        // An orderly warden ends its reaper before that can say anything.
        let log = stage.log();
        ensure!(log.contains("the warden died"), "`{step}` was not reached:{log}");
        ended_well(stage)?;
        let records = stage.records()?;
        let told = trail::kind(&records, "gap")
            .iter()
            .any(|gap| gap.body.to_string().contains("unclean-close"));
        ensure!(
            told == unclean,
            "a gap for the open end: {told}, expected: {unclean}"
        );
        Ok(())
    })
}

/// A server with daemons that do not listen to SIGTERM.
fn busy(stage: &Stage, fault: &str, more: &[String]) -> Result<Session> {
    let mut words = vec!["stubborn".to_owned(), "daemons=3".into()];
    words.extend_from_slice(more);
    words.extend(["say=ready".into(), "echo".into(), "forever".into()]);
    let mut command = stage.puppet(words);
    command.env("GUARD_AGENT_FAULT", fault);
    let mut session = stage.start(&mut command)?;
    let line = session.line()?;
    ensure!(line == "ready", "it said {line:?}");
    Ok(session)
}

/// The one who clears up dies too; the next warden does it.
fn sweeping(step: &str, who: Role) -> Result<()> {
    on_stage(|stage| {
        let fault = if who == Role::Reaper {
            format!("{step}=kill")
        } else {
            String::new()
        };
        let session = busy(stage, &fault, &[])?;
        let left = stage.left();
        let warden = *left.pids(Role::Warden).first().context("no warden")?;
        if who == Role::Warden {
            // Both at once, so that the next start finds work.
            left.pids(Role::Reaper).into_iter().for_each(stop);
        }
        shoot(warden);
        if who == Role::Warden {
            left.pids(Role::Reaper).into_iter().for_each(shoot);
        }
        drop(session.wait()?);
        if who == Role::Warden {
            let mut command = stage.puppet(["say=ran"]);
            command.env("GUARD_AGENT_FAULT", format!("{step}=kill"));
            let done = stage.finish(&mut command, b"")?;
            ensure!(
                done.code() == Some(4),
                "the sweeping warden did not die: {}\n{}",
                done.status,
                done.stderr
            );
        }
        // The sandbox's inits die with the warden, whoever else is dead.
        stage.wait_until("the sandbox lives on", || {
            processes(stage).is_empty().then_some(())
        })?;
        stage.works()?;
        stage.nothing_left()?;
        stage.verify()?;
        trail::complete(&stage.records()?)
    })
}

/// A warden that is not scheduled any more: what it loaded decides without it, and it goes on where it was.
fn warden_stands_still() -> Result<()> {
    on_stage(|stage| {
        let outside = Outside::new(stage)?;
        let mut session = busy(stage, "", &outside.words)?;
        let warden = stage.wait_for(Role::Warden)?;
        stop(warden);
        // Enough for its ring to fill up: what the server tries it tries without a pause.
        std::thread::sleep(limit(Duration::from_millis(500)).min(Duration::from_secs(10)));
        outside.untouched(stage)?;
        kill(Pid::from_raw(warden), Signal::SIGCONT)?;
        let mut input = session.stdin.take().context("its input is taken")?;
        std::io::Write::write_all(&mut input, b"still\n")?;
        ensure!(session.line()? == "still", "it answers");
        shoot(session.pid());
        drop(session.wait()?);
        outside.untouched(stage)?;
        ended_well(stage)
    })
}

fn stop(pid: i32) {
    let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
}

fn processes(stage: &Stage) -> Vec<i32> {
    let left = stage.left();
    [Role::Init, Role::Server]
        .into_iter()
        .flat_map(|role| left.pids(role))
        .collect()
}

/// An init that reads no word any more dies with the warden all the same: the kernel ends it.
fn init_hangs() -> Result<()> {
    on_stage(|stage| {
        let outside = Outside::new(stage)?;
        let session = busy(stage, "", &outside.words)?;
        let left = stage.left();
        let init = *left.pids(Role::Init).first().context("no init")?;
        kill(Pid::from_raw(init), Signal::SIGSTOP)?;
        for role in [Role::Warden, Role::Reaper] {
            left.pids(role).into_iter().for_each(shoot);
        }
        drop(session.wait()?);
        stage.wait_until("the sandbox lives on", || {
            processes(stage).is_empty().then_some(())
        })?;
        // Nobody was left to remove the cgroup: the next warden does.
        stage.works()?;
        stage.nothing_left()?;
        stage.verify()?;
        trail::complete(&stage.records()?)
    })
}

/// Processes die while the session works; the child tries to get out all the time.
fn during(roles: &[Role]) -> Result<()> {
    on_stage(|stage| {
        let outside = Outside::new(stage)?;
        outside.control(stage)?;
        let session = busy(stage, "", &outside.words)?;
        // A daemon that is just becoming one has no name yet.
        let left = stage.wait_until("the server and three daemons", || {
            let left = stage.left();
            (left.pids(Role::Server).len() == 4).then_some(left)
        })?;
        let init = *left.pids(Role::Init).first().context("no init")?;
        let namespaces = sandbox_namespaces(init);
        let own = if Tier::current()? == Tier::T3Bare { 0 } else { 6 };
        ensure!(
            namespaces.len() == own,
            "the sandbox has namespaces of its own: {namespaces:?}"
        );
        let now = left::ticks();
        ensure!(
            left::held(&namespaces, now) == namespaces,
            "they are seen while it lives"
        );
        std::thread::sleep(Duration::from_millis(100));
        outside.untouched(stage)?;

        let victims: Vec<i32> = roles.iter().flat_map(|role| left.pids(*role)).collect();
        ensure!(
            victims.len() == roles.len(),
            "a process for each of {roles:?}: {:?}",
            left.lines()
        );
        let shot = Instant::now();
        victims.iter().copied().for_each(shoot);
        let done = session.wait()?;
        ensure!(
            !done.status.success(),
            "`run` ended with success:\n{}",
            done.stderr
        );
        let took = if roles == [Role::Warden, Role::Reaper] {
            // Nobody is left to remove the cgroup: the next warden does. The processes are dead all the same.
            stage.wait_until("the sandbox lives on", || {
                processes(stage).is_empty().then_some(())
            })?;
            shot.elapsed()
        } else {
            stage.nothing_left_but_files()?;
            shot.elapsed()
        };
        stage.wait_until("namespaces are kept alive", || {
            left::held(&namespaces, now).is_empty().then_some(())
        })?;
        // With its two holders the eBPF programs are gone. Namespaces and Landlock hold until init is dead, and neither
        // holds a socket in the server's own root.
        let nobody_holds = roles == [Role::Warden, Role::Reaper] && Tier::current()?.is_root();
        outside.touched_at_most(stage, nobody_holds)?;
        eprintln!("  {roles:?}: everything dead {took:?} after the shot");

        stage.works()?;
        stage.nothing_left()?;
        stage.verify()?;
        let records = stage.records()?;
        trail::complete(&records)?;
        told_in_trail(roles, &records)
    })
}

fn sandbox_namespaces(init: i32) -> BTreeSet<String> {
    let own = left::namespaces(i32::try_from(std::process::id()).unwrap_or(0));
    left::namespaces(init).difference(&own).cloned().collect()
}

/// The reason, and a gap where something could not be known.
fn told_in_trail(roles: &[Role], records: &[guard_tests::records::Record]) -> Result<()> {
    let exits = trail::kind(records, "exit");
    let exit = exits.first().context("no exit record")?;
    let gaps = trail::kind(records, "gap");
    let (reason, gap) = match roles {
        [Role::Run] => ("killed", Some("gateway-died")),
        [Role::Reaper] => ("killed", None),
        [Role::Init] => ("init-died", None),
        _ => ("killed", Some("warden-died")),
    };
    ensure!(
        trail::text(exit, "reason") == reason,
        "the reason is not `{reason}`: {:?}",
        exit.body
    );
    let launch = trail::kind(records, "launch");
    let session = trail::text(launch.first().context("no launch record")?, "session");
    ensure!(
        trail::text(exit, "session") == session,
        "the exit is another session's: {:?}",
        exit.body
    );
    if let Some(gap) = gap {
        let found = gaps
            .iter()
            .any(|record| record.body.to_string().contains(gap) && trail::text(record, "session") == session);
        ensure!(found, "no gap `{gap}` of `{session}` among {gaps:?}");
    }
    Ok(())
}

/// Two sessions share the warden; when it dies both end, and both are recorded.
fn two_sessions() -> Result<()> {
    on_stage(|stage| {
        let (first, second) = (busy(stage, "", &[])?, busy(stage, "", &[])?);
        let left = stage.left();
        ensure!(left.sandboxes() == 2, "two sandboxes: {:?}", left.lines());
        let wardens = left.pids(Role::Warden);
        ensure!(wardens.len() == 1, "one warden: {:?}", left.lines());
        wardens.into_iter().for_each(shoot);
        for session in [first, second] {
            let done = session.wait()?;
            ensure!(
                done.code() == Some(4),
                "ended with {}:\n{}",
                done.status,
                done.stderr
            );
        }
        ended_well(stage)?;
        let exits = trail::kind(&stage.records()?, "exit").len();
        ensure!(exits == 3, "{exits} exit records for two sessions and one more");
        Ok(())
    })
}

/// Any process at any moment of launch, traffic and end.
fn random() -> Result<()> {
    let rounds = std::env::var("GUARD_TEST_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10_u32);
    let mut chance = Chance::from_environment()?;
    eprintln!(
        "  {rounds} rounds; repeat them with GUARD_TEST_SEED={}",
        chance.seed
    );
    on_stage(|stage| {
        let outside = Outside::new(stage)?;
        outside.control(stage)?;
        let ordinary = Ordinary::start(&stage.path().join("ordinary"), Duration::from_millis(100));
        let views = Tier::current()?.views();
        for round in 0..rounds {
            let roles = [Role::Run, Role::Warden, Role::Reaper, Role::Init];
            let role = roles[chance.below(4) as usize];
            let after = Duration::from_micros(chance.below(150_000));
            let traffic = chance.below(2) == 0;
            let view = views[round as usize % views.len()];
            let words = ["stubborn", "daemons=1"].map(str::to_owned).into_iter();
            let words = words.chain(outside.words.iter().cloned());
            let words = words.chain(["say=ready", "echo", "forever"].map(str::to_owned));
            let command = stage.puppet_with(&["--view", view], words);
            one_round(stage, command, role, after, traffic)
                .and_then(|()| outside.untouched(stage))
                .with_context(|| format!("round {round}: {role:?} after {after:?} (seed {})", chance.seed))?;
        }
        eprintln!("  {} rounds of ordinary work outside", ordinary.unharmed());
        Ok(())
    })
}

fn one_round(stage: &Stage, mut command: Command, role: Role, after: Duration, traffic: bool) -> Result<()> {
    let mut session = stage.start(&mut command)?;
    let start = Instant::now();
    // Some rounds close the input at once, so that the shot meets the end of the session.
    let enough = Arc::new(AtomicBool::new(false));
    let feeder = session.stdin.take().filter(|_| traffic).map(|mut stdin| {
        let enough = enough.clone();
        std::thread::spawn(move || {
            use std::io::Write as _;
            while !enough.load(Ordering::Relaxed) && stdin.write_all(&[b'x'; 4096]).is_ok() {}
        })
    });
    let drain = session.stdout.take().map(|mut out| {
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while matches!(out.read(&mut buffer), Ok(1..)) {}
        })
    });
    std::thread::sleep(after.saturating_sub(start.elapsed()));
    // A role that does not live yet, or no longer, is waited for a moment; the session may end without it.
    let until = Instant::now() + limit(Duration::from_secs(2));
    let mut shot = None;
    while Instant::now() < until {
        shot = stage.left().pids(role).first().copied();
        if let Some(pid) = shot {
            shoot(pid);
            break;
        }
        if matches!(session.child.try_wait(), Ok(Some(_))) {
            break;
        }
    }
    // A warden that is shot before it was asked for anything is replaced, and the session goes on as if nothing had been.
    let until = Instant::now() + limit(Duration::from_secs(2));
    while role == Role::Warden && Instant::now() < until && matches!(session.child.try_wait(), Ok(None)) {
        let left = stage.left();
        let another = left.pids(Role::Warden).iter().any(|pid| Some(*pid) != shot);
        if another && !left.pids(Role::Init).is_empty() {
            enough.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(session.wait()?);
    drop((
        feeder.map(std::thread::JoinHandle::join),
        drain.map(std::thread::JoinHandle::join),
    ));
    ended_well(stage)
}
