//! Exact records; beside them the page of the hooks.

mod page;

use std::{fs::File, io::Write as _};

use guard_common::hooks::{self, EXECUTE, HOOKS, Hook, READ, WRITE};
use serde_json::{Value, json};

use super::*;
use crate::{
    audit::{Activity, Body, Filter, PathPattern},
    config::rights::Rights,
    link::message::View,
    proof::LsmList,
    warden::{
        events::{
            in_flight::InFlight,
            modules::{Landlock, Modules},
            mounts::Mounts,
            places::Places,
        },
        kernel::{KernelPath, Origin},
        subject::Subject,
    },
};

/// What the sandbox sees: its own root, its `/tmp` and one project.
const THEIRS: &str = "\
90 80 0:99 / / ro - tmpfs tmpfs rw
91 90 0:100 / /tmp rw - tmpfs tmpfs rw
92 90 8:1 /home/u/project /home/u/project rw - ext4 /dev/sda1 rw
";
const OURS: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";

fn list(text: &str) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn surroundings() -> Surroundings {
    let mut places = Places::new(View::Private, b"/home/u/project");
    places.root(b"/home/u/project", Rights::RW);
    let landlock = Landlock { abi: 6, scopes: true };
    let there = LsmList::parse("capability,landlock,yama,bpf");
    let modules = Modules::listed(landlock, &there, || false);
    Surroundings::new(places, None, Mounts::of([list(THEIRS), list(OURS)]), modules)
}

fn names(path: &str, complete: bool) -> Option<KernelPath> {
    Some(KernelPath {
        components: path.split('/').map(|name| name.as_bytes().to_vec()).collect(),
        complete,
    })
}

fn event(hook: &'static Hook, reason: u16) -> VerdictEvent {
    VerdictEvent {
        origin: Origin {
            cgroup_id: 8,
            slot: 3,
            pid: 9,
            tid: 10,
            ktime_ns: 7,
            cpu: 1,
            calls: Some(0),
        },
        hook,
        reason: hooks::reason(reason),
        errno: hook.errno,
        needs: 0,
        found: 0,
        dev: None,
        ino: None,
        nlink: None,
        detail: 0,
        names: None,
    }
}

/// Of a file of the host's.
fn about(hook: &'static Hook, reason: u16, path: &str, needs: u32, found: u32) -> VerdictEvent {
    VerdictEvent {
        needs,
        found,
        dev: Some(libc::makedev(8, 1)),
        ino: Some(5),
        nlink: Some(1),
        names: names(path, true),
        ..event(hook, reason)
    }
}

fn told(ledger: &mut Ledger) -> Vec<Value> {
    let records = ledger.take(usize::MAX);
    records
        .iter()
        .map(|body| serde_json::to_value(body).unwrap())
        .collect()
}

fn record(event: VerdictEvent) -> Value {
    let mut ledger = Ledger::new(&Subject::test("files", None), false);
    let during = InFlight::new(true).at(event.origin.calls, event.origin.ktime_ns);
    note(event, during, &mut ledger, &surroundings());
    let [one] = <[Value; 1]>::try_from(told(&mut ledger)).unwrap();
    one
}

/// With what all of them have.
fn wanted(own: Value) -> Value {
    let mut all = json!({
        "kind": "kernel", "session": "s", "server": "files", "decision": "deny", "layer": "bpf-lsm",
        "pid": 9, "tid": 10, "errno": "EACCES", "calls": [], "attribution": "idle",
    });
    let (Value::Object(members), Value::Object(own)) = (&mut all, own) else {
        panic!()
    };
    members.extend(own);
    all
}

const DEV: u64 = libc::makedev(8, 1);

#[test]
fn a_file_outside_is_named_by_its_path_in_the_tree() {
    assert_eq!(
        record(about(
            &hooks::FILE_OPEN,
            hooks::REASON_OUTSIDE,
            "etc/shadow",
            READ,
            0
        )),
        wanted(json!({
            "op": "open", "reason": "outside-roots", "path": "/etc/shadow", "path_source": "kernel", "dev": DEV,
            "ino": 5, "nlink": 1, "rights": "r", "detail": {"hook": "file_open"},
        }))
    );
}

#[test]
fn executing_and_what_rights_were_there() {
    let needs = READ | EXECUTE;
    assert_eq!(
        record(about(
            &hooks::FILE_OPEN,
            hooks::REASON_RIGHTS,
            "home/u/project/tool",
            needs,
            READ | WRITE
        )),
        wanted(json!({
            "op": "exec", "reason": "right-missing", "path": "/home/u/project/tool", "path_source": "kernel",
            "dev": DEV, "ino": 5, "nlink": 1, "rights": "rx", "detail": {"hook": "file_open", "has": "rw"},
        }))
    );
}

#[test]
fn what_is_about_to_be_made_has_a_path_and_no_inode() {
    let new = VerdictEvent {
        ino: None,
        nlink: None,
        ..about(&hooks::PATH_MKDIR, hooks::REASON_OUTSIDE, "home/u/new", WRITE, 0)
    };
    assert_eq!(
        record(new),
        wanted(json!({
            "op": "mkdir", "reason": "outside-roots", "path": "/home/u/new", "path_source": "kernel", "dev": DEV,
            "rights": "w", "detail": {"hook": "path_mkdir"},
        }))
    );
}

#[test]
fn the_sandboxs_own_files_have_its_own_paths() {
    let own = VerdictEvent {
        dev: Some(libc::makedev(0, 100)),
        ..about(
            &hooks::MMAP_FILE,
            hooks::REASON_RIGHTS,
            "x.so",
            EXECUTE,
            READ | WRITE,
        )
    };
    assert_eq!(
        record(own),
        wanted(json!({
            "op": "mmap", "reason": "right-missing", "path": "/tmp/x.so", "path_source": "kernel", "dev": 100,
            "ino": 5, "nlink": 1, "rights": "x", "detail": {"hook": "mmap_file", "has": "rw"},
        }))
    );
}

#[test]
fn names_that_cannot_be_placed_are_told_as_they_are() {
    let elsewhere = VerdictEvent {
        dev: Some(77),
        ..about(&hooks::FILE_OPEN, hooks::REASON_OUTSIDE, "a/b", READ, 0)
    };
    let told = wanted(json!({
        "op": "open", "reason": "outside-roots", "path": "a/b", "path_source": "kernel", "path_complete": false,
        "dev": 77, "ino": 5, "nlink": 1, "rights": "r", "detail": {"hook": "file_open"},
    }));
    assert_eq!(record(elsewhere), told);
    // Where the names do not begin at the top the mount is of no use.
    let cut = VerdictEvent {
        names: names("a/b", false),
        ..about(&hooks::FILE_OPEN, hooks::REASON_DEPTH, "", READ, 0)
    };
    assert_eq!(
        record(cut),
        wanted(json!({
            "op": "open", "reason": "too-deep", "path": "a/b", "path_source": "kernel", "path_complete": false,
            "dev": DEV, "ino": 5, "nlink": 1, "rights": "r", "detail": {"hook": "file_open"},
        }))
    );
    // A memory file: it was never in a directory.
    let nameless = VerdictEvent {
        dev: Some(1),
        names: Some(KernelPath {
            components: Vec::new(),
            complete: true,
        }),
        ..about(&hooks::FILE_OPEN, hooks::REASON_NOT_A_FILE, "", EXECUTE, 0)
    };
    assert_eq!(
        record(nameless),
        wanted(json!({
            "op": "exec", "reason": "no-file", "dev": 1, "ino": 5, "nlink": 1, "rights": "x",
            "detail": {"hook": "file_open"},
        }))
    );
}

#[test]
fn what_another_module_refused_is_its_own_where_that_is_known() {
    let others = |hook, errno| VerdictEvent {
        reason: None,
        errno,
        ..about(hook, hooks::REASON_OUTSIDE, "etc/shadow", READ, 0)
    };
    let told = |layer: &str, reason: &str, errno: &str| {
        wanted(json!({
            "op": "open", "layer": layer, "reason": reason, "errno": errno, "path": "/etc/shadow",
            "path_source": "kernel", "dev": DEV, "ino": 5, "nlink": 1, "rights": "r",
            "detail": {"hook": "file_open"},
        }))
    };
    assert_eq!(
        record(others(&hooks::FILE_OPEN, 13)),
        told("landlock", "not-granted", "EACCES")
    );
    assert_eq!(
        record(others(&hooks::FILE_OPEN, 1)),
        told("unknown", "security-module", "EPERM")
    );
    let signal = VerdictEvent {
        reason: None,
        errno: 1,
        ..event(&hooks::TASK_KILL, hooks::REASON_STRANGER)
    };
    assert_eq!(
        record(signal),
        wanted(json!({
            "op": "kill", "layer": "landlock", "reason": "stranger", "errno": "EPERM",
            "detail": {"hook": "task_kill"},
        }))
    );
    // It is not the same attempt as one that our own program refused.
    let (around, mut ledger) = (surroundings(), Ledger::new(&Subject::test("files", None), false));
    note(
        others(&hooks::FILE_OPEN, 13),
        During::unknown(),
        &mut ledger,
        &around,
    );
    let ours = about(&hooks::FILE_OPEN, hooks::REASON_OUTSIDE, "etc/shadow", READ, 0);
    note(ours, During::unknown(), &mut ledger, &around);
    assert_eq!(self::told(&mut ledger).len(), 2);
}

#[test]
fn what_is_about_no_file_has_its_kind() {
    let socket = VerdictEvent {
        detail: (40 << 32) | 1,
        ..event(&hooks::SOCKET_CREATE, hooks::REASON_KIND)
    };
    assert_eq!(
        record(socket),
        wanted(json!({
            "op": "socket", "reason": "kind", "family": "AF_VSOCK",
            "detail": {"hook": "socket_create", "type": "SOCK_STREAM"},
        }))
    );
    assert_eq!(
        record(event(&hooks::SB_MOUNT, hooks::REASON_NEVER)),
        wanted(json!({"op": "mount", "reason": "never", "errno": "EPERM", "detail": {"hook": "sb_mount"}}))
    );
    let mode = VerdictEvent {
        detail: 0o4755,
        ..about(&hooks::PATH_CHMOD, hooks::REASON_SET_ID, "home/u/project/x", 0, 0)
    };
    assert_eq!(
        record(mode),
        wanted(json!({
            "op": "chmod", "reason": "set-id", "path": "/home/u/project/x", "path_source": "kernel", "dev": DEV,
            "ino": 5, "nlink": 1, "detail": {"hook": "path_chmod", "mode": "0o4755"},
        }))
    );
}

#[test]
fn the_same_refusal_is_counted_and_another_is_told() {
    let (around, mut ledger) = (surroundings(), Ledger::new(&Subject::test("files", None), false));
    let again = || about(&hooks::FILE_OPEN, hooks::REASON_OUTSIDE, "etc/shadow", READ, 0);
    for number in 0..5 {
        let mut event = again();
        // Who, when and how many names a file has by now make no other attempt.
        (event.origin.tid, event.origin.ktime_ns, event.nlink) = (number, number.into(), Some(number));
        note(event, During::unknown(), &mut ledger, &around);
    }
    let mut another = again();
    another.ino = Some(6);
    note(another, During::unknown(), &mut ledger, &around);
    assert_eq!(told(&mut ledger).len(), 2);
    ledger.finish();
    let rest = told(&mut ledger);
    assert_eq!(rest.len(), 1);
    assert_eq!(
        (&rest[0]["path"], &rest[0]["repeat"]),
        (&json!("/etc/shadow"), &json!(4))
    );
}

#[test]
fn what_happens_during_calls_is_told_apart_from_what_does_not() {
    let (around, mut ledger) = (surroundings(), Ledger::new(&Subject::test("files", None), false));
    let mut flight = InFlight::new(true);
    flight.begin(1, 0, 1);
    flight.begin(7, 2, 1);
    for calls in [None, Some(0), Some(1), Some(4), Some(5), Some(0), None, Some(5)] {
        let event = about(
            &hooks::FILE_OPEN,
            hooks::REASON_NO_CALL,
            "home/u/project/x",
            WRITE,
            3,
        );
        note(event, flight.at(calls, 2), &mut ledger, &around);
    }
    ledger.finish();
    let told: Vec<Value> = told(&mut ledger)
        .iter()
        .map(|record| {
            assert_eq!(record["reason"], "no-call-needs-it");
            json!([record["attribution"], record["calls"], record["repeat"]])
        })
        .collect();
    let rows = [
        ("unknown", json!([])),
        ("idle", json!([])),
        ("sole", json!(["1"])),
        ("sole", json!(["7"])),
        ("one-of", json!(["1", "7"])),
    ];
    for (at, (word, calls)) in rows.iter().enumerate() {
        assert_eq!(told[at], json!([word, calls, null]));
    }
    // One more of some came, in no order.
    for at in [0, 1, 4] {
        let (word, calls) = &rows[at];
        assert!(told[5..].contains(&json!([word, calls, 1])), "{told:?}");
    }
    assert_eq!(told.len(), 8);
}

#[test]
fn what_happened_in_a_call_is_counted_for_it_and_whatever_was_with_it() {
    let (around, mut ledger) = (surroundings(), Ledger::new(&Subject::test("files", None), false));
    let mut flight = InFlight::new(true);
    flight.begin(1, 0, 1);
    flight.begin(7, 2, 1);
    ledger.call_begins(1);
    ledger.call_begins(7);
    for (calls, hook) in [
        (Some(1), &hooks::FILE_OPEN),
        (Some(1), &hooks::FILE_OPEN),
        (Some(5), &hooks::FILE_OPEN),
        (Some(4), &hooks::SB_MOUNT),
        (Some(0), &hooks::SB_MOUNT),
    ] {
        note(
            event(hook, hooks::REASON_OUTSIDE),
            flight.at(calls, 2),
            &mut ledger,
            &around,
        );
    }
    let counts = |allowed: u64, denied: u64| json!({"allowed": allowed, "denied": denied});
    assert_eq!(
        serde_json::to_value(ledger.call_ends(1)).unwrap(),
        json!({"allowed": 0, "denied": 3, "by_op": {"open": counts(0, 3)}})
    );
    assert_eq!(
        serde_json::to_value(ledger.call_ends(7)).unwrap(),
        json!({"allowed": 0, "denied": 2, "by_op": {"mount": counts(0, 1), "open": counts(0, 1)}})
    );
    // What is over has no more.
    note(
        event(&hooks::SB_MOUNT, hooks::REASON_NEVER),
        flight.at(Some(1), 2),
        &mut ledger,
        &around,
    );
    assert_eq!(ledger.call_ends(1), Activity::default());
}

#[test]
fn every_hook_can_be_told_of() {
    for hook in HOOKS {
        let record = record(about(hook, hooks::REASON_OUTSIDE, "etc/x", WRITE, 0));
        assert_eq!(record["detail"]["hook"], hook.name);
        assert_ne!(record["op"], "unknown", "{}", hook.name);
    }
}

/// What `audit query` is asked.
#[test]
fn refusals_are_found_by_what_they_are() {
    let record = record(about(
        &hooks::FILE_OPEN,
        hooks::REASON_OUTSIDE,
        "etc/shadow",
        READ,
        0,
    ));
    let path = |text: &str| PathPattern::new(text.as_ref()).unwrap();
    let admits = |filter: Filter| filter.admits(&record);
    let all = Filter {
        ops: vec!["openat".parse().unwrap()],
        decision: Some(Decision::Deny),
        layers: vec![Layer::BpfLsm],
        errnos: vec!["EACCES".parse().unwrap()],
        paths: vec![path("/etc")],
        pids: vec![10],
        ..Filter::default()
    };
    assert!(admits(all));
    for other in [
        Filter {
            layers: vec![Layer::Landlock],
            ..Filter::default()
        },
        Filter {
            ops: vec!["exec".parse().unwrap()],
            ..Filter::default()
        },
        Filter {
            paths: vec![path("/home")],
            ..Filter::default()
        },
    ] {
        assert!(!admits(other));
    }
    // It is a record of this contract.
    assert!(serde_json::from_value::<Body>(record.clone()).is_ok());
}
