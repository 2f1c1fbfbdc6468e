//! Who is observed, and when.

use guard_agent::warden::kernel::{Event, Events};

use guard_tests::arena::{Answer, Arena, Arg, Subject, drain};

use crate::rows::MISSING;

const STAT: u32 = 4;

fn attempt(subject: &mut Subject, who: &str) -> Answer {
    let answer = subject.by(who, STAT, &[Arg::Text(MISSING)]);
    assert_eq!(answer.result, -2);
    answer
}

/// Who made the reported attempts.
fn attempts(events: &mut Events) -> Vec<(u32, u32)> {
    drain(events)
        .into_iter()
        .filter_map(|event| match event {
            Event::Call(call) if call.nr == STAT => Some((call.origin.pid, call.origin.tid)),
            _ => None,
        })
        .collect()
}

#[test]
fn threads_and_grandchildren_and_cgroups_below_are_observed() {
    let arena = Arena::make("family");
    let (programs, mut events) = arena.observe();
    let (_, _, mut inside) = arena.watched("sandbox", &programs);
    for who in ["call", "thread", "daemon"] {
        let answer = attempt(&mut inside, who);
        assert_eq!(attempts(&mut events), [(answer.pid, answer.tid)], "{who}");
        assert_eq!(answer.pid == inside.pid(), who != "daemon");
        assert_eq!(answer.tid == answer.pid, who != "thread");
    }
    let mut nested = arena.subject("sandbox/below/further");
    let answer = attempt(&mut nested, "call");
    assert_eq!(attempts(&mut events), [(answer.pid, answer.tid)]);
}

#[test]
fn nobody_else_is() {
    let arena = Arena::make("others");
    let other = Arena::make("elsewhere");
    let (programs, mut events) = arena.observe();
    let (_, _, mut inside) = arena.watched("sandbox", &programs);
    // A cgroup of the same depth somewhere else, even if the loader was told of it.
    programs.open_slot(other.sandbox("sandbox"), true).unwrap();
    let mut elsewhere = other.subject("sandbox");
    // A sandbox without a slot, one that is not observed, and the parent itself.
    let mut unknown = arena.subject("unknown");
    let unobserved = programs.open_slot(arena.sandbox("unobserved"), false).unwrap();
    let mut quiet = arena.subject("unobserved");
    let mut parent = arena.subject("");
    let mut outside = Subject::start();
    for subject in [
        &mut elsewhere,
        &mut unknown,
        &mut quiet,
        &mut parent,
        &mut outside,
    ] {
        attempt(subject, "call");
        assert_eq!(drain(&mut events), []);
    }
    assert_eq!(programs.slot_counters(unobserved).unwrap(), Default::default());
    // What the network programs deny there is in its slot all the same.
    let socket = quiet.call(41, &[Arg::Number(2), Arg::Number(2)]).result;
    let address = [2, 0, 0, 9, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    quiet.call(42, &[Arg::Number(socket), Arg::Bytes(&address), Arg::Number(16)]);
    assert_eq!(drain(&mut events).len(), 1);
    assert_eq!(programs.slot_counters(unobserved).unwrap().reserved, 1);
    let answer = attempt(&mut inside, "call");
    assert_eq!(attempts(&mut events), [(answer.pid, answer.tid)]);
}

#[test]
fn observation_stops_with_its_last_user() {
    let arena = Arena::make("stop");
    let (mut programs, mut events) = arena.load();
    let (_, slot, mut inside) = arena.watched("sandbox", &programs);
    let attached = |programs: &guard_agent::warden::kernel::Programs| {
        let all = programs.programs();
        let observers = all
            .iter()
            .filter(|program| matches!(program.name, "sys_exit" | "sched_process_exec"));
        let states: Vec<bool> = observers.map(|program| program.attached).collect();
        assert_eq!(states.len(), 2);
        assert_eq!(states[0], states[1]);
        states[0]
    };
    attempt(&mut inside, "call");
    assert_eq!(drain(&mut events), []);
    assert!(!attached(&programs));
    programs.observe_start().unwrap();
    programs.observe_start().unwrap();
    assert!(attached(&programs));
    attempt(&mut inside, "call");
    assert_eq!(attempts(&mut events).len(), 1);
    programs.observe_stop();
    attempt(&mut inside, "call");
    assert_eq!(attempts(&mut events).len(), 1, "somebody is still observed");
    programs.observe_stop();
    assert!(!attached(&programs));
    attempt(&mut inside, "call");
    assert_eq!(drain(&mut events), []);
    // Once more than started changes nothing.
    programs.observe_stop();
    programs.observe_start().unwrap();
    attempt(&mut inside, "call");
    assert_eq!(attempts(&mut events).len(), 1);
    assert_eq!(programs.slot_counters(slot).unwrap().reserved, 3);
    for program in programs.programs() {
        assert_eq!(program.recursion_misses, 0, "{program:?}");
    }
}
