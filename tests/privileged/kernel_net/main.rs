//! The network programs against a real kernel: each operation succeeds outside,
//! is refused inside a sandbox's cgroup, and leaves exactly one true record.
//!
//! Takes root, a cgroup v2 hierarchy, and a loopback interface that is up.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a step that fails is a test that fails"
)]

mod arena;
mod operation;
mod targets;

use std::{
    fs::File,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use arena::{Arena, Subject};
use guard_agent::warden::kernel::{CounterReader, Event, Events, KernelError, NetEvent, OBJECT, Programs};
use guard_common::{
    abi::{SLOT_BYTES, ring_bytes},
    event::NetRecord,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use operation::{Expectation, OPERATIONS, Outcome};
use targets::Targets;

const EPERM: i32 = 1;

/// Records that one slot's part of the ring holds.
const SLOT_RECORDS: u64 = SLOT_BYTES / ring_bytes(size_of::<NetRecord>());

/// The process the other tests move into their sandbox; nothing of its own.
#[test]
#[ignore = "run by the other tests as their child"]
fn subject() {
    operation::serve();
}

/// They are moved between threads and held across await points.
#[test]
fn the_handles_may_change_threads() {
    fn movable<T: Send + Sync>() {}
    movable::<Programs>();
    movable::<Events>();
    movable::<CounterReader>();
}

fn drain(events: &mut Events) -> Vec<NetEvent> {
    let mut all = Vec::new();
    let mut keep = |event| match event {
        Event::Net(event) => all.push(event),
        other => panic!("nothing is observed here: {other:?}"),
    };
    while events.drain(&mut keep).more {}
    all
}

fn no_loss(programs: &Programs, events: &Events) {
    let counters = programs.counters().unwrap();
    assert_eq!(counters.reserved, events.consumed());
    assert_eq!(counters.lost, 0);
    assert_eq!(events.undecodable(), 0);
}

#[test]
fn every_operation_is_refused_inside_and_recorded_once() {
    let arena = Arena::make("each");
    let targets = Targets::open();
    let mut programs = arena.load();
    let mut events = programs.take_events().unwrap();
    assert!(programs.take_events().is_none(), "there is one reader");
    let unix = programs.unix_hooks();
    assert_eq!(unix.is_ok(), arena::kernel_at_least(6, 7), "{unix:?}");
    let mut subject = Subject::start();
    arena.admit(&subject);

    let mut controls = 0;
    for operation in OPERATIONS {
        let name = operation.name;
        let outside = operation.perform(&targets);
        assert_eq!(drain(&mut events), [], "`{name}` outside left a record");
        let inside = subject.perform(name, &targets);
        let records = drain(&mut events);
        let Outcome::Done = outside else {
            assert!(
                operation.may_be_absent,
                "`{name}` has no outside control: {outside:?}"
            );
            assert_ne!(inside, Outcome::Done, "`{name}` works inside and not outside");
            eprintln!("n/a  {name}: outside gives {outside:?}");
            continue;
        };
        controls += 1;
        match operation.expected(&targets) {
            Expectation::Allowed => {
                assert_eq!(inside, Outcome::Done, "`{name}` inside");
                assert_eq!(records, [], "`{name}` was allowed and recorded");
            }
            Expectation::Denied { op, .. } if op.name().starts_with("unix") && unix.is_err() => {
                assert_eq!(inside, Outcome::Done, "`{name}` inside, without the hook");
                assert_eq!(records, []);
            }
            Expectation::Denied {
                op,
                family,
                sock_type,
                protocol,
                endpoint,
            } => {
                assert_eq!(inside, Outcome::Failed(EPERM), "`{name}` inside");
                let [record] = records.as_slice() else {
                    panic!("`{name}`: {records:?}")
                };
                assert_eq!(record.op, op, "{name}");
                assert_eq!(
                    (record.family, record.sock_type, record.protocol),
                    (family, sock_type, protocol),
                    "{name}"
                );
                assert_eq!(record.endpoint, endpoint, "{name}");
                assert_eq!(record.cgroup_id, arena.sandbox_id(), "{name}");
                assert_eq!(i32::from(record.errno), EPERM, "{name}");
                assert_ne!(record.ktime_ns, 0);
                if arena::in_first_pid_namespace() {
                    assert_eq!(record.pid, subject.pid(), "{name}");
                }
            }
        }
        eprintln!("ok   {name}");
    }
    assert!(controls >= 18, "only {controls} operations had a control");
    no_loss(&programs, &events);
    for program in programs.programs() {
        assert_eq!(program.recursion_misses, 0, "{program:?}");
    }
}

#[test]
fn a_flood_is_refused_and_counted_to_the_last_one() {
    const EACH: u64 = 4 * SLOT_RECORDS;
    let arena = Arena::make("flood");
    let targets = Targets::open();
    let mut programs = arena.load();
    let mut events = programs.take_events().unwrap();
    let mut subject = Subject::start();
    arena.admit(&subject);

    // Two threads at once, and nobody reads.
    assert_eq!(
        subject.flood(EACH, &targets),
        2 * EACH,
        "each send is refused, room or not"
    );
    let counters = programs.counters().unwrap();
    assert_eq!(counters.reserved + counters.lost, 2 * EACH);
    assert!(counters.lost >= 2 * EACH - SLOT_RECORDS - 64, "{counters:?}");
    assert!(counters.reserved >= SLOT_RECORDS, "{counters:?}");
    assert_eq!(drain(&mut events).len() as u64, counters.reserved);
    assert_eq!(events.consumed(), counters.reserved);

    // With room again nothing more is lost.
    assert_eq!(subject.perform("udp4-sendto", &targets), Outcome::Failed(EPERM));
    assert_eq!(drain(&mut events).len(), 1);
    let after = programs.counters().unwrap();
    assert_eq!(
        (after.reserved, after.lost),
        (counters.reserved + 1, counters.lost)
    );
}

#[test]
fn one_visit_to_a_full_ring_ends_and_says_so() {
    let arena = Arena::make("visit");
    let targets = Targets::open();
    let mut programs = arena.load();
    let mut events = programs.take_events().unwrap();
    let mut subject = Subject::start();
    arena.admit(&subject);

    assert!(!readable(&events, 0), "readable before anything happened");
    assert_eq!(subject.perform("tcp4-connect", &targets), Outcome::Failed(EPERM));
    assert!(readable(&events, 1000), "a record wakes the reader");
    let visit = events.drain(|_| ());
    assert_eq!((visit.records, visit.more), (1, false));
    assert!(!readable(&events, 0), "still readable after the last record");
    // Again, after the reader had caught up: no wake-up is lost.
    assert_eq!(subject.perform("tcp4-connect", &targets), Outcome::Failed(EPERM));
    assert!(readable(&events, 1000));
}

#[test]
fn enforcement_lives_as_long_as_any_duplicate_of_the_links() {
    let arena = Arena::make("links");
    let targets = Targets::open();
    let mut programs = arena.load();
    let events = programs.take_events();
    let expected = programs
        .programs()
        .iter()
        .filter(|program| program.attached)
        .count();
    let links = programs.link_fds().unwrap();
    assert_eq!(links.len(), expected);
    let (ring, consumed) = (programs.ring_fd().unwrap(), programs.consumed_fd().unwrap());
    let counters = CounterReader::from_fd(programs.counters_fd().unwrap()).unwrap();
    let mut subject = Subject::start();
    arena.admit(&subject);

    // What is left when the loading process dies.
    drop(events);
    drop(programs);
    assert_eq!(subject.perform("tcp4-connect", &targets), Outcome::Failed(EPERM));
    let mut taken_over = Events::from_fds(ring, consumed).unwrap();
    assert_eq!(
        drain(&mut taken_over).len(),
        1,
        "the record is there for who takes the ring over"
    );
    assert_eq!(
        (counters.total().unwrap().reserved, counters.total().unwrap().lost),
        (1, 0)
    );
    drop(links);
    let deadline = Instant::now() + Duration::from_secs(5);
    while subject.perform("tcp4-connect", &targets) != Outcome::Done {
        assert!(Instant::now() < deadline, "still refused without any link");
    }
}

#[test]
fn a_nested_cgroup_is_still_the_sandbox() {
    let arena = Arena::make("nested");
    let targets = Targets::open();
    let mut programs = arena.load();
    let mut events = programs.take_events().unwrap();
    let mut subject = Subject::start();
    arena.admit_nested(&subject);
    assert_eq!(subject.perform("tcp4-connect", &targets), Outcome::Failed(EPERM));
    let records = drain(&mut events);
    assert_eq!(
        records.iter().map(|r| r.cgroup_id).collect::<Vec<_>>(),
        [arena.sandbox_id()]
    );
}

#[test]
fn two_loaders_do_not_disturb_each_other() {
    let (first, second) = (Arena::make("first"), Arena::make("second"));
    let targets = Targets::open();
    let (mut one, mut two) = (first.load(), second.load());
    let (mut one_events, mut two_events) = (one.take_events().unwrap(), two.take_events().unwrap());
    let mut subject = Subject::start();
    second.admit(&subject);
    assert_eq!(subject.perform("tcp4-connect", &targets), Outcome::Failed(EPERM));
    assert_eq!(drain(&mut one_events), []);
    assert_eq!(drain(&mut two_events).len(), 1);
}

#[test]
fn what_cannot_be_attached_is_named_and_leaves_nothing() {
    let not_a_cgroup = File::open("/").unwrap();
    let error = Programs::load_and_attach(&not_a_cgroup, 2).unwrap_err();
    assert!(
        matches!(
            error,
            KernelError::Attach {
                program: "sock_create",
                ..
            }
        ),
        "{error:?}"
    );
    let line = guard_agent::refusal::chain(&error);
    assert!(
        line.starts_with("cannot attach eBPF program `sock_create`"),
        "{line}"
    );
}

#[test]
fn one_bad_program_is_named_with_the_verifiers_reason_and_nothing_is_attached() {
    let arena = Arena::make("bad");
    let targets = Targets::open();
    let mut object = OBJECT.to_vec();
    let code = arena::section(&object, "cgroup/connect6");
    // r0 = r5: a register nobody wrote.
    object[code..code + 8].copy_from_slice(&[0xbf, 0x50, 0, 0, 0, 0, 0, 0]);
    let error = Programs::load_and_attach_object(&object, &arena.parent(), arena.level()).unwrap_err();
    let line = guard_agent::refusal::chain(&error);
    assert!(line.contains("`connect6`") && line.contains("R5"), "{line}");
    let mut subject = Subject::start();
    arena.admit(&subject);
    assert_eq!(
        subject.perform("tcp4-connect", &targets),
        Outcome::Done,
        "something stayed attached"
    );
}

#[test]
fn bytes_that_are_no_object_are_refused() {
    let arena = Arena::make("noise");
    for bytes in [&b""[..], b"\x7fELF", &OBJECT[..OBJECT.len() / 2]] {
        let error = Programs::load_and_attach_object(bytes, &arena.parent(), 2).unwrap_err();
        assert!(matches!(error, KernelError::Object { .. }), "{error:?}");
    }
}

fn readable(events: &Events, milliseconds: u16) -> bool {
    let mut fds = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(milliseconds)).unwrap() == 1
}
