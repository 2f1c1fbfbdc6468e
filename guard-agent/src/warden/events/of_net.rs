//! What the network programs reported: each of them has refused what it reports.

use std::{collections::BTreeMap, net::SocketAddr};

use guard_common::event::{NetOp, REASON_NETWORK_NONE, REASON_SOCKET_KIND};

use super::{
    attempt::{Key, To, Who, blank},
    desk::Surroundings,
    in_flight::During,
    ledger::Ledger,
};
use crate::{
    audit::{Decision, Field, Kernel, Layer, PathSource, errno_name},
    octets::Octets,
    warden::kernel::{Endpoint, NetEvent},
};

/// Takes one event.
pub(super) fn note(event: NetEvent, during: During, ledger: &mut Ledger, around: &Surroundings) {
    let who = Who {
        pid: event.pid,
        tid: event.tid,
        during,
    };
    let key = Key::Net {
        op: event.op.raw(),
        family: event.family,
        kind: event.sock_type,
        protocol: event.protocol,
        reason: event.reason,
        errno: event.errno,
        to: match event.endpoint {
            Endpoint::V4(at) => To::Internet(SocketAddr::V4(at)),
            Endpoint::V6(at) => To::Internet(SocketAddr::V6(at)),
            Endpoint::Unix(name) => To::Unix(name),
            Endpoint::None => To::Nowhere,
        },
        during: who.during.clone(),
    };
    if ledger.repeated(&key) {
        return;
    }
    let op = operation(event.op);
    ledger.first(key, op, |key| Kernel {
        exe: around.program(who.tid),
        ..record(key, op, &who)
    });
}

fn record(key: &Key, op: &'static str, who: &Who) -> Kernel {
    let blank = blank(op.into(), Decision::Deny, Layer::CgroupBpf, who);
    let Key::Net {
        family,
        kind,
        protocol,
        reason,
        errno,
        to,
        ..
    } = key
    else {
        return blank;
    };
    let (address, port, path) = match to {
        To::Internet(at) => (Some(at.ip().to_string()), Some(at.port()), None),
        To::Unix(name) => (None, None, Some(Octets(name.clone()))),
        To::Nowhere => (None, None, None),
    };
    let detail = BTreeMap::from([
        ("type".to_owned(), Field::Text(socket_type(*kind).as_str().into())),
        ("protocol".to_owned(), Field::Number((*protocol).into())),
    ]);
    Kernel {
        reason: Some(reason_name(*reason).to_owned()),
        path_source: path.as_ref().map(|_| PathSource::UserMemory),
        path,
        address,
        port,
        family: Some(family_name(*family)),
        detail: Some(detail),
        errno: Some(errno_name((*errno).into())),
        ..blank
    }
}

/// As in the contract (`docs/audit.md`): the family tells the rest.
fn operation(op: NetOp) -> &'static str {
    match op {
        NetOp::Connect4 | NetOp::Connect6 | NetOp::UnixConnect => "connect",
        NetOp::Sendmsg4 | NetOp::Sendmsg6 | NetOp::UnixSendmsg => "sendmsg",
        NetOp::Bind4 | NetOp::Bind6 => "bind",
        NetOp::SockCreate => "socket",
        NetOp::Unknown(_) => op.name(),
    }
}

fn reason_name(raw: u16) -> &'static str {
    match raw {
        REASON_NETWORK_NONE => "network-none",
        REASON_SOCKET_KIND => "socket-kind",
        _ => "unknown",
    }
}

fn family_name(raw: u16) -> String {
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
