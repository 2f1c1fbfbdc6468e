//! Full maps, sandboxes that are over, and what is asked twice.

use std::{fs::File, os::fd::AsFd as _};

use guard_agent::refusal::chain;
use guard_common::{abi::ROOT_COUNT, hooks};

use crate::{
    battery::Scene,
    rows::{A, Actor, HELD_RW},
    scope::open,
};

/// Every row outside, where nothing has changed.
fn everything_works_outside(scene: &mut Scene, when: &str) {
    let before = scene.reserved();
    let mut wrong = Vec::new();
    for row in scene.rows() {
        let result = scene.outside(&row);
        if !row.outside.takes(result) {
            wrong.push(format!("{}: {result}", row.name));
        }
    }
    assert_eq!(wrong, [""; 0], "{when}");
    assert_eq!(scene.reserved(), before, "{when}");
}

#[test]
fn without_room_a_root_is_refused_and_nobody_else_notices() {
    let mut scene = Scene::set("full");
    let Scene { stage, place } = &mut scene;
    let twice = stage.programs.hooks_start();
    assert_eq!(
        chain(&twice.unwrap_err()),
        "the security hooks are put in force once by a process, and this one has tried before"
    );
    let object = File::open(place.path("outside")).unwrap();
    let first = 1 << 40;
    let mut enrolled = 0;
    let refused = loop {
        match stage.programs.enrol(first + enrolled, object.as_fd(), 1) {
            Ok(()) => enrolled += 1,
            Err(error) => break chain(&error),
        }
        assert!(enrolled <= ROOT_COUNT as u64);
    };
    // Three roots were there.
    assert_eq!(enrolled, ROOT_COUNT as u64 - 3);
    assert!(refused.contains("there is no room for another root"), "{refused}");
    // The same again, and no half of it is left.
    let again = stage.programs.enrol(first + enrolled, object.as_fd(), 1);
    assert_eq!(chain(&again.unwrap_err()), refused);
    let own = stage.programs.enrol(stage.sandbox, object.as_fd(), 7);
    assert_eq!(chain(&own.unwrap_err()), refused);
    assert_eq!(open(&mut stage.inside, place, "call", "outside/file"), -13);
    assert!(open(&mut stage.inside, place, "call", "r/file") > 2);
    assert!(open(&mut stage.outside, place, "call", "outside/file") > 2);
    // Room comes back with the end of a sandbox.
    stage.programs.forget(first);
    stage.programs.enrol(first + enrolled, object.as_fd(), 1).unwrap();
    everything_works_outside(&mut scene, "with full maps");
}

#[test]
fn a_sandbox_that_is_over_is_refused_everything_and_nobody_else_anything() {
    let mut scene = Scene::set("over");
    {
        let Scene { stage, place } = &mut scene;
        assert!(open(&mut stage.inside, place, "call", "r/file") > 2);
        stage.programs.forget(stage.sandbox);
        assert_eq!(
            open(&mut stage.inside, place, "call", "r/file"),
            -13,
            "its roots are forgotten"
        );
        assert!(open(&mut stage.outside, place, "call", "r/file") > 2);
        stage.programs.close_slot(stage.sandbox, stage.slot).unwrap();
        let before = stage.programs.hits(&hooks::USERNS_CREATE).unwrap();
        let mut actor = Actor {
            subject: &mut stage.inside,
            place,
            name: "inside",
        };
        // Whatever it is; orders with memory of their own cannot be given any more.
        let own = actor.call(libc::SYS_getpid, &[]);
        let private = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = [A::N(0), A::N(4096), A::N(1), A::N(private), A::N(-1), A::N(0)];
        let refused = [
            actor.call(libc::SYS_mmap, &memory),
            actor.call(libc::SYS_kill, &[A::N(own), A::N(0)]),
            actor.call(libc::SYS_socket, &[A::N(1), A::N(1), A::N(0)]),
            actor.call(libc::SYS_fcntl, &[A::N(0), A::N(3), A::N(0)]),
            actor.call(libc::SYS_ftruncate, &[A::N(HELD_RW), A::N(1)]),
            actor.call(libc::SYS_unshare, &[A::N(i64::from(libc::CLONE_NEWUSER))]),
        ];
        // Each with its own error.
        assert_eq!(refused, [-13, -13, -13, -13, -13, -1]);
        let after = stage.programs.hits(&hooks::USERNS_CREATE).unwrap();
        assert_eq!(after.denied, before.denied + 1);
        // Who was in its cgroup alone is in none that anybody knows.
        let mut moved = stage.arena.subject("sandbox");
        assert!(open(&mut moved, place, "call", "outside/file") > 2);
    }
    everything_works_outside(&mut scene, "after a sandbox");
}
