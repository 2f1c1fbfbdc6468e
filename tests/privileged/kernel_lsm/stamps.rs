//! What a call stamp allows: the test is the gateway, by the product's own code, and the warden that approves.

use std::{fs, os::unix::ffi::OsStrExt as _, sync::atomic::Ordering};

use guard_agent::{config::rights::Rights, gateway::Stamp, sys::stamp::StampPage, warden::kernel::Event};
use guard_common::hooks::{EXECUTE, MAP, READ, WRITE};
use guard_tests::arena::{Arg, Subject};

use crate::stage::Stage;

const WRITE_CALL: u32 = 1;
const OPEN: u32 = 2;
const TRUNCATE: u32 = 76;
const FTRUNCATE: u32 = 77;
const RENAME: u32 = 82;
const MKDIR: u32 = 83;
const RMDIR: u32 = 84;
const LINK: u32 = 86;
const UNLINK: u32 = 87;
const CHMOD: u32 = 90;
const UTIME: u32 = 132;

const ALL: u32 = READ | WRITE | EXECUTE | MAP;
const RDWR: i64 = libc::O_RDWR as i64;
const RDONLY: i64 = libc::O_RDONLY as i64;
const NO: i64 = -13;

/// A stage with a root that its operator has named, `work`, beside the others, and the page of its stamp.
fn stamped(name: &str, approval_only: u32) -> (Stage, std::os::fd::OwnedFd) {
    let mut stage = Stage::set(name);
    fs::create_dir_all(stage.at("work/deep/er")).unwrap();
    for file in ["work/file", "work/deep/er/file", "work/move", "work/gone"] {
        fs::write(stage.at(file), "inside").unwrap();
    }
    let work = stage.at("work");
    stage.enrol_root(&work, ALL);
    let page = stage
        .programs
        .stamp(stage.sandbox, stage.slot, ALL, approval_only)
        .unwrap();
    stage.enforce();
    (stage, page)
}

fn path(stage: &Stage, name: &str) -> Vec<u8> {
    stage.at(name).as_os_str().as_bytes().to_vec()
}

/// Opens and closes: 0, or the error.
fn open(subject: &mut Subject, path: &[u8], flags: i64) -> i64 {
    let fd = subject.call(OPEN, &[Arg::Text(path), Arg::Number(flags)]).result;
    if fd < 0 {
        return fd;
    }
    assert_eq!(subject.call(3, &[Arg::Number(fd)]).result, 0);
    0
}

fn inside(stage: &mut Stage, name: &str, flags: i64) -> i64 {
    let path = path(stage, name);
    open(&mut stage.inside, &path, flags)
}

/// What was refused since: hook, reason, rights needed and there, calls.
fn told(stage: &mut Stage) -> Vec<(&'static str, &'static str, u32, u32, Option<u64>)> {
    let mut all = Vec::new();
    let drained = stage.events.drain(|event| match event {
        Event::Verdict(event) => {
            assert_eq!(
                (event.origin.cgroup_id, event.origin.slot, event.errno),
                (stage.sandbox, stage.slot, 13)
            );
            all.push((
                event.hook.name,
                event.reason,
                event.needs,
                event.found,
                event.origin.calls,
            ));
        }
        other => panic!("{other:?}"),
    });
    assert!(!drained.more);
    all
}

#[test]
fn what_a_call_needs_may_be_done_while_it_runs_and_not_before_or_after() {
    let (mut stage, page) = stamped("calls", 0);
    let stamp = Stamp::map(page).unwrap();
    stamp.mark();
    // Its start: the rights of the launch.
    assert_eq!(inside(&mut stage, "work/file", RDWR), 0);
    stamp.answered(Rights::R);
    for file in ["work/file", "work/deep/er/file"] {
        assert_eq!(inside(&mut stage, file, RDWR), NO, "idle");
        assert_eq!(inside(&mut stage, file, RDONLY), 0);
        let refused = ("file_open", "no-call-needs-it", READ | WRITE, ALL, Some(0));
        assert_eq!(told(&mut stage), [refused]);
    }
    let write = stamp.begin(Rights::RW).unwrap();
    assert_eq!(inside(&mut stage, "work/file", RDWR), 0);
    assert_eq!(inside(&mut stage, "work/deep/er/file", RDWR), 0);
    let read = stamp.begin(Rights::R).unwrap();
    assert_eq!(
        inside(&mut stage, "work/file", RDWR),
        0,
        "what both need together"
    );
    assert_eq!(told(&mut stage), []);
    stamp.end(write);
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    let refused = |calls| ("file_open", "no-call-needs-it", READ | WRITE, ALL, Some(calls));
    assert_eq!(told(&mut stage), [refused(0b10)]);
    stamp.end(read);
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    assert_eq!(inside(&mut stage, "work/file", RDONLY), 0);
    assert_eq!(told(&mut stage), [refused(0)]);
    // Outside is outside, whatever the calls need, and outside of the sandbox is none of it.
    let call = stamp.begin(Rights::RW).unwrap();
    assert_eq!(inside(&mut stage, "outside/file", RDONLY), NO);
    assert_eq!(
        told(&mut stage),
        [("file_open", "outside-roots", READ, 0, Some(0b100))]
    );
    stamp.end(call);
    let file = path(&stage, "work/file");
    assert_eq!(open(&mut stage.outside, &file, RDWR), 0);
}

#[test]
fn whatever_writes_takes_a_call_that_needs_it() {
    let (mut stage, page) = stamped("writing", 0);
    let stamp = Stamp::map(page).unwrap();
    stamp.mark();
    stamp.answered(Rights::R);
    let paths =
        ["file", "move", "moved", "linked", "gone", "new"].map(|name| path(&stage, &format!("work/{name}")));
    let [file, old, moved, linked, gone, new] = paths.each_ref();
    let mode = Arg::Number(0o700);
    let rows: [(&str, u32, Vec<Arg<'_>>); 8] = [
        ("path_truncate", TRUNCATE, vec![Arg::Text(file), Arg::Number(1)]),
        ("path_rename", RENAME, vec![Arg::Text(old), Arg::Text(moved)]),
        ("path_link", LINK, vec![Arg::Text(file), Arg::Text(linked)]),
        ("path_unlink", UNLINK, vec![Arg::Text(gone)]),
        ("path_mkdir", MKDIR, vec![Arg::Text(new), mode]),
        ("path_rmdir", RMDIR, vec![Arg::Text(new)]),
        ("path_chmod", CHMOD, vec![Arg::Text(file), mode]),
        ("inode_setattr", UTIME, vec![Arg::Text(file), Arg::Number(0)]),
    ];
    for (hook, nr, args) in &rows {
        // What is to be removed has to be there.
        if *hook != "path_rmdir" {
            assert_eq!(stage.inside.call(*nr, args).result, NO, "{hook}");
            assert_eq!(
                told(&mut stage),
                [(*hook, "no-call-needs-it", WRITE, ALL, Some(0))]
            );
        }
        let call = stamp.begin(Rights::RW).unwrap();
        assert_eq!(stage.inside.call(*nr, args).result, 0, "{hook}");
        stamp.end(call);
    }
    assert_eq!(told(&mut stage), []);
}

/// What a call leaves: a descriptor it opened. Known, and said in the threat model.
#[test]
fn an_open_descriptor_outlives_its_call_and_what_is_asked_again_does_not() {
    let (mut stage, page) = stamped("left", 0);
    let stamp = Stamp::map(page).unwrap();
    stamp.answered(Rights::R);
    let call = stamp.begin(Rights::RW).unwrap();
    let file = path(&stage, "work/file");
    let fd = stage
        .inside
        .call(OPEN, &[Arg::Text(&file), Arg::Number(RDWR)])
        .result;
    assert!(fd > 2, "{fd}");
    stamp.end(call);
    let text = [Arg::Number(fd), Arg::Bytes(b"late"), Arg::Number(4)];
    assert_eq!(stage.inside.call(WRITE_CALL, &text).result, 4);
    let cut = [Arg::Number(fd), Arg::Number(1)];
    assert_eq!(stage.inside.call(FTRUNCATE, &cut).result, NO);
}

#[test]
fn what_only_an_approved_call_may_do_no_stamp_gives() {
    let (mut stage, page) = stamped("approval", WRITE);
    let mapped = StampPage::map(&page).unwrap();
    let stamp = Stamp::map(page).unwrap();
    stamp.mark();
    let refused = |reason| ("file_open", reason, READ | WRITE, ALL);
    let told = |stage: &mut Stage| -> Vec<_> {
        told(stage)
            .into_iter()
            .map(|(hook, reason, needs, found, _)| (hook, reason, needs, found))
            .collect()
    };
    // In its start, by a call, and by whatever a gateway that was taken over writes.
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    stamp.answered(Rights::R);
    let call = stamp.begin(Rights::RW).unwrap();
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    mapped.mask().store(u32::MAX, Ordering::SeqCst);
    mapped.flags().store(u32::MAX, Ordering::SeqCst);
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    assert_eq!(inside(&mut stage, "work/file", RDONLY), 0);
    assert_eq!(told(&mut stage), [refused("approval-missing"); 3]);

    let (sandbox, slot) = (stage.sandbox, stage.slot);
    stage.programs.raise(sandbox, slot, READ | WRITE).unwrap();
    assert_eq!(inside(&mut stage, "work/file", RDWR), 0);
    stage.programs.raise(sandbox, slot, WRITE).unwrap();
    stage.programs.lower(sandbox, slot, READ | WRITE).unwrap();
    assert_eq!(
        inside(&mut stage, "work/file", RDWR),
        0,
        "another approved call runs"
    );
    // An approval gives no more than the stamp does.
    stamp.end(call);
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    assert_eq!(told(&mut stage), [refused("no-call-needs-it")]);
    let call = stamp.begin(Rights::RW).unwrap();
    assert_eq!(inside(&mut stage, "work/file", RDWR), 0);
    stage.programs.lower(sandbox, slot, WRITE).unwrap();
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    assert_eq!(told(&mut stage), [refused("approval-missing")]);
    stamp.end(call);
}

#[test]
fn what_is_no_root_of_the_operators_is_as_it_was() {
    let (mut stage, page) = stamped("grants", ALL);
    let mapped = StampPage::map(&page).unwrap();
    mapped.mask().store(0, Ordering::SeqCst);
    assert_eq!(inside(&mut stage, "work/file", RDONLY), NO);
    for (name, flags, end) in [
        ("r", RDONLY, 0),
        ("r", RDWR, NO),
        ("rw", RDWR, 0),
        ("rwx", RDWR, 0),
    ] {
        assert_eq!(inside(&mut stage, &format!("{name}/file"), flags), end, "{name}");
    }
    let reasons: Vec<_> = told(&mut stage).into_iter().map(|told| told.1).collect();
    assert_eq!(reasons, ["no-call-needs-it", "right-missing"]);
    // One object that is both has what the runtime needs, whatever calls there are.
    let work = stage.at("work");
    stage.enrol(&work, READ);
    assert_eq!(inside(&mut stage, "work/file", RDONLY), 0);
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    mapped.mask().store(READ | WRITE, Ordering::SeqCst);
    assert_eq!(
        inside(&mut stage, "work/file", RDWR),
        NO,
        "it waits for an approval"
    );
    let (sandbox, slot) = (stage.sandbox, stage.slot);
    stage.programs.raise(sandbox, slot, WRITE).unwrap();
    assert_eq!(inside(&mut stage, "work/file", RDWR), 0);
}

#[test]
fn a_stamp_is_of_one_sandbox() {
    let (mut stage, page) = stamped("neighbours", 0);
    let first = Stamp::map(page).unwrap();
    let (other, slot, mut second) = stage.arena.watched("second", &stage.programs);
    let work = fs::File::open(stage.at("work")).unwrap();
    let object = std::os::fd::AsFd::as_fd(&work);
    stage.programs.enrol_root(other, object, ALL).unwrap();
    let page = stage.programs.stamp(other, slot, ALL, 0).unwrap();
    let stamp = Stamp::map(page).unwrap();
    let pid = i32::try_from(second.pid()).unwrap();
    let process = guard_agent::sys::process::pidfd_open(pid).unwrap();
    let process = std::os::fd::AsFd::as_fd(&process);
    stage.programs.enforce(other, slot, false, process).unwrap();
    let file = path(&stage, "work/file");
    first.answered(Rights::R);
    assert_eq!(inside(&mut stage, "work/file", RDWR), NO);
    assert_eq!(open(&mut second, &file, RDWR), 0);
    stamp.answered(Rights::R);
    let call = first.begin(Rights::RW).unwrap();
    assert_eq!(inside(&mut stage, "work/file", RDWR), 0);
    assert_eq!(open(&mut second, &file, RDWR), NO);
    first.end(call);
    // Nor does an approval of the one give the other anything, nor a sandbox without a stamp lose what it has.
    stage.programs.raise(stage.sandbox, stage.slot, WRITE).unwrap();
    assert_eq!(open(&mut second, &file, RDWR), NO);
    let (plain, slot, mut third) = stage.arena.watched("third", &stage.programs);
    stage.programs.enrol_root(plain, object, ALL).unwrap();
    let pid = i32::try_from(third.pid()).unwrap();
    let process = guard_agent::sys::process::pidfd_open(pid).unwrap();
    let process = std::os::fd::AsFd::as_fd(&process);
    stage.programs.enforce(plain, slot, false, process).unwrap();
    assert_eq!(open(&mut third, &file, RDWR), 0);
}
