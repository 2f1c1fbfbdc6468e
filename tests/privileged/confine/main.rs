//! The filters on this kernel: what is refused and recorded, and what must work.
//!
//! The calls are made by `confine-probe`, which confines itself; this side is the warden's.

mod deadly;
mod harness;
mod programs;
#[path = "../../probes/receive.rs"]
mod receive;

use std::{
    os::unix::net::UnixStream,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use harness::probe;
use serde_json::json;

const PROBE: &str = env!("CARGO_BIN_EXE_confine-probe");
const EPERM: i32 = libc::EPERM;

/// Calls that are harmless when they are let through: their arguments are invalid, and the errno tells.
const REFUSED: &[(&str, &str)] = &[
    ("ptrace", "101,2,-1"),
    ("process_vm_readv", "310,-1"),
    ("process_vm_writev", "311,-1"),
    ("pidfd_getfd", "438,-1,-1,0"),
    ("kcmp", "312,-1,-1"),
    ("process_mrelease", "448,-1,0"),
    ("unshare", "272,0"),
    ("unshare", "272,0x10000001"),
    ("setns", "308,-1,0"),
    ("mount", "165,1,1,1,0,0"),
    ("umount2", "166,1,0"),
    ("pivot_root", "155,1,1"),
    ("chroot", "161,1"),
    ("open_tree", "428,-1,1,0"),
    ("move_mount", "429,-1,1,-1,1,0"),
    ("fsopen", "430,1,0"),
    ("fsconfig", "431,-1,0"),
    ("fsmount", "432,-1,0,0"),
    ("fspick", "433,-1,1,0"),
    ("mount_setattr", "442,-1,1,0,1,1"),
    ("bpf", "321,4095,1,8"),
    ("perf_event_open", "298,1,0,0,0,0"),
    ("userfaultfd", "323,0x7fffffff"),
    ("open_by_handle_at", "304,-1,1,0"),
    ("name_to_handle_at", "303,-1,1,1,1,0"),
    ("add_key", "248,1,1,0,0,0"),
    ("request_key", "249,1,1,0,0"),
    ("keyctl", "250,4095"),
    ("init_module", "175,1,4,1"),
    ("finit_module", "313,-1,1,0"),
    ("delete_module", "176,1,0"),
    ("kexec_load", "246,0,99,1,0x7fffffff"),
    ("reboot", "169,1,2,3,0"),
    ("swapon", "167,1,0"),
    ("swapoff", "168,1"),
    ("acct", "163,1"),
    ("quotactl", "179,-1,1,0,0"),
    ("syslog", "103,4095,0,0"),
    ("iopl", "172,99"),
    ("ioperm", "173,-1,-1,1"),
    ("settimeofday", "164,1,1"),
    ("clock_settime", "227,99,1"),
    ("adjtimex", "159,1"),
    ("clock_adjtime", "305,99,1"),
    ("sethostname", "170,1,-1"),
    ("setdomainname", "171,1,-1"),
    ("fanotify_init", "300,-1,-1"),
    ("fanotify_mark", "301,-1,-1,0,-1,1"),
];

#[test]
fn each_refused_call_gives_its_errno_and_one_record() -> Result<()> {
    let calls: Vec<&str> = REFUSED.iter().map(|(_, call)| *call).collect();
    let control = probe("none", "raw", &calls)?;
    control.assert_ok();
    let run = probe("open", "raw", &calls)?;
    run.assert_ok();
    assert_eq!(run.errnos(), vec![EPERM; calls.len()]);
    assert_eq!(
        run.ops(),
        REFUSED.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    );
    // Without the filter the same calls reach the kernel and fail otherwise, or not at all.
    let same: Vec<_> = REFUSED
        .iter()
        .zip(control.errnos())
        .filter(|(_, errno)| *errno == EPERM)
        .collect();
    // This kernel gives EPERM itself where a feature is taken out of it; anything else is a call badly chosen.
    let allowed = [
        "bpf",
        "perf_event_open",
        "kexec_load",
        "init_module",
        "finit_module",
        "delete_module",
    ];
    assert!(
        same.iter().all(|((name, _), _)| allowed.contains(name)),
        "no control: {same:?}"
    );
    Ok(())
}

#[test]
fn the_record_says_what_was_tried() -> Result<()> {
    let set_user = tempfile::NamedTempFile::new()?;
    let path = set_user.path().to_str().context("path")?.to_owned();
    let directory = tempfile::tempdir()?;
    let new = |name: &str| directory.path().join(name).display().to_string();
    let thread = libc::CLONE_THREAD;
    let cases = [
        // Without the filter: EINVAL, a thread must share signal handlers.
        (
            format!("56,{}", 0x1000_0000 | thread),
            "clone",
            json!({"flags": ["CLONE_NEWUSER", "0x10000"]}),
        ),
        (
            format!("56,{}", 0x4000_0000 | thread),
            "clone",
            json!({"flags": ["CLONE_NEWNET", "0x10000"]}),
        ),
        (
            "41,16,3,0".into(),
            "socket",
            json!({"family": "AF_NETLINK", "type": "SOCK_RAW", "protocol": 0}),
        ),
        (
            "41,17,3,0".into(),
            "socket",
            json!({"family": "AF_PACKET", "type": "SOCK_RAW", "protocol": 0}),
        ),
        (
            "41,40,1,0".into(),
            "socket",
            json!({"family": "AF_VSOCK", "type": "SOCK_STREAM", "protocol": 0}),
        ),
        (
            "41,38,5,0".into(),
            "socket",
            json!({"family": "AF_ALG", "type": "SOCK_SEQPACKET", "protocol": 0}),
        ),
        (
            "41,2,1,256".into(),
            "socket",
            json!({"family": "AF_INET", "type": "SOCK_STREAM", "protocol": 256}),
        ),
        (
            "41,0x100000010,3,0".into(),
            "socket",
            json!({"family": "AF_NETLINK", "type": "SOCK_RAW", "protocol": 0}),
        ),
        (
            "16,-1,0x5412,0".into(),
            "ioctl",
            json!({"fd": -1, "request": "TIOCSTI"}),
        ),
        (
            "16,-1,0x100005412,0".into(),
            "ioctl",
            json!({"fd": -1, "request": "TIOCSTI"}),
        ),
        (
            "16,-1,0x541c,0".into(),
            "ioctl",
            json!({"fd": -1, "request": "TIOCLINUX"}),
        ),
        (
            "16,-1,0x5000940e,0".into(),
            "ioctl",
            json!({"fd": -1, "request": "0x5000940e"}),
        ),
        (format!("90,@{path},0o4755"), "chmod", json!({"mode": "0o4755"})),
        (
            format!("268,-100,@{path},0o2755"),
            "fchmodat",
            json!({"mode": "0o2755"}),
        ),
        (
            "91,-1,0o6755".into(),
            "fchmod",
            json!({"fd": -1, "mode": "0o6755"}),
        ),
        (
            format!("83,@{},0o2755", new("a")),
            "mkdir",
            json!({"mode": "0o2755"}),
        ),
        (
            format!("258,-100,@{},0o4755", new("b")),
            "mkdirat",
            json!({"mode": "0o4755"}),
        ),
        (
            format!("257,-100,@{},0o101,0o4755", new("c")),
            "openat",
            json!({"mode": "0o4755"}),
        ),
        (
            format!("2,@{},0o101,0o2755", new("d")),
            "open",
            json!({"mode": "0o2755"}),
        ),
        (
            format!("85,@{},0o4755", new("e")),
            "creat",
            json!({"mode": "0o4755"}),
        ),
        (
            format!("133,@{},0o20666,259", new("f")),
            "mknod",
            json!({"mode": "0o20666", "dev": 259}),
        ),
        (
            format!("259,-100,@{},0o60666,1", new("g")),
            "mknodat",
            json!({"mode": "0o60666", "dev": 1}),
        ),
        (
            "317,1,8,0".into(),
            "seccomp",
            json!({"operation": 1, "flags": ["NEW_LISTENER"]}),
        ),
    ];
    let calls: Vec<&String> = cases.iter().map(|(call, _, _)| call).collect();
    let run = probe("open", "raw", &calls)?;
    run.assert_ok();
    assert_eq!(run.errnos(), vec![EPERM; cases.len()]);
    for (record, (call, op, detail)) in run.records.iter().zip(&cases) {
        assert_eq!(
            (record.op.as_str(), &record.detail, record.errno),
            (*op, detail, EPERM),
            "{call}"
        );
    }
    assert_eq!(run.records.len(), cases.len());
    assert_eq!(
        std::fs::read_dir(directory.path())?.count(),
        0,
        "nothing was made"
    );

    // The control: none of them is EPERM for root without the filter, and those that make things make them.
    let control = probe("none", "raw", &calls)?;
    let same: Vec<_> = calls
        .iter()
        .zip(control.errnos())
        .filter(|(_, errno)| *errno == EPERM)
        .collect();
    assert!(same.is_empty(), "no control: {same:?}");
    assert_eq!(std::fs::read_dir(directory.path())?.count(), 7);
    Ok(())
}

#[test]
fn what_the_surroundings_do_not_guard_is_refused() -> Result<()> {
    let calls = [
        "41,1,1,0",
        "41,2,1,0",
        "41,10,2,0",
        "53,1,2,0,0",
        "319,@m,1",
        "29,0,4096,0o1600",
        "240,@q,0,0,0",
    ];
    let strict = probe("strict", "raw", &calls)?;
    assert_eq!(strict.errnos(), vec![EPERM; calls.len()]);
    assert_eq!(
        strict.ops(),
        [
            "socket",
            "socket",
            "socket",
            "socketpair",
            "memfd_create",
            "shmget",
            "mq_open"
        ]
    );
    assert_eq!(strict.records[4].detail, json!({"flags": ["MFD_CLOEXEC"]}));
    let open = probe("open", "raw", &calls[..3])?;
    assert_eq!((open.errnos(), open.ops().len()), (vec![0; 3], 0));
    // A memory file that cannot be executed is fine everywhere; stream pairs are what pipes of node are.
    let fine = probe("strict", "raw", &["319,@m,8", "319,@m,9"])?;
    assert_eq!((fine.errnos(), fine.ops().len()), (vec![0; 2], 0));
    Ok(())
}

#[test]
fn hidden_arguments_look_like_an_older_kernel() -> Result<()> {
    let calls = [
        "437,-100,@/,1,24",
        "435,1,64",
        "452,-100,@/,0,0",
        "425,1,1",
        "426,-1",
        "427,-1",
        "470,0",
        "600,0",
        "-1,0",
    ];
    let run = probe("open", "raw", &calls)?;
    run.assert_ok();
    assert_eq!(run.errnos(), vec![libc::ENOSYS; calls.len()]);
    // Only the making of a ring is worth a record.
    assert_eq!(run.ops(), ["io_uring_setup"]);
    Ok(())
}

#[test]
fn the_quiet_ones_are_quiet() -> Result<()> {
    // personality(ADDR_NO_RANDOMIZE), setgroups, modify_ldt, mbind, arch_prctl(ARCH_MAP_VDSO_64),
    // prctl(PR_TASK_PERF_EVENTS_DISABLE), prctl of an option that does not exist
    let calls = [
        "135,0x40000",
        "116,0,0",
        "154,0,0,0",
        "237,0,0,0,0,0,0",
        "158,0x2003,0",
        "157,31,0,0,0,0",
        "157,0x7fff0000,0,0,0,0",
    ];
    let run = probe("open", "raw", &calls)?;
    assert_eq!(run.errnos(), vec![EPERM; calls.len()]);
    assert_eq!(run.ops(), Vec::<&str>::new());
    // The control: the kernel itself has another answer for each.
    let control = probe("none", "raw", &calls)?;
    assert_eq!(control.lines().len(), calls.len());
    assert!(!control.errnos().contains(&EPERM), "{:?}", control.errnos());
    Ok(())
}

#[test]
fn silent_filters_refuse_without_a_listener() -> Result<()> {
    let calls = ["101,2,-1", "41,16,3,0", "425,1,1", "437,-100,@/,1,24", "110"];
    let run = probe("silent", "raw", &calls)?;
    run.assert_ok();
    assert_eq!(run.errnos(), [EPERM, EPERM, libc::ENOSYS, libc::ENOSYS, 0]);
    Ok(())
}

#[test]
fn a_call_to_report_fails_when_nobody_listens() -> Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(PROBE)
        .args([
            "open",
            "exec",
            "/bin/sh",
            "-c",
            "read line < /dev/null; unshare -U true",
        ])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(receive::descriptor(&ours)?.context("no listener")?);
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("not implemented"),
        "{text}"
    );
    Ok(())
}

#[test]
fn threads_work_for_both() -> Result<()> {
    for confinement in ["none", "strict", "gateway"] {
        let run = probe::<&str>(confinement, "threads", &[])?;
        run.assert_ok();
        assert_eq!(
            (run.lines(), run.ops().len()),
            (vec![(140, 0)], 0),
            "{confinement}"
        );
    }
    Ok(())
}

#[test]
fn init_can_do_its_work() -> Result<()> {
    let run = probe::<&str>("strict", "init", &[])?;
    run.assert_ok();
    assert_eq!((run.lines(), run.ops().len()), (vec![(1, 0)], 0));
    Ok(())
}
