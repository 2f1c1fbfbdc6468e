//! Paths of all lengths, and those that cannot be read.

use guard_agent::warden::kernel::{CallEvent, Event, Events, UserPath};
use guard_common::record::PATH_BYTES;

use guard_tests::arena::{Arena, Arg, Subject, drain, forced};

const OPENAT: u32 = 257;
const RENAME: u32 = 82;
const AT_FDCWD: Arg<'static> = Arg::Number(-100);

fn one(events: &mut Events) -> CallEvent {
    let all = drain(events);
    let [Event::Call(call)] = all.as_slice() else {
        panic!("{all:?}")
    };
    call.clone()
}

/// A path of that many bytes; no name in it is too long.
fn long(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| if at % 100 == 0 { b'/' } else { b'n' })
        .collect()
}

fn open(inside: &mut Subject, path: &[u8]) -> i64 {
    inside.call(OPENAT, &[AT_FDCWD, Arg::Text(path)]).result
}

#[test]
fn paths_of_every_length_end_with_their_memory() {
    let arena = Arena::make("lengths");
    let (programs, mut events) = arena.observe();
    let (_, _, mut inside) = arena.watched("sandbox", &programs);
    inside.filter();
    for length in [1, 2, 7, 8, 9, 255, 300, PATH_BYTES - 2, PATH_BYTES - 1] {
        let path = if length == 1 { b"n".to_vec() } else { long(length) };
        assert_eq!(open(&mut inside, &path), -2, "{length}");
        let wanted = UserPath {
            bytes: path,
            complete: true,
        };
        assert_eq!(one(&mut events).path, Some(wanted), "{length}");
    }
    for length in [PATH_BYTES, PATH_BYTES + 1, 4000] {
        let path = long(length);
        assert_eq!(open(&mut inside, &path), -2, "{length}");
        let cut = one(&mut events).path.unwrap();
        assert_eq!(cut.bytes, &path[..PATH_BYTES - 1], "{length}");
        assert!(!cut.complete, "{length}");
    }
    // The kernel itself takes no path as long as this: refused before it looks.
    let path = long(5000);
    let zero = Arg::Number(0);
    inside.call(
        OPENAT,
        &[AT_FDCWD, Arg::Text(&path), zero, zero, zero, forced(13)],
    );
    let cut = one(&mut events).path.unwrap();
    assert!(!cut.complete && cut.bytes == path[..PATH_BYTES - 1]);
    assert_eq!(open(&mut inside, b""), -2);
    let empty = UserPath {
        bytes: Vec::new(),
        complete: true,
    };
    assert_eq!(one(&mut events).path, Some(empty));
}

#[test]
fn relative_paths_come_as_given_with_their_directory() {
    let arena = Arena::make("relative");
    let (programs, mut events) = arena.observe();
    let (_, _, mut inside) = arena.watched("sandbox", &programs);
    assert_eq!(open(&mut inside, b"../no\xff such"), -2);
    let event = one(&mut events);
    assert_eq!(event.path.unwrap().bytes, b"../no\xff such");
    assert_eq!(event.args[0], (-100i64).cast_unsigned());
    let directory = inside
        .call(OPENAT, &[AT_FDCWD, Arg::Text(b"/"), Arg::Number(0)])
        .result;
    drain(&mut events);
    let args = [Arg::Number(directory), Arg::Text(b"no-such")];
    assert_eq!(inside.call(OPENAT, &args).result, -2);
    let event = one(&mut events);
    assert_eq!(event.path.unwrap().bytes, b"no-such");
    assert_eq!(event.args[0], directory.cast_unsigned());
}

#[test]
fn a_path_that_cannot_be_read_is_said_to_be_and_harms_nobody() {
    let arena = Arena::make("unreadable");
    let (programs, mut events) = arena.observe();
    let (_, _, mut inside) = arena.watched("sandbox", &programs);
    inside.filter();
    // The kernel cannot read it either.
    assert_eq!(inside.call(OPENAT, &[AT_FDCWD, Arg::Unreadable]).result, -14);
    assert_eq!(drain(&mut events), []);
    let zero = Arg::Number(0);
    let unreadable = Some(UserPath {
        bytes: Vec::new(),
        complete: false,
    });
    // A filter refuses before the kernel reads.
    inside.call(OPENAT, &[AT_FDCWD, Arg::Unreadable, zero, zero, zero, forced(13)]);
    assert_eq!(one(&mut events).path, unreadable);
    // No zero before the memory ends.
    inside.call(
        OPENAT,
        &[AT_FDCWD, Arg::Bytes(b"/no-end"), zero, zero, zero, forced(13)],
    );
    assert_eq!(one(&mut events).path, unreadable);
    inside.call(OPENAT, &[AT_FDCWD, zero, zero, zero, zero, forced(13)]);
    assert_eq!(one(&mut events).path, None);
    // An address of the kernel's.
    inside.call(
        OPENAT,
        &[AT_FDCWD, Arg::Number(-4096), zero, zero, zero, forced(13)],
    );
    assert_eq!(one(&mut events).path, unreadable);
    // Each of two paths by itself.
    inside.call(
        RENAME,
        &[Arg::Text(b"/from"), Arg::Unreadable, zero, zero, zero, forced(13)],
    );
    let event = one(&mut events);
    assert_eq!(
        (event.path.unwrap().bytes, event.second),
        (b"/from".to_vec(), unreadable.clone())
    );
    let second = long(5000);
    inside.call(
        RENAME,
        &[Arg::Unreadable, Arg::Text(&second), zero, zero, zero, forced(13)],
    );
    let event = one(&mut events);
    assert_eq!(event.path, unreadable);
    let cut = event.second.unwrap();
    assert!(!cut.complete && cut.bytes == second[..PATH_BYTES - 1]);
    // It lives.
    assert_eq!(open(&mut inside, b"/no-such"), -2);
}
