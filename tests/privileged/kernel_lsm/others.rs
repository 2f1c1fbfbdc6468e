//! What Landlock refuses before our hooks are asked, in a sandbox that both confine: told once, as the object it is.

use std::{
    os::{fd::AsFd as _, linux::fs::MetadataExt as _, unix::ffi::OsStrExt as _},
    path::Path,
};

use guard_agent::warden::kernel::{Event, VerdictEvent};
use guard_common::hooks::{
    FILE_OPEN, Hook, PATH_LINK, PATH_MKDIR, PATH_MKNOD, PATH_RENAME, PATH_RMDIR, PATH_SYMLINK, PATH_TRUNCATE,
    PATH_UNLINK, PTRACE_ACCESS_CHECK, TASK_KILL, UNIX_MAY_SEND, UNIX_STREAM_CONNECT,
};
use guard_tests::arena::Subject;

use crate::{
    battery::Scene,
    place::Place,
    rows::{A, Actor, address},
    stage::Stage,
};

/// What Landlock answers by itself.
struct Attempt {
    hook: &'static Hook,
    /// The version of Landlock that refuses it.
    since: i64,
    errno: u16,
    /// What it is about, and whether that is there.
    object: Option<(&'static str, bool)>,
    act: fn(&mut Actor<'_>) -> i64,
}

const fn file(
    hook: &'static Hook,
    object: &'static str,
    there: bool,
    act: fn(&mut Actor<'_>) -> i64,
) -> Attempt {
    Attempt {
        hook,
        since: 1,
        errno: 13,
        object: Some((object, there)),
        act,
    }
}

const fn other(hook: &'static Hook, since: i64, act: fn(&mut Actor<'_>) -> i64) -> Attempt {
    Attempt {
        hook,
        since,
        errno: 1,
        object: None,
        act,
    }
}

fn attempts() -> Vec<Attempt> {
    let truncate = Attempt {
        since: 3,
        ..file(&PATH_TRUNCATE, "rw/file", true, |a| {
            a.call(libc::SYS_truncate, &[A::P("rw/file"), A::N(1)])
        })
    };
    vec![
        file(&FILE_OPEN, "rw/file", true, |a| a.open("rw/file", libc::O_RDWR)),
        file(&PATH_MKDIR, "rw/new", false, |a| {
            a.call(libc::SYS_mkdir, &[A::P("rw/new"), A::N(0o700)])
        }),
        file(&PATH_MKNOD, "rw/new", false, |a| {
            let kind = i64::from(libc::S_IFREG | 0o600);
            a.call(libc::SYS_mknod, &[A::P("rw/new"), A::N(kind), A::N(0)])
        }),
        file(&PATH_RMDIR, "rw/empty", true, |a| {
            a.call(libc::SYS_rmdir, &[A::P("rw/empty")])
        }),
        file(&PATH_UNLINK, "rw/file", true, |a| {
            a.call(libc::SYS_unlink, &[A::P("rw/file")])
        }),
        file(&PATH_SYMLINK, "rw/new", false, |a| {
            a.call(libc::SYS_symlink, &[A::T("anything"), A::P("rw/new")])
        }),
        file(&PATH_LINK, "rw/file", true, |a| {
            a.call(libc::SYS_link, &[A::P("rw/file"), A::P("rw/new")])
        }),
        file(&PATH_RENAME, "rw/file", true, |a| {
            a.call(libc::SYS_rename, &[A::P("rw/file"), A::P("rw/new")])
        }),
        truncate,
        other(&PTRACE_ACCESS_CHECK, 1, |a| {
            let attach = A::N(i64::from(libc::PTRACE_SEIZE));
            let bystander = A::N(i64::from(a.place.bystander.pid()));
            a.call(libc::SYS_ptrace, &[attach, bystander, A::N(0), A::N(0)])
        }),
        other(&TASK_KILL, 6, |a| {
            let bystander = A::N(i64::from(a.place.bystander.pid()));
            a.call(libc::SYS_kill, &[bystander, A::N(0)])
        }),
        other(&UNIX_STREAM_CONNECT, 6, |a| {
            to_a_service(a, libc::SOCK_STREAM, libc::SYS_connect, "")
        }),
        other(&UNIX_MAY_SEND, 6, |a| {
            to_a_service(a, libc::SOCK_DGRAM, libc::SYS_connect, ":datagram")
        }),
    ]
}

/// By an abstract name: Landlock has no word for the others.
fn to_a_service(a: &mut Actor<'_>, kind: i32, call: i64, which: &str) -> i64 {
    let own = a.call(
        libc::SYS_socket,
        &[A::N(i64::from(libc::AF_UNIX)), A::N(i64::from(kind)), A::N(0)],
    );
    assert!(own > 2, "{own}");
    let name = format!("\0{}{which}", a.place.abstract_name());
    let address = address(Path::new(&name));
    let length = A::N(i64::try_from(address.len()).unwrap() - 1);
    a.call(call, &[A::N(own), A::B(&address), length])
}

/// Takes everything away that this kernel's Landlock can; the version.
fn confine(subject: &mut Subject, place: &Place) -> i64 {
    let name = "";
    let mut actor = Actor { subject, place, name };
    let abi = actor.call(libc::SYS_landlock_create_ruleset, &[A::N(0), A::N(0), A::N(1)]);
    assert!(abi >= 2, "{abi}");
    let rights: u64 = match abi {
        2 => (1 << 14) - 1,
        3 | 4 => (1 << 15) - 1,
        _ => (1 << 16) - 1,
    };
    let scopes: u64 = if abi >= 6 { 3 } else { 0 };
    let ruleset = [rights, 0, scopes].map(u64::to_ne_bytes).concat();
    let length = match abi {
        2 | 3 => 8,
        4 | 5 => 16,
        _ => 24,
    };
    let ruleset = actor.call(
        libc::SYS_landlock_create_ruleset,
        &[A::B(&ruleset), A::N(length), A::N(0)],
    );
    assert!(ruleset > 2, "{ruleset}");
    let no_new_privileges = A::N(i64::from(libc::PR_SET_NO_NEW_PRIVS));
    let zero = A::N(0);
    let set = [no_new_privileges, A::N(1), zero, zero, zero];
    assert_eq!(actor.call(libc::SYS_prctl, &set), 0);
    let restrict = actor.call(libc::SYS_landlock_restrict_self, &[A::N(ruleset), A::N(0)]);
    assert_eq!(restrict, 0);
    abi
}

fn by(subject: &mut Subject, place: &Place, attempt: &Attempt) -> i64 {
    let name = "";
    let mut actor = Actor { subject, place, name };
    let result = (attempt.act)(&mut actor);
    actor.close_all();
    result
}

fn told(stage: &mut Stage) -> Vec<VerdictEvent> {
    let mut all = Vec::new();
    let drained = stage.events.drain(|event| match event {
        Event::Verdict(event) => all.push(event),
        other => panic!("{other:?}"),
    });
    assert!(!drained.more);
    all
}

/// What is not as it should be in the one record of an attempt.
fn wrong(stage: &Stage, attempt: &Attempt, event: &VerdictEvent) -> Option<String> {
    let head = (event.hook.name, event.reason, event.errno, event.origin.cgroup_id);
    let mut right = head == (attempt.hook.name, None, attempt.errno, stage.sandbox)
        && (event.origin.slot, event.origin.pid) == (stage.slot, stage.inside.pid());
    let (dev, ino, nlink) = match attempt.object {
        None => (None, None, None),
        Some((name, there)) => {
            let path = stage.at(name);
            let above = std::fs::metadata(path.parent().unwrap()).unwrap();
            let own = std::fs::metadata(&path).ok();
            assert_eq!(own.is_some(), there, "{name}");
            let names = event.names.as_ref();
            let all: Vec<u8> = names
                .iter()
                .flat_map(|names| &names.components)
                .flat_map(|name| [b"/", name.as_slice()].concat())
                .collect();
            right &= names.is_some_and(|names| names.complete) && path.as_os_str().as_bytes().ends_with(&all);
            let nlink = own.as_ref().map(|own| u32::try_from(own.st_nlink()).unwrap());
            (Some(above.st_dev()), own.map(|own| own.st_ino()), nlink)
        }
    };
    right &= (event.dev, event.ino, event.nlink) == (dev, ino, nlink);
    (!right).then(|| format!("{}: {event:?}", attempt.hook.name))
}

/// Opens a file to read, inside.
fn open(stage: &mut Stage, place: &Place, name: &str) -> i64 {
    let subject = &mut stage.inside;
    let mut actor = Actor {
        subject,
        place,
        name: "",
    };
    let result = actor.open(name, libc::O_RDONLY);
    actor.close_all();
    result
}

fn observe(stage: &mut Stage, on: bool) {
    let pid = i32::try_from(stage.inside.pid()).unwrap();
    let process = guard_agent::sys::process::pidfd_open(pid).unwrap();
    stage
        .programs
        .enforce(stage.sandbox, stage.slot, on, process.as_fd())
        .unwrap();
}

#[test]
fn what_landlock_refuses_first_is_told_once_with_its_object_and_to_nobody_else() {
    let mut scene = Scene::set("others");
    // The programs of the sandbox's cgroup have their own word about sockets.
    scene.stage.arena.leave(&scene.stage.inside);
    let Scene { stage, place } = &mut scene;

    // What ours refuses is told with observation off, too.
    observe(stage, false);
    assert_eq!(open(stage, place, "outside/file"), -13);
    let [ours] = <[VerdictEvent; 1]>::try_from(told(stage)).unwrap();
    assert_eq!(ours.reason, Some("outside-roots"));
    observe(stage, true);
    assert_eq!(open(stage, place, "rw/file").min(0), 0);
    assert_eq!(told(stage), []);

    let abi = confine(&mut stage.inside, place);
    assert_eq!(confine(&mut stage.outside, place), abi);
    place.reset();
    let (mut bad, mut made) = (Vec::new(), 0);
    for attempt in attempts().iter().filter(|attempt| attempt.since <= abi) {
        let name = attempt.hook.name;
        let expected = -i64::from(attempt.errno);
        let outside = by(&mut stage.outside, place, attempt);
        if outside != expected {
            bad.push(format!("{name}: Landlock alone gives {outside}"));
        }
        let nobodys = told(stage);
        if !nobodys.is_empty() {
            bad.push(format!("{name}: who is in no sandbox is told of: {nobodys:?}"));
        }
        let inside = by(&mut stage.inside, place, attempt);
        if inside != expected {
            bad.push(format!("{name}: {inside}, not {expected}"));
        }
        match told(stage).as_slice() {
            [event] => bad.extend(wrong(stage, attempt, event)),
            all => bad.push(format!("{name}: told {} times: {all:?}", all.len())),
        }
        made += 1;
    }
    assert_eq!(bad, [""; 0], "{}", bad.join("\n"));
    println!("Landlock {abi}: {made} hooks");

    // With observation off what others refuse is not.
    observe(stage, false);
    assert_eq!(open(stage, place, "rw/file"), -13);
    assert_eq!(told(stage), []);
}
