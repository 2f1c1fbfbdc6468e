//! What the trail promises, tried on real directories.

mod arbitrary;
mod document;
#[cfg(feature = "faults")]
mod faults;
mod keys;
mod query;
mod reading;
mod records;
mod tamper;
mod torn;
mod writer;
mod writing;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::*;
use crate::{
    config::rights::Rights,
    link::message::{Facet, OverBudget, Protocol, View},
    octets::Octets,
};

/// A directory whose `audit` does not exist yet.
pub(super) struct Place {
    _keep: tempfile::TempDir,
    pub dir: PathBuf,
}

pub(super) fn place() -> Place {
    let keep = tempfile::tempdir().unwrap();
    let dir = keep.path().join("audit");
    Place { _keep: keep, dir }
}

/// Small segments and checkpoints close together, so that a few records show everything.
pub(super) fn small() -> Options {
    Options {
        max_segment_records: 8,
        checkpoint_every_records: 5,
        ..Options::default()
    }
}

pub(super) fn allow(number: u32) -> Body {
    Body::Kernel(Box::new(Kernel {
        decision: Decision::Allow,
        pid: number,
        ..match full_kernel() {
            Body::Kernel(kernel) => *kernel,
            _ => unreachable!(),
        }
    }))
}

/// Appends `count` records, numbered by their pid.
pub(super) fn fill(trail: &mut Trail, count: u32) {
    for number in 0..count {
        trail
            .append(&allow(number), Origin::Warden, Durability::Soon)
            .unwrap();
    }
}

/// A closed chain with `count` records of ours and what the writer adds.
pub(super) fn closed(dir: &Path, options: Options, count: u32) {
    let mut trail = Trail::open(dir, options).unwrap();
    fill(&mut trail, count);
    trail.close().unwrap();
}

pub(super) fn report(dir: &Path) -> Report {
    verify(dir, &VerifyOptions::default()).unwrap()
}

pub(super) fn good(dir: &Path) -> Report {
    let report = report(dir);
    assert!(report.ok, "{:?}", report.first_bad);
    report
}

/// Paths of the segments, in order.
pub(super) fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    paths.sort();
    paths
}

pub(super) fn records(dir: &Path) -> Vec<Record> {
    let parse = |line: &str| serde_json::from_str(line).unwrap();
    segments(dir)
        .iter()
        .flat_map(|path| {
            fs::read_to_string(path)
                .unwrap()
                .lines()
                .map(parse)
                .collect::<Vec<_>>()
        })
        .collect()
}

pub(super) fn gaps(dir: &Path) -> Vec<Lost> {
    let gap = |record: Record| match record.body {
        Body::Gap(gap) => Some(gap.gap),
        _ => None,
    };
    records(dir).into_iter().filter_map(gap).collect()
}

/// Every optional field given: what `docs/audit.md` must list.
pub(super) fn full() -> Vec<Body> {
    vec![full_launch(), full_kernel(), full_exit(), full_gap()]
}

fn full_launch() -> Body {
    Body::Launch(Box::new(Launch {
        session: "s-1".into(),
        call: Some("7".into()),
        server: "files".into(),
        command: vec!["node".into(), Octets(vec![0xff, b'x'])],
        user: LaunchUser {
            name: Some("user1".into()),
            uid: 1000,
            gid: 1000,
            dynamic: false,
        },
        tier: "T2".into(),
        enforcement: BTreeMap::from([(
            Facet::Fs,
            Enforcement {
                layers: vec![Layer::Landlock, Layer::View],
                missing: vec![Missing {
                    layer: Layer::BpfLsm,
                    why: "not in `lsm=`".into(),
                }],
                self_test: Some("passed".into()),
            },
        )]),
        require: vec![Facet::Fs],
        allow_unenforced: false,
        policy_hash: Digest::of(&[b"policy"]).to_string(),
        roots: vec![LaunchRoot {
            path: "/srv/docs".into(),
            resolved: Some("/data/docs".into()),
            rights: Rights::RW,
            dev: Number(64),
            ino: Number(u64::MAX),
        }],
        protected: vec![".git/hooks".into()],
        environment: vec!["PATH".into()],
        view: View::Private,
        limits: LaunchLimits {
            memory: Number(1 << 29),
            cpu_percent: 100,
            pids: 64,
            tmp: Number(1 << 26),
        },
        resources: ResourcesReport {
            enforced: vec!["pids".into()],
            not_enforced: vec![NotEnforced {
                limit: "memory".into(),
                why: "no controller".into(),
            }],
        },
        observation: "cgroup-bpf+seccomp".into(),
        observation_missing: Some("it is turned off".into()),
        over_budget: OverBudget::Quarantine,
        protocol: Protocol::None,
        tool_rights: Some(true),
        kernel_release: "6.1.0".into(),
        landlock_abi: 4,
        grants: 12,
    }))
}

fn full_kernel() -> Body {
    Body::Kernel(Box::new(Kernel {
        session: "s-1".into(),
        server: "files".into(),
        op: "connect".into(),
        decision: Decision::Deny,
        layer: Layer::CgroupBpf,
        reason: Some("network is `none`".into()),
        path: Some("/run/x.sock".into()),
        path2: Some("/run/y".into()),
        path_source: Some(PathSource::UserMemory),
        path_complete: Some(false),
        dev: Some(Number(1)),
        ino: Some(Number(2)),
        nlink: Some(1),
        rights: Some("rw".into()),
        address: Some("127.0.0.1".into()),
        port: Some(80),
        family: Some("inet".into()),
        detail: Some(BTreeMap::from([
            ("flags".into(), Field::Number(Number(u64::MAX))),
            ("name".into(), Field::Text("x".into())),
            ("hook".into(), Field::Text("file_open".into())),
        ])),
        pid: 4711,
        tid: 4712,
        exe: Some("/usr/bin/node".into()),
        errno: Some("EPERM".into()),
        calls: vec!["c-1".into()],
        attribution: Attribution::Idle,
        repeat: Some(Number(3)),
    }))
}

fn full_exit() -> Body {
    let counters = || BTreeMap::from([("oom_kill".to_owned(), Number(1))]);
    Body::Exit(Box::new(Exit {
        session: "s-1".into(),
        call: Some("7".into()),
        server: "files".into(),
        reason: "signaled".into(),
        code: Some(1),
        signal: Some(9),
        duration_us: Number(1_234_567),
        resources: Some(ResourceUse {
            memory_events: counters(),
            pids_events: counters(),
            cpu_stat: counters(),
        }),
        stderr_tail: Some("boom\n".into()),
        cause: Some("gateway: the client closed its end".into()),
        degraded: Some("the kernel skipped runs".into()),
    }))
}

fn full_gap() -> Body {
    Body::Gap(Gap {
        session: Some("s-1".into()),
        call: Some("7".into()),
        gap: Lost {
            cpu: Some(1),
            kind: GapKind::RingFull,
            lost: Some(Number(12)),
            bytes: Some(Number(34)),
            saved: vec!["torn-1.0.bin".into()],
            done: Some("quarantined".into()),
        },
    })
}
