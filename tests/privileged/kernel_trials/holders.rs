//! Who holds the programs may be stopped or killed: as long as one of them is there they decide, and after the last one
//! nobody outside has noticed.

use std::{os::fd::AsFd as _, time::Duration};

use guard_agent::warden::kernel::{CounterReader, Programs};
use guard_tests::{
    arena::Subject,
    workers::{Opener, Ordinary, Tally, hex, until},
};
use nix::{
    fcntl::{F_SETFD, FdFlag, fcntl},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::stage::Stage;

/// A process that has duplicates of the links, and does nothing.
struct Holder(Subject);

impl Holder {
    fn of(programs: &Programs) -> Self {
        let links = programs.link_fds().unwrap();
        for link in &links {
            fcntl(link.as_fd(), F_SETFD(FdFlag::empty())).unwrap();
        }
        Self(Subject::start())
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.pid()).unwrap()), signal).unwrap();
    }
}

#[test]
fn whoever_holds_the_programs_may_be_stopped_or_killed() {
    let mut stage = Stage::set("holders");
    let ordinary = Ordinary::start(&stage.at("ordinary"), Duration::ZERO);
    stage.enforce();
    let forbidden = stage.at("outside/file");
    let warden = Holder::of(&stage.programs);
    let reaper = Holder::of(&stage.programs);
    let counters = CounterReader::from_fd(stage.programs.counters_fd().unwrap()).unwrap();
    let told = || counters.total().map(|total| total.reserved + total.lost).unwrap();
    let Stage {
        inside,
        programs,
        events,
        scratch,
        arena,
        outside,
        ..
    } = stage;
    let worker = Opener::start(inside, &forbidden);
    let refuses = |when: &str| {
        let before = told();
        until(&format!("opens are refused {when}"), || told() >= before + 100);
        ordinary.goes_on(when);
    };
    refuses("with three holders");
    // Ours, with the maps and the ring's reader.
    drop((programs, events));
    refuses("by two");
    warden.send(Signal::SIGSTOP);
    refuses("while the warden is stopped");
    warden.send(Signal::SIGKILL);
    drop(warden);
    refuses("when the warden is dead");
    reaper.send(Signal::SIGSTOP);
    refuses("while the reaper is stopped, too");
    let (tally, mut inside) = worker.stop();
    assert_eq!((tally.refused, tally.others), (tally.opens, 0), "{tally:?}");
    assert_eq!(told(), tally.opens, "one record or one loss for each");

    // The last one, in the middle of its work: from some open on nothing is refused, and nothing else changes.
    let worker = Opener::start(inside, &forbidden);
    refuses("by one");
    reaper.send(Signal::SIGKILL);
    drop(reaper);
    ordinary.goes_on("when nobody holds them");
    let (last, subject) = worker.stop();
    inside = subject;
    assert_eq!(last.opens, last.refused + last.others, "{last:?}");
    assert!(told() - tally.opens <= last.refused, "{last:?}");
    let after = Tally::read(&inside.order(&format!("race 10 0 {}", hex(&forbidden))));
    assert_eq!(
        (after.opens, after.others),
        (10, 10),
        "nothing holds any more: {after:?}"
    );
    let rounds = ordinary.unharmed();
    println!(
        "{} opens refused, {} until the last holder's end, {rounds} rounds outside",
        tally.opens, last.refused
    );
    drop((inside, outside, arena, scratch));
}
