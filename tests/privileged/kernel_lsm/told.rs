//! What a refusal says.

use std::os::{linux::fs::MetadataExt as _, unix::ffi::OsStrExt as _};

use guard_agent::warden::kernel::{Event, KernelPath, VerdictEvent};
use guard_common::abi::SLOT_UNKNOWN;
use guard_tests::arena::Arg;

use crate::stage::Stage;

const OPEN: u32 = 2;
const KILL: u32 = 62;
const RENAME: u32 = 82;
const MKDIR: u32 = 83;
const UNSHARE: u32 = 272;

/// What was refused since, of the sandbox.
fn told(stage: &mut Stage) -> Vec<VerdictEvent> {
    let mut all = Vec::new();
    let drained = stage.events.drain(|event| match event {
        Event::Verdict(event) => all.push(event),
        other => panic!("{other:?}"),
    });
    assert!(!drained.more);
    for event in &all {
        assert_eq!(
            (event.origin.cgroup_id, event.origin.slot),
            (stage.sandbox, stage.slot)
        );
        assert_eq!(event.origin.pid, stage.inside.pid());
    }
    all
}

/// The path ends so: where the filesystem is mounted is the machine's matter.
fn ends_with(names: Option<&KernelPath>, path: &std::path::Path) -> bool {
    let names = names.unwrap();
    let kernels: Vec<u8> = names
        .components
        .iter()
        .flat_map(|name| [b"/", name.as_slice()].concat())
        .collect();
    names.complete && path.as_os_str().as_bytes().ends_with(&kernels)
}

#[test]
fn the_object_its_rights_and_the_rule_are_told_once() {
    let mut stage = Stage::set("told");
    stage.enforce();
    let bytes = |path: &std::path::Path| path.as_os_str().as_bytes().to_vec();
    let file = stage.at("outside/file");
    assert_eq!(stage.inside.call(OPEN, &[Arg::Text(&bytes(&file))]).result, -13);
    let [event] = <[VerdictEvent; 1]>::try_from(told(&mut stage)).unwrap();
    let metadata = std::fs::metadata(&file).unwrap();
    assert_eq!(
        (event.hook.name, event.reason, event.errno),
        ("file_open", Some("outside-roots"), 13)
    );
    assert_eq!((event.needs, event.found), (1, 0));
    assert_eq!(
        (event.dev, event.ino, event.nlink),
        (Some(metadata.st_dev()), Some(metadata.st_ino()), Some(1))
    );
    assert!(ends_with(event.names.as_ref(), &file), "{event:?}");

    // It is not there yet: it has a place and no inode.
    let new = stage.at("r/new");
    let mode = Arg::Number(0o700);
    assert_eq!(
        stage.inside.call(MKDIR, &[Arg::Text(&bytes(&new)), mode]).result,
        -13
    );
    let [event] = <[VerdictEvent; 1]>::try_from(told(&mut stage)).unwrap();
    assert_eq!(
        (event.hook.name, event.reason),
        ("path_mkdir", Some("right-missing"))
    );
    assert_eq!((event.needs, event.found), (2, 1));
    assert_eq!(
        (event.dev, event.ino, event.nlink),
        (Some(metadata.st_dev()), None, None)
    );
    assert!(ends_with(event.names.as_ref(), &new), "{event:?}");

    let (from, to) = (stage.at("rw/file"), stage.at("rwx/moved"));
    let paths = [Arg::Text(&bytes(&from)), Arg::Text(&bytes(&to))];
    assert_eq!(stage.inside.call(RENAME, &paths).result, -13);
    let [event] = <[VerdictEvent; 1]>::try_from(told(&mut stage)).unwrap();
    assert_eq!(
        (event.hook.name, event.reason),
        ("path_rename", Some("would-gain-rights"))
    );
    assert_eq!((event.needs, event.found), (15, 3));
    assert!(ends_with(event.names.as_ref(), &from), "{event:?}");
}

/// A process that outlives its sandbox: the record says what it saw, also of a hook that refuses with another number.
#[test]
fn what_outlives_its_sandbox_is_told_with_what_it_saw() {
    let mut stage = Stage::set("over");
    stage.enforce();
    stage.programs.close_slot(stage.sandbox, stage.slot).unwrap();
    let userns = Arg::Number(0x1000_0000);
    assert_eq!(stage.inside.call(UNSHARE, &[userns]).result, -1);
    // Whoever is there; with memory of its own, or a file, it gets nothing done any more.
    assert_eq!(
        stage.inside.call(KILL, &[Arg::Number(1), Arg::Number(0)]).result,
        -13
    );
    let mut all = Vec::new();
    let _ = stage.events.drain(|event| {
        if let Event::Verdict(event) = event {
            all.push((
                event.hook.name,
                event.reason,
                event.errno,
                event.origin.slot,
                event.names,
            ));
        }
    });
    assert_eq!(
        all,
        [
            ("userns_create", Some("unknown-sandbox"), 1, SLOT_UNKNOWN, None),
            ("task_kill", Some("unknown-sandbox"), 13, SLOT_UNKNOWN, None),
        ]
    );
}
