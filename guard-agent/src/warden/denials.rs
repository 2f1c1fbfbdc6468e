//! From kernel events and seccomp notifications to records: identical denials collapse, and a sandbox has a
//! byte budget, so that a hostile server can neither fill the disk nor silence the log.

use std::collections::{BTreeMap, HashMap, HashSet};

use guard_common::event::{NetOp, REASON_NETWORK_NONE, REASON_SOCKET_KIND};

use super::kernel::{Endpoint, NetEvent};
use crate::{
    audit::{Attribution, Body, Decision, Field, Gap, GapKind, Kernel, Layer, PathSource, errno_name},
    confine::notify::{Denied, Notification},
    octets::Octets,
};

/// Distinct denials remembered a sandbox; the rest is counted.
const MAX_DISTINCT: usize = 1024;
/// Bytes of kernel records a sandbox may write.
const BUDGET: usize = 1 << 20;

/// One denial, before it is a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denial {
    pub op: String,
    pub layer: Layer,
    pub reason: Option<String>,
    pub family: Option<String>,
    pub address: Option<String>,
    pub port: Option<u16>,
    pub path: Option<Octets>,
    pub detail: BTreeMap<String, Field>,
    pub pid: u32,
    pub tid: u32,
    pub errno: i32,
}

impl Denial {
    /// What makes two denials the same: everything but who and when.
    fn key(&self) -> String {
        format!(
            "{} {} {:?} {:?} {:?} {:?} {:?} {:?} {}",
            self.op,
            self.layer,
            self.reason,
            self.family,
            self.address,
            self.port,
            self.path,
            self.detail,
            self.errno
        )
    }

    fn record(&self, session: &str, server: &str, repeat: Option<u64>) -> Kernel {
        Kernel {
            session: session.to_owned(),
            server: server.to_owned(),
            op: self.op.clone(),
            decision: Decision::Deny,
            layer: self.layer,
            reason: self.reason.clone(),
            path: self.path.clone(),
            path_source: self.path.as_ref().map(|_| PathSource::UserMemory),
            path_complete: None,
            dev: None,
            ino: None,
            nlink: None,
            rights: None,
            address: self.address.clone(),
            port: self.port,
            family: self.family.clone(),
            detail: (!self.detail.is_empty()).then(|| self.detail.clone()),
            pid: self.pid,
            tid: self.tid,
            exe: None,
            errno: Some(errno_name(self.errno)),
            // Calls are not known before the gateway speaks MCP.
            calls: Vec::new(),
            attribution: Attribution::Idle,
            repeat: repeat.map(Into::into),
        }
    }
}

/// The denials of one sandbox.
#[derive(Debug)]
pub(super) struct Denials {
    session: String,
    server: String,
    seen: HashMap<String, (Denial, u64)>,
    operations: HashSet<String>,
    spent: usize,
    over: u64,
}

impl Denials {
    pub(super) fn new(session: &str, server: &str) -> Self {
        Self {
            session: session.to_owned(),
            server: server.to_owned(),
            seen: HashMap::new(),
            operations: HashSet::new(),
            spent: 0,
            over: 0,
        }
    }

    /// A record to write now, for a denial not seen before.
    pub(super) fn add(&mut self, denial: Denial) -> Option<Body> {
        let key = denial.key();
        if let Some((_, repeats)) = self.seen.get_mut(&key) {
            *repeats += 1;
            return None;
        }
        // The first of each operation is always written, or a thousand connects would buy silence for what follows.
        // There are as many operations as the filter and the programs have names for.
        let first = self.operations.insert(denial.op.clone());
        if self.seen.len() >= MAX_DISTINCT && !first {
            self.over += 1;
            return None;
        }
        let kernel = denial.record(&self.session, &self.server, None);
        let body = if first {
            Some(Body::Kernel(Box::new(kernel)))
        } else {
            self.afford(kernel, 1)
        };
        self.seen.insert(key, (denial, 0));
        body
    }

    /// Records of what was repeated since the last time.
    pub(super) fn flush(&mut self) -> Vec<Body> {
        let mut due = Vec::new();
        for (denial, repeats) in self.seen.values_mut() {
            if *repeats > 0 {
                due.push((
                    denial.record(&self.session, &self.server, Some(*repeats)),
                    *repeats,
                ));
                *repeats = 0;
            }
        }
        due.into_iter()
            .filter_map(|(kernel, count)| self.afford(kernel, count))
            .collect()
    }

    /// What went over the budget, once, at the end.
    pub(super) fn finish(&mut self) -> Vec<Body> {
        let mut records = self.flush();
        if self.over > 0 {
            let gap = Gap::counted(Some(self.session.clone()), GapKind::OverBudget, self.over);
            records.push(Body::Gap(gap));
            self.over = 0;
        }
        records
    }

    fn afford(&mut self, kernel: Kernel, count: u64) -> Option<Body> {
        // The envelope adds about 260 bytes.
        let size = serde_json::to_vec(&kernel).map_or(BUDGET, |bytes| bytes.len() + 260);
        if self.spent + size > BUDGET {
            self.over += count;
            return None;
        }
        self.spent += size;
        Some(Body::Kernel(Box::new(kernel)))
    }
}

/// What the cgroup programs reported.
pub(super) fn of_event(event: &NetEvent) -> Denial {
    let (address, port, path) = match &event.endpoint {
        Endpoint::V4(at) => (Some(at.ip().to_string()), Some(at.port()), None),
        Endpoint::V6(at) => (Some(at.ip().to_string()), Some(at.port()), None),
        Endpoint::Unix(name) => (None, None, Some(Octets(name.clone()))),
        Endpoint::None => (None, None, None),
    };
    let mut detail = BTreeMap::new();
    detail.insert(
        "type".to_owned(),
        Field::Text(socket_type(event.sock_type).into()),
    );
    detail.insert("protocol".to_owned(), Field::Number(event.protocol.into()));
    Denial {
        op: operation(event.op),
        layer: Layer::CgroupBpf,
        reason: Some(reason(event.reason).to_owned()),
        family: Some(family(event.family)),
        address,
        port,
        path,
        detail,
        pid: event.pid,
        tid: event.tid,
        errno: event.errno.into(),
    }
}

/// As in the contract (`docs/audit.md`): the family tells the rest.
fn operation(op: NetOp) -> String {
    match op {
        NetOp::Connect4 | NetOp::Connect6 | NetOp::UnixConnect => "connect".into(),
        NetOp::Sendmsg4 | NetOp::Sendmsg6 | NetOp::UnixSendmsg => "sendmsg".into(),
        NetOp::Bind4 | NetOp::Bind6 => "bind".into(),
        NetOp::SockCreate => "socket".into(),
        NetOp::Unknown(_) => op.name().to_owned(),
    }
}

fn reason(raw: u16) -> &'static str {
    match raw {
        REASON_NETWORK_NONE => "network-none",
        REASON_SOCKET_KIND => "socket-kind",
        _ => "unknown",
    }
}

fn family(raw: u16) -> String {
    match i32::from(raw) {
        libc::AF_INET => "AF_INET".into(),
        libc::AF_INET6 => "AF_INET6".into(),
        libc::AF_UNIX => "AF_UNIX".into(),
        other => format!("{other}"),
    }
}

fn socket_type(raw: u32) -> String {
    match i32::try_from(raw) {
        Ok(libc::SOCK_STREAM) => "SOCK_STREAM".into(),
        Ok(libc::SOCK_DGRAM) => "SOCK_DGRAM".into(),
        Ok(libc::SOCK_RAW) => "SOCK_RAW".into(),
        Ok(libc::SOCK_SEQPACKET) => "SOCK_SEQPACKET".into(),
        _ => format!("{raw}"),
    }
}

/// What the seccomp filter reported.
pub(super) fn of_notification(notification: &Notification, denied: Denied) -> Denial {
    let detail = match denied.detail {
        serde_json::Value::Object(map) => map.into_iter().map(|(key, value)| (key, field(&value))).collect(),
        _ => BTreeMap::new(),
    };
    Denial {
        op: denied.op,
        layer: Layer::Seccomp,
        reason: None,
        family: None,
        address: None,
        port: None,
        path: None,
        detail,
        pid: group_of(notification.tid),
        tid: notification.tid,
        errno: denied.errno,
    }
}

/// The thread group of a waiting thread; the thread itself when that cannot be read.
fn group_of(tid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let group = status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    group.unwrap_or(tid)
}

fn field(value: &serde_json::Value) -> Field {
    match value {
        serde_json::Value::Bool(flag) => Field::Flag(*flag),
        serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Field::Number(number.into()),
            (None, Some(number)) => {
                i32::try_from(number).map_or_else(|_| Field::Text(number.to_string().into()), Field::Signed)
            }
            _ => Field::Text(number.to_string().into()),
        },
        serde_json::Value::String(text) => Field::Text(text.as_str().into()),
        other => Field::Text(other.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(port: u16) -> Denial {
        Denial {
            op: "connect".into(),
            layer: Layer::CgroupBpf,
            reason: None,
            family: Some("AF_INET".into()),
            address: Some("192.0.2.1".into()),
            port: Some(port),
            path: None,
            detail: BTreeMap::new(),
            pid: 1,
            tid: 1,
            errno: libc::EPERM,
        }
    }

    /// attempts = recorded + repeated + over budget, exactly.
    #[test]
    fn every_denial_is_counted_once() {
        let mut denials = Denials::new("s", "server");
        let mut recorded = 0u64;
        let mut repeated = 0u64;
        let mut over = 0u64;
        let mut count = |bodies: Vec<Body>| {
            for body in bodies {
                match body {
                    Body::Kernel(kernel) => match kernel.repeat {
                        None => recorded += 1,
                        Some(repeat) => repeated += repeat.0,
                    },
                    Body::Gap(gap) => over += gap.gap.lost.map_or(0, |lost| lost.0),
                    other => panic!("{other:?}"),
                }
            }
        };
        let attempts = 200_000u32;
        for attempt in 0..attempts {
            let port = u16::try_from(attempt % 3000).unwrap();
            count(denials.add(denial(port)).into_iter().collect());
            if attempt % 50_000 == 0 {
                count(denials.flush());
            }
        }
        count(denials.finish());
        assert_eq!(recorded + repeated + over, u64::from(attempts));
        assert!(over > 0 && repeated > 0 && recorded as usize <= MAX_DISTINCT);
    }

    #[test]
    fn a_flood_of_one_kind_does_not_hide_another() {
        let mut denials = Denials::new("s", "server");
        for port in 0..5000 {
            let _ = denials.add(denial(port));
            let _ = denials.flush();
        }
        let other = Denial {
            op: "ptrace".into(),
            ..denial(1)
        };
        assert!(denials.add(other.clone()).is_some());
        assert!(denials.add(other).is_none());
    }
}
