//! Rings and maps that are full, and entries that are gone: who is outside notices nothing, and who is inside gets
//! nothing by it.

use std::{fs::File, os::fd::AsFd as _, time::Duration};

use guard_agent::refusal::chain;
use guard_common::{
    abi::{ROOT_COUNT, SLOT_COUNT},
    hooks::FILE_OPEN,
};
use guard_tests::{
    arena::Subject,
    workers::{Opener, Ordinary, until},
};

use crate::stage::Stage;

/// Sandboxes whose parts are the whole ring.
const PARTS: usize = 4;
/// Opens that have to be refused in each state, so that it was one.
const SOME: u64 = 100;

/// Waits until the hooks have refused some more.
fn refuses(stage: &Stage, when: &str) {
    let denied = || stage.programs.hits(&FILE_OPEN).unwrap().denied;
    let before = denied();
    until(&format!("opens are refused {when}"), || denied() >= before + SOME);
}

/// Another sandbox, without a root, and a process under the hooks in it.
fn another(stage: &mut Stage, name: &str) -> (u64, u32, Subject) {
    let (sandbox, slot, subject) = stage.arena.watched(name, &stage.programs);
    let process = guard_agent::sys::process::pidfd_open(i32::try_from(subject.pid()).unwrap()).unwrap();
    stage
        .programs
        .enforce(sandbox, slot, false, process.as_fd())
        .unwrap();
    (sandbox, slot, subject)
}

#[test]
fn what_is_full_or_gone_harms_nobody_outside_and_opens_nothing_inside() {
    let mut stage = Stage::set("failures");
    let ordinary = Ordinary::start(&stage.at("ordinary"), Duration::ZERO);
    stage.enforce();
    let forbidden = stage.at("outside/file");
    let inside = std::mem::replace(&mut stage.inside, Subject::start());
    let mut workers = vec![(stage.sandbox, stage.slot, Opener::start(inside, &forbidden))];
    refuses(&stage, "as ever");

    // Nobody reads: first one part of the ring is full, then all of it.
    let lost = |stage: &Stage, slot| stage.programs.slot_counters(slot).unwrap().lost;
    until("a part of the ring is full", || lost(&stage, stage.slot) > SOME);
    refuses(&stage, "with a full part");
    ordinary.goes_on("with a full part of the ring");
    for number in 1..PARTS {
        let (sandbox, slot, subject) = another(&mut stage, &format!("part-{number}"));
        workers.push((sandbox, slot, Opener::start(subject, &forbidden)));
        until("a further part is full", || lost(&stage, slot) > SOME);
    }
    refuses(&stage, "with a full ring");
    ordinary.goes_on("with a full ring");

    let object = File::open(stage.at("outside")).unwrap();
    let first = 1_u64 << 40;
    let full = (0..=ROOT_COUNT as u64).find_map(|number| {
        let enrolled = stage.programs.enrol(first + number, object.as_fd(), 1);
        enrolled.err().map(|error| chain(&error))
    });
    let full = full.expect("a map without an end");
    assert!(full.contains("there is no room for another root"), "{full}");
    refuses(&stage, "with as many roots as there may be");
    ordinary.goes_on("with as many roots as there may be");

    let open = workers.len();
    let slots: Vec<(u64, u32)> = (0..)
        .map_while(|number| {
            let sandbox = first + number;
            stage
                .programs
                .open_slot(sandbox, true)
                .ok()
                .map(|slot| (sandbox, slot))
        })
        .collect();
    // One place is for those that are not known.
    assert_eq!(slots.len(), SLOT_COUNT - 1 - open);
    refuses(&stage, "with as many sandboxes as there may be");
    ordinary.goes_on("with as many sandboxes as there may be");

    // Roots, then sandboxes, are forgotten while their processes live.
    for (sandbox, _, _) in &workers {
        stage.programs.forget(*sandbox);
    }
    refuses(&stage, "without roots");
    for (sandbox, slot, _) in &workers {
        stage.programs.close_slot(*sandbox, *slot).unwrap();
    }
    refuses(&stage, "without their sandboxes");
    ordinary.goes_on("after the sandboxes");
    for (sandbox, slot) in slots {
        stage.programs.close_slot(sandbox, slot).unwrap();
    }

    let mut opens = 0;
    let mut subjects = Vec::new();
    for (_, _, worker) in workers {
        let (tally, subject) = worker.stop();
        assert_eq!((tally.refused, tally.others), (tally.opens, 0), "{tally:?}");
        opens += tally.opens;
        subjects.push(subject);
    }
    // None was missed, wherever it was told.
    assert_eq!(stage.programs.hits(&FILE_OPEN).unwrap().denied, opens);
    let counters = stage.programs.counters().unwrap();
    assert_eq!(counters.reserved + counters.lost, opens, "{counters:?}");
    let rounds = ordinary.unharmed();
    println!("{opens} opens refused, {rounds} rounds outside");
}
