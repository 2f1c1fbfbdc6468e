//! A cgroup like a sandbox's: its network programs refuse and report, its limits hold.

use std::{fs, io, path::Path, time::Instant};

use guard_common::event::NetOp;
use serde::{Deserialize, Serialize};

use super::{
    attacks::{self, Loopback, Unix},
    attempt::{Answer, Attempt, Finding},
    host,
};
use crate::{
    audit::Layer,
    fault,
    link::message::{Facet, Limits},
    warden::{
        cgroup::Sandbox,
        kernel::{Endpoint, NetEvent},
    },
};

/// Its name below the warden's cgroup; sessions begin with `s-`.
pub(super) const NAME: &str = "proof";

/// Our child and three more; init's place is added by who makes the cgroup.
pub(super) const LIMITS: Limits = Limits {
    memory: 64 << 20,
    cpu_percent: 100,
    pids: 3,
    tmp: 0,
};
/// More than fit.
const FORKS: usize = 8;

/// What the child reports; the reports of the kernel half are the parent's to read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Found {
    connect: [Answer; 2],
    /// The port of the listener.
    port: u16,
    unix: Option<[Answer; 2]>,
    forks: [Answer; 2],
}

/// Attacks outside the cgroup and inside it.
pub(super) fn attack(cgroup: &Path, socket: Option<&Path>) -> io::Result<Found> {
    let loopback = Loopback::listen()?;
    let unix = socket.map(Unix::path).transpose()?;
    let forks = || attacks::fork_until_refused(FORKS).1;
    let network = || (loopback.connect(), unix.as_ref().map(Unix::connect));
    let (without, forks_without) = (network(), forks());
    // Outside all the same, when a test wants to see what gets through.
    let early = fault::point("proof.cgroup-bpf").is_err().then(network);
    let early_forks = fault::point("proof.cgroup-limits").is_err().then(forks);
    fs::write(cgroup.join("cgroup.procs"), "0")?;
    let behind = early.unwrap_or_else(network);
    let forks_behind = early_forks.unwrap_or_else(forks);
    Ok(Found {
        connect: [without.0, behind.0],
        port: loopback.address.port(),
        unix: without.1.zip(behind.1).map(<[Answer; 2]>::from),
        forks: [forks_without, forks_behind],
    })
}

/// Whether the programs reported what they refused, with its address.
#[derive(Debug, Default)]
pub(super) struct Reports {
    connect: bool,
    unix: bool,
}

impl Reports {
    pub(super) fn look(&mut self, event: &NetEvent, cgroup: u64, found: &Found, socket: Option<&Path>) {
        use std::os::unix::ffi::OsStrExt as _;
        if event.cgroup_id != cgroup {
            return;
        }
        match (&event.endpoint, event.op) {
            (Endpoint::V4(address), NetOp::Connect4) => {
                self.connect |= address.ip().is_loopback() && address.port() == found.port;
            }
            (Endpoint::Unix(name), NetOp::UnixConnect) => {
                self.unix |= socket.is_some_and(|path| path.as_os_str().as_bytes() == name);
            }
            _ => {}
        }
    }
}

/// What it all shows. `unix_missing`: why the kernel has no hooks on unix sockets; `limits_missing`: no controllers.
pub(super) fn findings(
    found: &Found,
    reports: &Reports,
    unix_missing: Option<&str>,
    limits_missing: Option<&str>,
) -> Vec<Finding> {
    let refused = &[libc::EPERM];
    let attempt = |what, errnos: &[i32], answers: [Answer; 2]| {
        Attempt::new(what, errnos).without(answers[0]).behind(answers[1])
    };
    let network = attempt("connect to loopback", refused, found.connect).reported(reports.connect);
    let mut findings = vec![Finding::attempts(Facet::Net, Layer::CgroupBpf, vec![network])];
    findings.push(match (found.unix, unix_missing) {
        (Some(answers), None) => {
            let attempt = attempt("connect to a unix socket", refused, answers).reported(reports.unix);
            Finding::attempts(Facet::Ipc, Layer::CgroupBpf, vec![attempt])
        }
        (_, why) => Finding::unavailable(
            Facet::Ipc,
            Layer::CgroupBpf,
            &host::without_unix_hooks(why.unwrap_or("not tried")),
        ),
    });
    findings.push(match limits_missing {
        None => {
            let attempt = attempt("start one process too many", &[libc::EAGAIN], found.forks);
            Finding::attempts(Facet::Resources, Layer::CgroupLimits, vec![attempt])
        }
        Some(why) => Finding::unavailable(
            Facet::Resources,
            Layer::CgroupLimits,
            &host::without_controllers(why),
        ),
    });
    findings
}

/// The pairs this file answers for.
pub(super) const PAIRS: [(Facet, Layer); 3] = [
    (Facet::Net, Layer::CgroupBpf),
    (Facet::Ipc, Layer::CgroupBpf),
    (Facet::Resources, Layer::CgroupLimits),
];

/// Removes the cgroup. What was in it has ended; the kernel may need a moment to know.
pub(super) fn remove(cgroup: &Sandbox, until: Instant) {
    let left = until.saturating_duration_since(Instant::now());
    if let Err(error) = crate::warden::cgroup::destroy(cgroup.path(), left) {
        tracing::error!(error = %crate::refusal::chain(&error), "cannot remove the self-test's cgroup");
    }
}
