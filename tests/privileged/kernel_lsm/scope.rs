//! For whom the hooks decide: the label that everything a process starts inherits, and the sandbox's cgroup.

use std::{fs, os::fd::AsFd as _, os::unix::fs::PermissionsExt as _};

use guard_agent::sys::process::pidfd_open;
use guard_tests::arena::Subject;

use crate::{
    battery::Scene,
    elf,
    rows::{A, Actor},
    stage::Stage,
};

const OPEN: i64 = libc::SYS_open;

/// Opening a file, by whom and how.
pub(crate) fn open(subject: &mut Subject, scene: &crate::place::Place, who: &str, name: &str) -> i64 {
    let place = scene;
    let mut actor = Actor {
        subject,
        place,
        name: who,
    };
    let result = actor.by(who, OPEN, &[A::P(name), A::N(0)]);
    actor.close_all();
    result
}

/// The label of a process, if it has one.
fn label(stage: &Stage, subject: &Subject) -> Option<u64> {
    let process = pidfd_open(i32::try_from(subject.pid()).unwrap()).unwrap();
    stage.programs.label_of(process.as_fd()).ok()
}

/// What each of the ways to start something comes to.
fn descendants(subject: &mut Subject, place: &crate::place::Place) -> Vec<i64> {
    let mut ends: Vec<i64> = ["call", "thread", "daemon", "run"]
        .into_iter()
        .map(|who| open(subject, place, who, "outside/file").min(0))
        .collect();
    let mut actor = Actor {
        subject,
        place,
        name: "",
    };
    // A program that was executed: the error it ended with.
    ends.push(-actor.run(libc::SYS_execve, &[A::P("rwx/.opens"), A::N(0), A::N(0)]));
    // A child that begins in another cgroup: a place is held without opening it.
    let root = A::T("/sys/fs/cgroup");
    let cgroup = actor.call(OPEN, &[root, A::N(i64::from(libc::O_PATH))]);
    assert!(cgroup > 2, "{cgroup}");
    let into = format!("into {cgroup}");
    ends.push(actor.by(&into, OPEN, &[A::P("outside/file"), A::N(0)]).min(0));
    actor.close_all();
    ends
}

#[test]
fn the_label_goes_with_whatever_is_started_and_the_cgroup_catches_who_has_none() {
    let mut scene = Scene::set("scope");
    let program = scene.place.path("rwx/.opens");
    let target = scene
        .place
        .path("outside/file")
        .into_os_string()
        .into_encoded_bytes();
    fs::write(&program, elf::opens(&target)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let Scene { stage, place } = &mut scene;

    assert_eq!(label(stage, &stage.inside), Some(stage.sandbox));
    assert_eq!(descendants(&mut stage.inside, place), [-13; 6]);
    stage.arena.leave(&stage.inside);
    assert_eq!(
        descendants(&mut stage.inside, place),
        [-13; 6],
        "out of its cgroup"
    );
    assert_eq!(label(stage, &stage.inside), Some(stage.sandbox));

    assert_eq!(label(stage, &stage.outside), None);
    assert_eq!(descendants(&mut stage.outside, place), [0; 6]);

    for within in ["sandbox", "sandbox/below/further"] {
        let mut moved = stage.arena.subject(within);
        assert_eq!(label(stage, &moved), None);
        assert_eq!(open(&mut moved, place, "call", "outside/file"), -13, "{within}");
        assert!(open(&mut moved, place, "call", "r/file") > 2, "{within}");
        // It has no label, and is let go.
        stage.arena.leave(&moved);
        assert!(open(&mut moved, place, "call", "outside/file") > 2, "{within}");
    }

    // Sandboxes nobody told of, or nobody enforces yet, and the place of all.
    let (_, _, mut early) = stage.arena.watched("early", &stage.programs);
    let mut unknown = stage.arena.subject("unknown");
    let mut parent = stage.arena.subject("");
    for subject in [&mut early, &mut unknown, &mut parent] {
        assert!(open(subject, place, "call", "outside/file") > 2);
    }
}

#[test]
fn two_sandboxes_have_nothing_in_common() {
    let mut scene = Scene::set("two");
    let Scene { stage, place } = &mut scene;
    let (other, slot, mut second) = stage.arena.watched("second", &stage.programs);
    let held = fs::File::open(place.path("outside")).unwrap();
    stage.programs.enrol(other, held.as_fd(), 1).unwrap();
    let process = pidfd_open(i32::try_from(second.pid()).unwrap()).unwrap();
    stage
        .programs
        .enforce(other, slot, false, process.as_fd())
        .unwrap();
    assert_eq!(label(stage, &second), Some(other));
    // Each has its own roots and not the other's.
    assert!(open(&mut second, place, "call", "outside/file") > 2);
    assert_eq!(open(&mut second, place, "call", "r/file"), -13);
    assert_eq!(open(&mut stage.inside, place, "call", "outside/file"), -13);
    assert!(open(&mut stage.inside, place, "call", "r/file") > 2);
    // Neither reaches the other.
    let pid = i64::from(second.pid());
    let mut actor = Actor {
        subject: &mut stage.inside,
        place,
        name: "inside",
    };
    assert_eq!(actor.call(libc::SYS_kill, &[A::N(pid), A::N(0)]), -13);
    let own = A::N(actor.call(libc::SYS_getpid, &[]));
    assert_eq!(
        actor.call(libc::SYS_kcmp, &[own, A::N(pid), A::N(1), A::N(0), A::N(0)]),
        -1
    );
    // Nor does one that is put into the other's cgroup lose what it is.
    stage.arena.enter("second", &stage.inside);
    assert_eq!(open(&mut stage.inside, place, "call", "outside/file"), -13);
    assert!(open(&mut stage.inside, place, "call", "r/file") > 2);
}
