//! Every row of the table, and every way a call can end.

use guard_agent::warden::kernel::{CallEvent, Event};
use guard_common::syscalls::{CALLS, Call, Class};

use guard_tests::arena::{Answer, Arena, Arg, Subject, drain, forced, words};

use crate::rows::{MISSING, OTHER, arguments};

const ENOENT: i64 = -2;
const ENOSYS: i64 = -38;
const AT_FDCWD: Arg<'static> = Arg::Number(-100);

fn only_call(events: &[Event], what: &str) -> CallEvent {
    let [Event::Call(call)] = events else {
        panic!("{what}: {events:?}")
    };
    call.clone()
}

#[test]
fn each_call_with_a_path_that_fails_inside_is_reported_as_it_was_made() {
    let arena = Arena::make("rows");
    let (programs, mut events) = arena.observe();
    let (id, slot, mut inside) = arena.watched("sandbox", &programs);
    let mut outside = Subject::start();
    // The descriptor that `inotify_add_watch` starts from.
    for subject in [&mut inside, &mut outside] {
        assert!(subject.call(294, &[]).result >= 0);
    }
    let inotify = inside.call(294, &[]).result;

    let mut seen = 0;
    for call in CALLS {
        let Some(mut args) = arguments(call) else { continue };
        if call.name == "inotify_add_watch" {
            args[0] = Arg::Number(inotify - 1);
            args[2] = Arg::Number(2);
        }
        let name = call.name;
        let control = outside.call(call.nr, &args);
        assert_eq!(drain(&mut events), [], "`{name}` outside was reported");
        let Answer { result, pid, tid } = inside.call(call.nr, &args);
        assert_eq!(result, control.result, "`{name}` ends otherwise inside");
        if result == ENOSYS {
            eprintln!("n/a  {name}: this kernel has no such call");
            assert_eq!(drain(&mut events), []);
            continue;
        }
        assert_eq!(result, ENOENT, "`{name}`");
        let event = only_call(&drain(&mut events), name);
        assert_eq!(
            (event.nr, event.errno, event.result),
            (call.nr, 2, ENOENT),
            "{name}"
        );
        assert_eq!((event.origin.cgroup_id, event.origin.slot), (id, slot), "{name}");
        assert_eq!((event.origin.pid, event.origin.tid), (pid, tid), "{name}");
        assert!(event.origin.ktime_ns > 0);
        let path = event.path.unwrap();
        assert!(
            path.complete && (path.bytes == MISSING || path.bytes == OTHER),
            "{name} {path:?}"
        );
        assert_eq!(
            event.second.map(|second| second.bytes),
            call.second.map(|_| OTHER.to_vec()),
            "{name}"
        );
        for (index, arg) in args.iter().enumerate() {
            if let Arg::Number(number) = arg {
                assert_eq!(event.args[index], number.cast_unsigned(), "{name} {index}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 59, "only {seen} calls were seen");
    let counters = programs.slot_counters(slot).unwrap();
    assert_eq!((counters.reserved, counters.lost), (seen, 0));
    assert_eq!(programs.consumed(slot).unwrap().records, seen);
}

/// Each call of the table ends with each errno, by a seccomp filter, and so do some that are not in it.
#[test]
fn exactly_the_ends_that_the_table_names_are_reported() {
    let arena = Arena::make("ends");
    let (programs, mut events) = arena.observe();
    let (_, _, mut inside) = arena.watched("sandbox", &programs);
    inside.filter();
    // The kernel kills who makes these two from anywhere but a probe.
    const PROBES: [u32; 2] = [335, 336];
    let numbers = (0..470).filter(|nr| Call::find(*nr).is_some() || nr % 8 == 0);
    for nr in numbers.filter(|nr| !PROBES.contains(nr)) {
        // What would end or stop the subject does not: it always fails here.
        let answer = inside.order(&format!("sweep {}", words(nr, &[Arg::Number(0); 5])));
        assert_eq!(answer, "133", "call {nr} escaped the filter");
        let reported: Vec<u16> = drain(&mut events)
            .into_iter()
            .map(|event| match event {
                Event::Call(call) => {
                    assert_eq!(call.nr, nr);
                    call.errno
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let wanted: Vec<u16> = (1..=133)
            .filter(|errno| Call::find(nr).is_some_and(|call| call.reports(*errno)))
            .collect();
        assert_eq!(reported, wanted, "call {nr}");
    }
}

#[test]
fn opens_that_succeed_are_reported_with_their_flags_and_others_are_not() {
    let arena = Arena::make("opens");
    let (programs, mut events) = arena.observe();
    let (_, slot, mut inside) = arena.watched("sandbox", &programs);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let path = file.as_os_str().as_encoded_bytes();
    let flags = i64::from(libc::O_RDWR | libc::O_CLOEXEC);
    for (nr, args) in [
        (2, vec![Arg::Text(path), Arg::Number(flags)]),
        (257, vec![AT_FDCWD, Arg::Text(path), Arg::Number(flags)]),
        (85, vec![Arg::Text(path), Arg::Number(0o600)]),
    ] {
        let answer = inside.call(nr, &args);
        assert!(answer.result >= 0, "{answer:?}");
        let event = only_call(&drain(&mut events), "open");
        assert_eq!((event.nr, event.errno, event.result), (nr, 0, answer.result));
        assert_eq!(event.path.unwrap().bytes, path);
        let Some(Arg::Number(last)) = args.last() else {
            unreachable!()
        };
        assert_eq!(event.args[args.len() - 1], last.cast_unsigned());
    }
    let how = [0; 24];
    let quiet: [(u32, &[Arg<'_>]); 4] = [
        (
            437,
            &[AT_FDCWD, Arg::Text(path), Arg::Bytes(&how), Arg::Number(24)],
        ),
        (21, &[Arg::Text(path), Arg::Number(0)]),
        (90, &[Arg::Text(path), Arg::Number(0o644)]),
        (80, &[Arg::Text(b"/")]),
    ];
    for (nr, args) in quiet {
        assert!(inside.call(nr, args).result >= 0, "call {nr}");
        assert_eq!(drain(&mut events), [], "call {nr} succeeded and was reported");
    }
    let counters = programs.slot_counters(slot).unwrap();
    assert_eq!((counters.allowed_reserved, counters.allowed_lost), (3, 0));
    assert_eq!((counters.reserved, counters.lost), (0, 0));
    assert_eq!(programs.consumed(slot).unwrap().allowed_records, 3);
}

#[test]
fn socket_calls_tell_where_to() {
    let arena = Arena::make("sockets");
    let (programs, mut events) = arena.observe();
    let (_, slot, mut inside) = arena.watched("sandbox", &programs);
    inside.filter();
    let v4 = [2, 0, 1, 187, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut v6 = [0u8; 28];
    v6[..4].copy_from_slice(&[10, 0, 0, 53]);
    v6[8..24].copy_from_slice(&"2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let connect = |bytes: &'static [u8], errno: u16| {
        let length = Arg::Number(i64::try_from(bytes.len()).unwrap());
        [
            Arg::Number(3),
            Arg::Bytes(bytes),
            length,
            Arg::Number(0),
            Arg::Number(0),
            forced(errno),
        ]
    };
    inside.call(42, &connect(v4.to_vec().leak(), libc::ENETUNREACH as u16));
    let event = only_call(&drain(&mut events), "v4");
    assert_eq!(event.address, Some("192.0.2.1:443".parse().unwrap()));
    assert_eq!((event.errno, event.path), (101, None));
    inside.call(49, &connect(v6.to_vec().leak(), libc::EACCES as u16));
    let event = only_call(&drain(&mut events), "v6");
    assert_eq!(event.address, Some("[2001:db8::1]:53".parse().unwrap()));
    inside.call(42, &connect(b"\x01\0/run/docker.sock\0", libc::ENOENT as u16));
    let event = only_call(&drain(&mut events), "unix");
    assert_eq!(event.path.unwrap().bytes, b"/run/docker.sock");
    inside.call(42, &connect(b"\x01\0\0abstract", libc::ENOENT as u16));
    let event = only_call(&drain(&mut events), "abstract");
    assert_eq!(event.path.unwrap().bytes, b"\0abstract");
    // A length that is a lie, and memory that is not there.
    let mut longer = [0; 128];
    longer[..16].copy_from_slice(&v4);
    let lie = [
        Arg::Number(3),
        Arg::Bytes(&longer),
        Arg::Number(-1),
        Arg::Number(0),
        Arg::Number(0),
        forced(13),
    ];
    inside.call(42, &lie);
    let event = only_call(&drain(&mut events), "lie");
    assert_eq!(event.address, Some("192.0.2.1:443".parse().unwrap()));
    let gone = [
        Arg::Number(3),
        Arg::Unreadable,
        Arg::Number(16),
        Arg::Number(0),
        Arg::Number(0),
        forced(13),
    ];
    inside.call(42, &gone);
    let event = only_call(&drain(&mut events), "gone");
    assert_eq!((event.address, event.path), (None, None));

    // What a cgroup program denies is reported by that program alone, in the same slot.
    let socket = inside.call(41, &[Arg::Number(2), Arg::Number(1)]).result;
    assert!(socket >= 0);
    let answer = inside.call(42, &[Arg::Number(socket), Arg::Bytes(&v4), Arg::Number(16)]);
    assert_eq!(answer.result, -1);
    let all = drain(&mut events);
    let [Event::Net(net)] = all.as_slice() else {
        panic!("{all:?}")
    };
    assert_eq!((net.slot, net.pid), (slot, inside.pid()));
    assert!(
        CALLS
            .iter()
            .filter(|call| call.class == Class::Socket)
            .all(|call| !call.reports(1))
    );
}

#[test]
fn an_answered_call_is_not_reported_and_the_next_one_is() {
    let arena = Arena::make("answered");
    let (mut programs, mut events) = arena.observe();
    let (_, slot, mut inside) = arena.watched("sandbox", &programs);
    inside.filter();
    let mount = |errno| {
        [
            Arg::Text(b"none"),
            Arg::Text(b"/mnt"),
            Arg::Number(0),
            Arg::Number(0),
            Arg::Number(0),
            forced(errno),
        ]
    };
    let tid = inside.pid();
    programs.answered(tid, 165, 1).unwrap();
    assert_eq!(inside.call(165, &mount(1)).result, -1);
    assert_eq!(
        drain(&mut events),
        [],
        "what the warden answered was reported again"
    );
    inside.call(165, &mount(1));
    assert_eq!(only_call(&drain(&mut events), "mount").errno, 1);

    // An answer is for one call and one errno, and is forgotten with the first end that could be it.
    programs.answered(tid, 165, 1).unwrap();
    inside.call(165, &mount(13));
    assert_eq!(only_call(&drain(&mut events), "mount").errno, 13);
    inside.call(165, &mount(1));
    assert_eq!(drain(&mut events).len(), 1);
    programs.answered(tid, 101, 1).unwrap();
    inside.call(165, &mount(1));
    assert_eq!(drain(&mut events).len(), 1);

    // Another thread's answer is no matter of this one.
    programs.answered(tid + 1, 165, 1).unwrap();
    inside.call(165, &mount(1));
    assert_eq!(drain(&mut events).len(), 1);

    // One that was taken back, and one that nobody would report.
    programs.answered(tid, 165, 1).unwrap();
    programs.unanswered(tid);
    inside.call(165, &mount(1));
    assert_eq!(drain(&mut events).len(), 1);
    programs.answered(tid, 321, 1).unwrap();
    programs.observe_stop();
    programs.answered(tid, 165, 1).unwrap();
    programs.observe_start().unwrap();
    inside.call(165, &mount(1));
    assert_eq!(drain(&mut events).len(), 1);
    let counters = programs.slot_counters(slot).unwrap();
    assert_eq!((counters.reserved, counters.lost), (7, 0));
}
