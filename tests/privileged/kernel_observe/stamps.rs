//! What every event says of the calls in flight, and who can say so.

use std::{
    fs,
    os::fd::{AsFd as _, AsRawFd as _},
    sync::atomic::Ordering::SeqCst,
};

use guard_agent::{
    config::rights::Rights,
    gateway::{Call, Stamp},
    sys::stamp::StampPage,
    warden::kernel::{Event, Events},
};
use guard_common::hooks::{READ, WRITE};
use guard_tests::arena::{Arena, Arg, Subject, drain};

use crate::rows::MISSING;

const STAT: u32 = 4;
const SOCKET: u32 = 41;
const CONNECT: u32 = 42;
const RENAME: u32 = 82;

/// What an event says, and of which kind it is.
fn calls(event: &Event) -> (&'static str, Option<u64>) {
    match event {
        Event::Net(event) => ("net", event.calls),
        Event::Call(event) if event.second.is_some() => ("paths", event.origin.calls),
        Event::Call(event) => ("call", event.origin.calls),
        Event::Exec(event) => ("exec", event.origin.calls),
        Event::Verdict(event) => ("verdict", event.origin.calls),
    }
}

/// One event of each kind that tier T2 has, and what they say.
fn each(subject: &mut Subject, events: &mut Events) -> Vec<(&'static str, Option<u64>)> {
    assert_eq!(subject.call(STAT, &[Arg::Text(MISSING)]).result, -2);
    assert_eq!(
        subject
            .call(RENAME, &[Arg::Text(MISSING), Arg::Text(MISSING)])
            .result,
        -2
    );
    let socket = subject
        .call(SOCKET, &[Arg::Number(2), Arg::Number(1), Arg::Number(0)])
        .result;
    let address = [2, 0, 0, 9, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let refused = subject.call(
        CONNECT,
        &[Arg::Number(socket), Arg::Bytes(&address), Arg::Number(16)],
    );
    assert_eq!(refused.result, -1);
    let program = guard_tests::programs::observe().unwrap();
    let path: String = program
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(subject.order(&format!("exec {path}")).ends_with(" 0"));
    let all: Vec<_> = drain(events).iter().map(calls).collect();
    ["call", "paths", "net", "exec"]
        .into_iter()
        .flat_map(|kind| all.iter().copied().find(|(one, _)| *one == kind))
        .collect()
}

fn all(calls: Option<u64>) -> [(&'static str, Option<u64>); 4] {
    ["call", "paths", "net", "exec"].map(|kind| (kind, calls))
}

#[test]
fn every_event_carries_the_calls_in_flight() {
    let arena = Arena::make("calls");
    let (programs, mut events) = arena.observe();
    let (id, slot, mut inside) = arena.watched("sandbox", &programs);
    let (_, _, mut other) = arena.watched("other", &programs);
    assert_eq!(each(&mut inside, &mut events), all(None), "it has no stamp");

    let page = programs.stamp(id, slot, READ | WRITE, 0).unwrap();
    let stamp = Stamp::map(page.as_fd()).unwrap();
    drop(page);
    assert_eq!(each(&mut inside, &mut events), all(None), "nobody marks calls");
    stamp.mark();
    assert_eq!(each(&mut inside, &mut events), all(Some(0)));
    let first = begun(&stamp, Rights::R);
    assert_eq!(each(&mut inside, &mut events), all(Some(0b1)));
    let second = begun(&stamp, Rights::R);
    assert_eq!(each(&mut inside, &mut events), all(Some(0b11)));
    stamp.end(&first, false);
    stamp.free(first);
    assert_eq!(each(&mut inside, &mut events), all(Some(0b10)));
    assert_eq!(each(&mut other, &mut events), all(None), "of another sandbox");
    stamp.end(&second, false);
    stamp.free(second);
    assert_eq!(each(&mut inside, &mut events), all(Some(0)));
}

fn begun(stamp: &Stamp, rights: Rights) -> Call {
    let call = stamp.reserve(rights);
    stamp.begin(&call);
    call
}

/// A gateway that was taken over still has its page mapped when the next sandbox gets the slot.
#[test]
fn a_slot_that_is_used_again_has_another_page() {
    let arena = Arena::make("again");
    let (programs, mut events) = arena.observe();
    let (id, slot, first) = arena.watched("first", &programs);
    let old = Stamp::map(programs.stamp(id, slot, READ, 0).unwrap()).unwrap();
    old.mark();
    drop(first);
    programs.close_slot(id, slot).unwrap();
    drain(&mut events);
    let (id, again, mut inside) = arena.watched("second", &programs);
    assert_eq!(again, slot);
    let _late = begun(&old, Rights::RW);
    assert_eq!(each(&mut inside, &mut events), all(None), "it has none yet");
    let new = Stamp::map(programs.stamp(id, slot, READ, 0).unwrap()).unwrap();
    assert_eq!(each(&mut inside, &mut events), all(None));
    new.mark();
    let _later = begun(&old, Rights::RW);
    assert_eq!(each(&mut inside, &mut events), all(Some(0)));
}

/// What comes with a stamp is one page: of no other sandbox, and nothing of the kernel's around it.
#[test]
fn a_descriptor_leads_to_its_own_page_alone() {
    let arena = Arena::make("page");
    let (programs, _events) = arena.load();
    let (id, slot, _first) = arena.watched("one", &programs);
    let page = programs.stamp(id, slot, READ | WRITE, 0).unwrap();
    let (id, slot, _second) = arena.watched("two", &programs);
    let second = programs.stamp(id, slot, READ, 0).unwrap();
    let (first, second) = (StampPage::map(&page).unwrap(), StampPage::map(&second).unwrap());
    let seen = |page: &StampPage| {
        [
            page.calls().load(SeqCst),
            page.mask().load(SeqCst).into(),
            page.flags().load(SeqCst).into(),
        ]
    };
    assert_eq!(seen(&first), [0, (READ | WRITE).into(), 0]);
    assert_eq!(seen(&second), [0, READ.into(), 0]);
    first.calls().store(u64::MAX, SeqCst);
    first.mask().store(u32::MAX, SeqCst);
    assert_eq!(seen(&second), [0, READ.into(), 0]);
    // The kernel maps as much as there is, rounded up to a page.
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", page.as_raw_fd())).unwrap();
    for line in ["value_size:\t16\n", "max_entries:\t1\n"] {
        assert!(info.contains(line), "{info}");
    }
}
