//! Other programs are loaded, attached and detached, or fail half-way, while these decide.

use std::{
    fs,
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use guard_agent::{refusal::chain, sys::process::pidfd_open};
use guard_common::hooks::{FILE_OPEN, HOOKS, Presence};
use guard_tests::{
    arena::{Arena, Subject},
    workers::{Opener, Ordinary, Tally, hex, until},
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{rounds, stage::Stage};

/// Opens of each second set.
const OPENS: u64 = 200;

fn open(subject: &mut Subject, path: &std::path::Path) -> Tally {
    Tally::read(&subject.order(&format!("race {OPENS} 0 {}", hex(path))))
}

/// A set of its own, from its beginning to its end: what a process of its sandbox gets before, under it and after.
fn second(name: &str, forbidden: &std::path::Path) {
    let arena = Arena::make(name);
    let (mut programs, events) = arena.load();
    let (sandbox, slot, mut subject) = arena.watched("sandbox", &programs);
    programs.hooks_start().unwrap();
    let before = open(&mut subject, forbidden);
    assert_eq!((before.opens, before.others), (OPENS, OPENS), "{before:?}");
    let process = pidfd_open(i32::try_from(subject.pid()).unwrap()).unwrap();
    programs.enforce(sandbox, slot, false, process.as_fd()).unwrap();
    let during = open(&mut subject, forbidden);
    assert_eq!((during.opens, during.refused), (OPENS, OPENS), "{during:?}");
    assert_eq!(programs.hits(&FILE_OPEN).unwrap().denied, OPENS);
    // While it works.
    let worker = Opener::start(subject, forbidden);
    until("the second set refuses", || {
        programs.hits(&FILE_OPEN).unwrap().denied >= 2 * OPENS
    });
    drop((programs, events));
    let (last, mut subject) = worker.stop();
    assert!(
        last.refused >= OPENS && last.refused + last.others == last.opens,
        "{last:?}"
    );
    let after = open(&mut subject, forbidden);
    assert_eq!((after.opens, after.others), (OPENS, OPENS), "{after:?}");
}

/// Another set that fails when some of its hooks are attached already: there is no descriptor for the next.
fn half(name: &str) {
    let arena = Arena::make(name);
    let (mut programs, _events) = arena.load();
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let hooks = HOOKS
        .iter()
        .filter(|hook| hook.presence == Presence::Required)
        .count() as u64;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, open + hooks + hooks / 2, hard).unwrap();
    let failed = programs.hooks_start();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    let failed = chain(&failed.unwrap_err());
    assert!(
        failed.contains("attach") && failed.contains("Too many open files"),
        "{failed}"
    );
}

#[test]
fn programs_that_come_and_go_lose_no_verdict() {
    let mut stage = Stage::set("churn");
    let ordinary = Ordinary::start(&stage.at("ordinary"), Duration::ZERO);
    stage.enforce();
    let forbidden = stage.at("outside/file");
    let process = |subject: &Subject| pidfd_open(i32::try_from(subject.pid()).unwrap()).unwrap();
    let first = std::mem::replace(&mut stage.inside, Subject::start());
    let more = stage.arena.subject("sandbox");
    stage
        .programs
        .enforce(stage.sandbox, stage.slot, false, process(&more).as_fd())
        .unwrap();
    let inside = [first, more].map(|subject| Opener::start(subject, &forbidden));
    let outside = Opener::start(Subject::start(), &forbidden);
    let cycles = (rounds() / 1000).clamp(1, 5);
    let start = Instant::now();
    for cycle in 0..cycles {
        second(&format!("second-{cycle}"), &forbidden);
        half(&format!("half-{cycle}"));
        ordinary.goes_on("with others that came and went");
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut opens = 0;
    for worker in inside {
        let (tally, _) = worker.stop();
        assert_eq!((tally.refused, tally.others), (tally.opens, 0), "{tally:?}");
        opens += tally.opens;
    }
    let (free, _) = outside.stop();
    assert_eq!((free.others, free.refused), (free.opens, 0), "{free:?}");
    assert_eq!(stage.programs.hits(&FILE_OPEN).unwrap().denied, opens);
    for program in stage.programs.programs() {
        assert_eq!(program.recursion_misses, 0, "{program:?}");
    }
    let rounds = ordinary.unharmed();
    println!(
        "{cycles} cycles in {seconds:.1} s: {opens} opens refused, {} outside allowed, {rounds} rounds outside",
        free.opens
    );
}
