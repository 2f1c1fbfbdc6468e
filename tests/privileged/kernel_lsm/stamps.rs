//! What a call stamp allows: the test is the gateway, by the product's own code, and the warden that approves.

use std::{
    fs::{self, File},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::PathBuf,
    sync::atomic::Ordering::SeqCst,
};

use guard_agent::{
    config::rights::Rights,
    gateway::{Call, Stamp},
    sys::{process::pidfd_open, stamp::StampPage},
    warden::kernel::Event,
};
use guard_common::hooks::{EXECUTE, MAP, READ, WRITE};
use guard_tests::arena::{Arg, Subject};

use crate::stage::Stage;

const WRITE_CALL: u32 = 1;
const OPEN: u32 = 2;
const CLOSE: u32 = 3;
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

type Scene = fn(&mut Stage);

/// The programs take long to load in an emulator, so that there is one stage for all.
#[test]
fn a_stamp_holds_a_server_to_what_its_calls_need() {
    let mut stage = Stage::set("stamps");
    let scenes: [(&str, Scene); 7] = [
        (
            "calls",
            what_a_call_needs_may_be_done_while_it_runs_and_not_before_or_after,
        ),
        ("writing", whatever_writes_takes_a_call_that_needs_it),
        (
            "left",
            an_open_descriptor_outlives_its_call_and_what_is_asked_again_does_not,
        ),
        ("approval", what_only_an_approved_call_may_do_no_stamp_gives),
        ("grants", what_is_no_root_of_the_operators_is_as_it_was),
        ("gain", nothing_is_gained_by_a_move_while_the_stamp_gives_less),
        ("neighbours", a_stamp_is_of_one_sandbox),
    ];
    for (name, scene) in scenes {
        println!("{name}");
        scene(&mut stage);
    }
    for program in stage.programs.programs() {
        assert_eq!(program.recursion_misses, 0, "{program:?}");
    }
}

/// A sandbox of its own on one stage: with a root that its operator has named, and a stamp.
struct Cell {
    at: PathBuf,
    sandbox: u64,
    slot: u32,
    inside: Subject,
    page: OwnedFd,
    root: File,
}

impl Cell {
    fn new(stage: &mut Stage, name: &str, approval_only: u32) -> Self {
        let at = stage.at(name);
        fs::create_dir_all(at.join("deep/er")).unwrap();
        for file in ["file", "deep/er/file", "move", "gone"] {
            fs::write(at.join(file), "inside").unwrap();
        }
        let root = File::open(&at).unwrap();
        let (sandbox, slot, inside) = stage.arena.watched(name, &stage.programs);
        stage.programs.enrol_root(sandbox, root.as_fd(), ALL).unwrap();
        let stamped = stage.programs.stamp(sandbox, slot, ALL, approval_only);
        enforce(stage, sandbox, slot, &inside);
        Self {
            at,
            sandbox,
            slot,
            inside,
            page: stamped.unwrap(),
            root,
        }
    }

    /// The product's gateway, marking calls.
    fn gateway(&self) -> Stamp {
        let stamp = Stamp::map(&self.page).unwrap();
        stamp.mark();
        stamp
    }

    fn path(&self, name: &str) -> Vec<u8> {
        self.at.join(name).as_os_str().as_bytes().to_vec()
    }

    fn open(&mut self, name: &str, flags: i64) -> i64 {
        let path = self.path(name);
        open(&mut self.inside, &path, flags)
    }

    fn call(&mut self, nr: u32, args: &[Arg<'_>]) -> i64 {
        self.inside.call(nr, args).result
    }
}

fn enforce(stage: &mut Stage, sandbox: u64, slot: u32, subject: &Subject) {
    let process = pidfd_open(i32::try_from(subject.pid()).unwrap()).unwrap();
    let enforced = stage.programs.enforce(sandbox, slot, false, process.as_fd());
    enforced.unwrap();
}

/// Opens and closes: 0, or the error.
fn open(subject: &mut Subject, path: &[u8], flags: i64) -> i64 {
    let fd = subject.call(OPEN, &[Arg::Text(path), Arg::Number(flags)]).result;
    if fd < 0 {
        return fd;
    }
    assert_eq!(subject.call(CLOSE, &[Arg::Number(fd)]).result, 0);
    0
}

/// What was refused since: hook, reason, rights needed and there, calls.
type Refused = (&'static str, &'static str, u32, u32, Option<u64>);

fn told(stage: &mut Stage, cell: &Cell) -> Vec<Refused> {
    let mut all = Vec::new();
    let drained = stage.events.drain(|event| match event {
        Event::Verdict(event) => {
            assert_eq!(
                (event.origin.cgroup_id, event.origin.slot, event.errno),
                (cell.sandbox, cell.slot, 13)
            );
            let calls = event.origin.calls;
            all.push((
                event.hook.name,
                event.reason.unwrap_or_default(),
                event.needs,
                event.found,
                calls,
            ));
        }
        other => panic!("{other:?}"),
    });
    assert!(!drained.more);
    all
}

/// The reasons alone.
fn reasons(stage: &mut Stage, cell: &Cell) -> Vec<&'static str> {
    told(stage, cell).into_iter().map(|told| told.1).collect()
}

fn begun(stamp: &Stamp, rights: Rights) -> Call {
    let call = stamp.reserve(rights);
    stamp.begin(&call);
    call
}

fn over(stamp: &Stamp, call: Call) {
    stamp.end(&call, false);
    stamp.free(call);
}

fn what_a_call_needs_may_be_done_while_it_runs_and_not_before_or_after(stage: &mut Stage) {
    let mut cell = Cell::new(stage, "calls", 0);
    let stamp = cell.gateway();
    // Its start: the rights of the launch.
    assert_eq!(cell.open("file", RDWR), 0);
    stamp.answered(Rights::R);
    let refused = |calls| ("file_open", "no-call-needs-it", READ | WRITE, ALL, Some(calls));
    for file in ["file", "deep/er/file"] {
        assert_eq!(cell.open(file, RDWR), NO, "idle");
        assert_eq!(cell.open(file, RDONLY), 0);
        assert_eq!(told(stage, &cell), [refused(0)]);
    }
    let write = begun(&stamp, Rights::RW);
    assert_eq!(cell.open("file", RDWR), 0);
    assert_eq!(cell.open("deep/er/file", RDWR), 0);
    let read = begun(&stamp, Rights::R);
    assert_eq!(cell.open("file", RDWR), 0, "what both need together");
    assert_eq!(told(stage, &cell), []);
    over(&stamp, write);
    assert_eq!(cell.open("file", RDWR), NO);
    assert_eq!(told(stage, &cell), [refused(0b10)]);
    over(&stamp, read);
    assert_eq!(cell.open("file", RDWR), NO);
    assert_eq!(cell.open("file", RDONLY), 0);
    assert_eq!(told(stage, &cell), [refused(0)]);
    // Outside is outside, whatever the calls need, and whoever is in no sandbox has nothing to do with it.
    let call = begun(&stamp, Rights::RW);
    let outside = stage.at("outside/file").into_os_string().into_encoded_bytes();
    assert_eq!(open(&mut cell.inside, &outside, RDONLY), NO);
    let refused = ("file_open", "outside-roots", READ, 0, Some(0b100));
    assert_eq!(told(stage, &cell), [refused]);
    over(&stamp, call);
    assert_eq!(open(&mut stage.outside, &cell.path("file"), RDWR), 0);
}

fn whatever_writes_takes_a_call_that_needs_it(stage: &mut Stage) {
    let mut cell = Cell::new(stage, "writing", 0);
    let stamp = cell.gateway();
    stamp.answered(Rights::R);
    let paths = ["file", "move", "moved", "linked", "gone", "new"].map(|name| cell.path(name));
    let [file, old, moved, linked, gone, new] = paths.each_ref().map(|path| Arg::Text(path));
    let number = Arg::Number;
    let rows: [(&str, u32, &[Arg<'_>]); 8] = [
        ("path_truncate", TRUNCATE, &[file, number(1)]),
        ("path_rename", RENAME, &[old, moved]),
        ("path_link", LINK, &[file, linked]),
        ("path_unlink", UNLINK, &[gone]),
        ("path_mkdir", MKDIR, &[new, number(0o700)]),
        ("path_rmdir", RMDIR, &[new]),
        ("path_chmod", CHMOD, &[file, number(0o700)]),
        ("inode_setattr", UTIME, &[file, number(0)]),
    ];
    for (hook, nr, args) in rows {
        assert_eq!(cell.call(nr, args), NO, "{hook}");
        let refused = (hook, "no-call-needs-it", WRITE, ALL, Some(0));
        assert_eq!(told(stage, &cell), [refused]);
        let call = begun(&stamp, Rights::RW);
        assert_eq!(cell.call(nr, args), 0, "{hook}");
        over(&stamp, call);
    }
    assert_eq!(told(stage, &cell), []);
}

/// What a call leaves: a descriptor it opened. Known, and said in the threat model.
fn an_open_descriptor_outlives_its_call_and_what_is_asked_again_does_not(stage: &mut Stage) {
    let mut cell = Cell::new(stage, "left", 0);
    let stamp = cell.gateway();
    stamp.answered(Rights::R);
    let call = begun(&stamp, Rights::RW);
    let file = cell.path("file");
    let fd = cell.call(OPEN, &[Arg::Text(&file), Arg::Number(RDWR)]);
    assert!(fd > 2, "{fd}");
    over(&stamp, call);
    let text = [Arg::Number(fd), Arg::Bytes(b"late"), Arg::Number(4)];
    assert_eq!(cell.call(WRITE_CALL, &text), 4);
    assert_eq!(cell.call(FTRUNCATE, &[Arg::Number(fd), Arg::Number(1)]), NO);
    assert_eq!(reasons(stage, &cell), ["no-call-needs-it"]);
}

fn what_only_an_approved_call_may_do_no_stamp_gives(stage: &mut Stage) {
    let mut cell = Cell::new(stage, "approval", WRITE);
    let stamp = cell.gateway();
    // In its start, by a call, and by whatever a gateway that was taken over writes.
    assert_eq!(cell.open("file", RDWR), NO);
    stamp.answered(Rights::R);
    let call = begun(&stamp, Rights::RW);
    assert_eq!(cell.open("file", RDWR), NO);
    let mapped = StampPage::map(&cell.page).unwrap();
    mapped.mask().store(u32::MAX, SeqCst);
    mapped.flags().store(u32::MAX, SeqCst);
    assert_eq!(cell.open("file", RDWR), NO);
    assert_eq!(cell.open("file", RDONLY), 0);
    let refused = |calls| ("file_open", "approval-missing", READ | WRITE, ALL, Some(calls));
    assert_eq!(told(stage, &cell), [refused(0), refused(1), refused(1)]);

    let (sandbox, slot) = (cell.sandbox, cell.slot);
    stage.programs.raise(sandbox, slot, READ | WRITE).unwrap();
    assert_eq!(cell.open("file", RDWR), 0);
    stage.programs.raise(sandbox, slot, WRITE).unwrap();
    stage.programs.lower(sandbox, slot, READ | WRITE).unwrap();
    assert_eq!(cell.open("file", RDWR), 0, "another approved call runs");
    // An approval gives no more than the stamp does.
    over(&stamp, call);
    assert_eq!(cell.open("file", RDWR), NO);
    assert_eq!(reasons(stage, &cell), ["no-call-needs-it"]);
    let call = begun(&stamp, Rights::RW);
    assert_eq!(cell.open("file", RDWR), 0);
    stage.programs.lower(sandbox, slot, WRITE).unwrap();
    assert_eq!(cell.open("file", RDWR), NO);
    assert_eq!(reasons(stage, &cell), ["approval-missing"]);
    over(&stamp, call);
}

fn what_is_no_root_of_the_operators_is_as_it_was(stage: &mut Stage) {
    let mut cell = Cell::new(stage, "grants", ALL);
    let mapped = StampPage::map(&cell.page).unwrap();
    mapped.mask().store(0, SeqCst);
    assert_eq!(cell.open("file", RDONLY), NO);
    assert_eq!(reasons(stage, &cell), ["no-call-needs-it"]);
    let rows = [("r", READ, RDONLY), ("rw", READ | WRITE, RDWR)].map(|(name, rights, flags)| {
        let object = File::open(stage.at(name)).unwrap();
        stage
            .programs
            .enrol(cell.sandbox, object.as_fd(), rights)
            .unwrap();
        (name, flags, object)
    });
    for (name, flags, _held) in &rows {
        let file = stage.at(name).join("file").into_os_string().into_encoded_bytes();
        assert_eq!(open(&mut cell.inside, &file, *flags), 0, "{name}");
    }
    assert_eq!(told(stage, &cell), []);
    // One object that is both has what the runtime needs, whatever calls there are.
    let again = stage.programs.enrol(cell.sandbox, cell.root.as_fd(), READ);
    again.unwrap();
    assert_eq!(cell.open("file", RDONLY), 0);
    assert_eq!(cell.open("file", RDWR), NO);
    mapped.mask().store(READ | WRITE, SeqCst);
    assert_eq!(cell.open("file", RDWR), NO, "it waits for an approval");
    assert_eq!(reasons(stage, &cell), ["no-call-needs-it", "approval-missing"]);
    stage.programs.raise(cell.sandbox, cell.slot, WRITE).unwrap();
    assert_eq!(cell.open("file", RDWR), 0);
}

/// What is moved stays there when a later call may do more.
fn nothing_is_gained_by_a_move_while_the_stamp_gives_less(stage: &mut Stage) {
    let mut cell = Cell::new(stage, "gain", 0);
    let stamp = cell.gateway();
    stamp.answered(Rights::R);
    let data = File::open(stage.at("rw")).unwrap();
    stage
        .programs
        .enrol(cell.sandbox, data.as_fd(), READ | WRITE)
        .unwrap();
    let _call = begun(&stamp, Rights::RW);
    let from = stage.at("rw/file").into_os_string().into_encoded_bytes();
    let to = cell.path("program");
    assert_eq!(cell.call(RENAME, &[Arg::Text(&from), Arg::Text(&to)]), NO);
    let refused = ("path_rename", "would-gain-rights", ALL, READ | WRITE, Some(1));
    assert_eq!(told(stage, &cell), [refused]);
}

fn a_stamp_is_of_one_sandbox(stage: &mut Stage) {
    let mut cell = Cell::new(stage, "neighbours", WRITE);
    let mut other = Cell::new(stage, "second", WRITE);
    let (stamp, others) = (cell.gateway(), other.gateway());
    stamp.answered(Rights::R);
    others.answered(Rights::R);
    let call = begun(&stamp, Rights::RW);
    stage.programs.raise(cell.sandbox, cell.slot, WRITE).unwrap();
    assert_eq!(cell.open("file", RDWR), 0);
    assert_eq!(other.open("file", RDWR), NO);
    assert_eq!(reasons(stage, &other), ["no-call-needs-it"]);
    let others_call = begun(&others, Rights::RW);
    assert_eq!(other.open("file", RDWR), NO);
    assert_eq!(reasons(stage, &other), ["approval-missing"]);
    stage.programs.raise(other.sandbox, other.slot, WRITE).unwrap();
    over(&stamp, call);
    assert_eq!(cell.open("file", RDWR), NO);
    assert_eq!(reasons(stage, &cell), ["no-call-needs-it"]);
    assert_eq!(other.open("file", RDWR), 0);
    over(&others, others_call);
    // A sandbox without a stamp has what its roots give.
    let (plain, slot, mut third) = stage.arena.watched("third", &stage.programs);
    stage.programs.enrol_root(plain, cell.root.as_fd(), ALL).unwrap();
    enforce(stage, plain, slot, &third);
    assert_eq!(open(&mut third, &cell.path("file"), RDWR), 0);
}
