//! Room and counters: each sandbox has its own, and what has no room is counted.

use guard_agent::warden::kernel::{Consumed, Event, KernelError, SlotCounters};
use guard_common::{
    abi::{SLOT_ALLOWED_BYTES, SLOT_BYTES, SLOT_COUNT, ring_bytes},
    record::CallRecord,
};

use guard_tests::arena::{Arena, Arg, Subject, drain, words};

use crate::rows::MISSING;

const STAT: u32 = 4;
const OPENAT: u32 = 257;
const RECORD: u64 = ring_bytes(size_of::<CallRecord>());
/// Records that a slot's part of the ring holds, of what failed and of what did not.
const ROOM: u64 = SLOT_BYTES / RECORD;
const ALLOWED_ROOM: u64 = SLOT_ALLOWED_BYTES / RECORD;

fn flood(times: u64) -> String {
    format!("repeat 2 {times} {}", words(STAT, &[Arg::Text(MISSING)]))
}

fn open_flood(times: u64) -> String {
    let args = [Arg::Number(-100), Arg::Text(b"/"), Arg::Number(0)];
    format!("repeat 2 {times} {}", words(OPENAT, &args))
}

fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

#[test]
fn floods_are_counted_to_the_last_one_and_a_neighbour_loses_nothing() {
    const EACH: u64 = 3 * ROOM;
    let arena = Arena::make("flood");
    let (programs, mut events) = arena.observe();
    let (_, first, mut one) = arena.watched("one", &programs);
    let (_, second, mut two) = arena.watched("two", &programs);
    let (_, third, mut quiet) = arena.watched("quiet", &programs);

    // Two floods at once, and nobody reads.
    one.tell(&flood(EACH));
    two.tell(&flood(EACH));
    for _ in 0..100 {
        assert_eq!(quiet.call(STAT, &[Arg::Text(MISSING)]).result, -2);
    }
    for flooder in [&mut one, &mut two] {
        assert_eq!(flooder.heard(), (2 * EACH).to_string());
    }
    for _ in 0..100 {
        assert_eq!(quiet.call(STAT, &[Arg::Text(MISSING)]).result, -2);
    }
    let mut total = 0;
    for slot in [first, second] {
        let counters = programs.slot_counters(slot).unwrap();
        // The threads' own memory may take opens that succeed; those are counted apart.
        assert_eq!(counters.reserved + counters.lost, 2 * EACH, "{counters:?}");
        assert!(
            (ROOM - 2..=ROOM + processors()).contains(&counters.reserved),
            "{counters:?}"
        );
        total += counters.reserved;
    }
    let counters = programs.slot_counters(third).unwrap();
    assert_eq!((counters.reserved, counters.lost), (200, 0));

    let all = drain(&mut events);
    let of = |slot| {
        let is = |event: &&Event| matches!(event, Event::Call(call) if call.origin.slot == slot && call.errno == 2);
        all.iter().filter(is).count() as u64
    };
    assert_eq!(of(third), 200);
    assert_eq!(of(first) + of(second), total);
    for slot in [first, second, third] {
        let (counters, consumed) = (
            programs.slot_counters(slot).unwrap(),
            programs.consumed(slot).unwrap(),
        );
        assert_eq!(
            (counters.reserved, counters.allowed_reserved),
            (consumed.records, consumed.allowed_records),
            "slot {slot}"
        );
    }
    // With room again nothing more is lost.
    let before = programs.slot_counters(first).unwrap();
    assert_eq!(one.call(STAT, &[Arg::Text(MISSING)]).result, -2);
    let after = programs.slot_counters(first).unwrap();
    assert_eq!((after.reserved, after.lost), (before.reserved + 1, before.lost));
    for program in programs.programs() {
        assert_eq!(program.recursion_misses, 0, "{program:?}");
    }
}

#[test]
fn what_is_allowed_does_not_displace_what_is_refused() {
    const EACH: u64 = 2 * ALLOWED_ROOM;
    let arena = Arena::make("allowed");
    let (programs, mut events) = arena.observe();
    let (_, slot, mut inside) = arena.watched("sandbox", &programs);
    assert_eq!(inside.order(&open_flood(EACH)), (2 * EACH).to_string());
    let counters = programs.slot_counters(slot).unwrap();
    let attempts = counters.allowed_reserved + counters.allowed_lost;
    // Threads may open a file or two of the system's when they start.
    assert!((2 * EACH..2 * EACH + 8).contains(&attempts), "{counters:?}");
    assert!(
        counters.allowed_reserved <= ALLOWED_ROOM + processors(),
        "{counters:?}"
    );
    assert!(counters.allowed_lost >= EACH, "{counters:?}");
    assert_eq!(counters.lost, 0);
    // The other half is free.
    for _ in 0..ALLOWED_ROOM / 2 {
        inside.call(STAT, &[Arg::Text(MISSING)]);
    }
    let counters = programs.slot_counters(slot).unwrap();
    assert_eq!((counters.reserved, counters.lost), (ALLOWED_ROOM / 2, 0));
    assert_eq!(
        drain(&mut events).len() as u64,
        counters.reserved + counters.allowed_reserved
    );
}

#[test]
fn a_reader_that_keeps_up_loses_nothing_of_a_long_run() {
    let arena = Arena::make("run");
    let (programs, mut events) = arena.observe();
    let (_, slot, mut inside) = arena.watched("sandbox", &programs);
    let mut read = 0;
    for _ in 0..20 {
        inside.order(&flood(ROOM / 4));
        read += drain(&mut events).len() as u64;
    }
    let counters = programs.slot_counters(slot).unwrap();
    assert_eq!((counters.reserved, counters.lost), (20 * 2 * (ROOM / 4), 0));
    assert_eq!(read, counters.reserved + counters.allowed_reserved);
    assert_eq!(events.consumed(), read);
}

#[test]
fn a_slot_is_used_again_once_it_was_read_and_starts_from_nothing() {
    let arena = Arena::make("reuse");
    let (programs, mut events) = arena.observe();
    let (id, slot, mut inside) = arena.watched("one", &programs);
    assert_eq!(slot, 1);
    inside.call(STAT, &[Arg::Text(MISSING)]);
    assert!(
        matches!(programs.open_slot(id, true), Err(KernelError::Map { .. })),
        "it has one"
    );
    drop(inside);
    let last = programs.close_slot(id, slot).unwrap();
    assert_eq!((last.reserved, last.lost), (1, 0));
    assert!(programs.close_slot(id, slot).is_err(), "closed twice");

    let other = arena.sandbox("two");
    let next = programs.open_slot(other, true).unwrap();
    assert_eq!(next, 2, "a record of the first one is still in the ring");
    assert_eq!(drain(&mut events).len(), 1);
    let again = programs.open_slot(id, true).unwrap();
    assert_eq!(again, 1);
    assert_eq!(programs.slot_counters(again).unwrap(), SlotCounters::default());
    assert_eq!(programs.consumed(again).unwrap(), Consumed::default());
    let mut inside = arena.subject("one");
    inside.call(STAT, &[Arg::Text(MISSING)]);
    assert_eq!(drain(&mut events).len(), 1);
    assert_eq!(programs.slot_counters(again).unwrap().reserved, 1);
    assert_eq!(programs.consumed(again).unwrap().records, 1);
    assert_eq!(
        programs.counters().unwrap().reserved,
        2,
        "of all, since the start"
    );
}

#[test]
fn there_are_as_many_slots_as_said_and_none_more() {
    let arena = Arena::make("many");
    let (programs, _events) = arena.load();
    let most = u64::try_from(SLOT_COUNT).unwrap() - 1;
    // Numbers that are no cgroup's: only the map is filled.
    for number in 0..most {
        programs.open_slot(u64::MAX - number, false).unwrap();
    }
    assert!(matches!(programs.open_slot(1, false), Err(KernelError::NoSlot)));
    programs.close_slot(u64::MAX - 7, 8).unwrap();
    assert_eq!(programs.open_slot(1, false).unwrap(), 8);
}

/// A process that was there before its sandbox had a slot, and after: what the network programs deny then is
/// counted where no sandbox is known.
#[test]
fn what_belongs_to_no_known_sandbox_is_counted_too() {
    let arena = Arena::make("unknown");
    let (programs, mut events) = arena.observe();
    let mut inside: Subject = arena.subject("sandbox");
    let socket = inside.call(41, &[Arg::Number(2), Arg::Number(2)]).result;
    let address = [2, 0, 0, 9, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let connect = [Arg::Number(socket), Arg::Bytes(&address), Arg::Number(16)];
    assert_eq!(inside.call(42, &connect).result, -1);
    assert_eq!(drain(&mut events).len(), 1);
    assert_eq!(programs.slot_counters(0).unwrap().reserved, 1);
    assert_eq!(programs.consumed(0).unwrap().records, 1);
}
