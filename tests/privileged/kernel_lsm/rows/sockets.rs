//! Sockets: which there are, and who is at the other end.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use guard_common::hooks::{
    FILE_RECEIVE, SOCKET_CREATE, SOCKET_LISTEN, SOCKET_POST_CREATE, UNIX_MAY_SEND, UNIX_STREAM_CONNECT,
};
use libc::{
    AF_ALG, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, SOCK_DGRAM, SOCK_RAW,
    SOCK_SEQPACKET, SOCK_STREAM, SYS_accept, SYS_bind, SYS_connect, SYS_listen, SYS_read, SYS_sendto,
    SYS_socket, SYS_socketpair, SYS_write,
};

use super::{A, ANOTHERS, Actor, EACCES, End, HANDED, HELD_OUTSIDE, Row, no, yes};

/// `struct sockaddr_un`, as long as its path.
pub(crate) fn address(path: &Path) -> Vec<u8> {
    let mut address = 1_u16.to_ne_bytes().to_vec();
    address.extend_from_slice(path.as_os_str().as_bytes());
    address.push(0);
    address
}

fn socket(a: &mut Actor<'_>, family: i32, kind: i32, protocol: i64) -> i64 {
    let (family, kind) = (A::N(i64::from(family)), A::N(i64::from(kind)));
    a.call(SYS_socket, &[family, kind, A::N(protocol)])
}

fn with(a: &mut Actor<'_>, nr: i64, socket: i64, name: &str) -> i64 {
    assert!(socket > 2, "{socket}");
    let address = address(&a.place.path(name));
    a.call(nr, &[A::N(socket), A::B(&address), A::N(address.len() as i64)])
}

fn connect(a: &mut Actor<'_>, kind: i32, name: &str) -> i64 {
    let own = socket(a, AF_UNIX, kind, 0);
    with(a, SYS_connect, own, name)
}

fn send(a: &mut Actor<'_>, name: &str) -> i64 {
    let own = socket(a, AF_UNIX, SOCK_DGRAM, 0);
    let address = address(&a.place.path(name));
    a.call(
        SYS_sendto,
        &[
            A::N(own),
            A::B(b"x"),
            A::N(1),
            A::N(0),
            A::B(&address),
            A::N(address.len() as i64),
        ],
    )
}

/// A service of the subject's own.
fn service(a: &mut Actor<'_>, kind: i32) -> i64 {
    let own = socket(a, AF_UNIX, kind, 0);
    assert_eq!(with(a, SYS_bind, own, "rw/service"), 0);
    if kind == SOCK_DGRAM {
        return own;
    }
    assert_eq!(a.call(SYS_listen, &[A::N(own), A::N(4)]), 0);
    own
}

fn pair(a: &mut Actor<'_>, kind: i32) -> i64 {
    let made = a.call(
        SYS_socketpair,
        &[
            A::N(i64::from(AF_UNIX)),
            A::N(i64::from(kind)),
            A::N(0),
            A::B(&[0; 8]),
        ],
    );
    assert_eq!(made, 0);
    // The lowest that are free.
    assert_eq!(a.call(SYS_write, &[A::N(3), A::B(b"word"), A::N(4)]), 4);
    a.call(SYS_read, &[A::N(4), A::B(&[0; 8]), A::N(8)])
}

/// An open file sent through a pair of sockets from before: as if somebody outside were at the other end.
fn handed(a: &mut Actor<'_>, file: i64) -> i64 {
    assert!(file >= 0, "{file}");
    assert_eq!(a.order(&format!("send {ANOTHERS} {file}")), 1);
    a.order(&format!("take {HANDED}"))
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = kinds();
    rows.push(
        no(
            "streams where no program of the cgroup sees them",
            &SOCKET_CREATE,
            EACCES,
            |a| socket(a, AF_INET, SOCK_STREAM, 0),
        )
        .by_label(),
    );
    // On kernels that have them, the cgroup's programs on unix sockets refuse all of it.
    rows.extend(ends().into_iter().map(Row::by_label));
    rows
}

fn kinds() -> Vec<Row> {
    vec![
        no("packets of the network", &SOCKET_CREATE, EACCES, |a| {
            socket(a, AF_PACKET, SOCK_RAW, 0x300)
        }),
        no("the kernel's routes", &SOCKET_CREATE, EACCES, |a| {
            socket(a, AF_NETLINK, SOCK_RAW, 0)
        }),
        no("the machine's host", &SOCKET_CREATE, EACCES, |a| {
            socket(a, AF_VSOCK, SOCK_STREAM, 0)
        }),
        no("the kernel's ciphers", &SOCKET_CREATE, EACCES, |a| {
            socket(a, AF_ALG, SOCK_SEQPACKET, 0)
        }),
        no("raw", &SOCKET_CREATE, EACCES, |a| socket(a, AF_INET, SOCK_RAW, 1)),
        no("raw, with flags", &SOCKET_CREATE, EACCES, |a| {
            socket(
                a,
                AF_INET6,
                SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                58,
            )
        }),
        no("streams of packets", &SOCKET_CREATE, EACCES, |a| {
            socket(a, AF_INET, SOCK_SEQPACKET, 132)
        }),
        no("express data", &SOCKET_CREATE, EACCES, |a| {
            socket(a, 44, SOCK_RAW, 0)
        })
        .outside(End::Not(-13)),
        no("bluetooth", &SOCKET_CREATE, EACCES, |a| {
            socket(a, 31, SOCK_RAW, 1)
        })
        .outside(End::Not(-13)),
        no("a cluster's", &SOCKET_CREATE, EACCES, |a| {
            socket(a, 30, SOCK_SEQPACKET, 0)
        })
        .outside(End::Not(-13)),
        no("a family that there is not", &SOCKET_CREATE, EACCES, |a| {
            socket(a, 45, SOCK_STREAM, 0)
        })
        .outside(End::Not(-13)),
        yes("streams", &SOCKET_CREATE, |a| socket(a, AF_INET, SOCK_STREAM, 0)),
        yes("streams, newer", &SOCKET_CREATE, |a| {
            socket(a, AF_INET6, SOCK_STREAM, 6)
        }),
        yes("datagrams", &SOCKET_POST_CREATE, |a| {
            socket(a, AF_INET, SOCK_DGRAM, 0)
        }),
        no("serving", &SOCKET_LISTEN, EACCES, |a| {
            let own = socket(a, AF_INET, SOCK_STREAM, 0);
            a.call(SYS_listen, &[A::N(own), A::N(4)])
        }),
        yes("serving itself", &SOCKET_LISTEN, |a| service(a, SOCK_STREAM)),
    ]
}

fn ends() -> Vec<Row> {
    vec![
        no("a service outside", &UNIX_STREAM_CONNECT, EACCES, |a| {
            connect(a, SOCK_STREAM, "services/stream")
        }),
        no(
            "a service outside without a file",
            &UNIX_STREAM_CONNECT,
            EACCES,
            |a| {
                let own = socket(a, AF_UNIX, SOCK_STREAM, 0);
                let address = [
                    &1_u16.to_ne_bytes(),
                    &b"\0"[..],
                    a.place.abstract_name().as_bytes(),
                ]
                .concat();
                a.call(
                    SYS_connect,
                    &[A::N(own), A::B(&address), A::N(address.len() as i64)],
                )
            },
        ),
        no(
            "a stranger's service in a root",
            &UNIX_STREAM_CONNECT,
            EACCES,
            |a| connect(a, SOCK_STREAM, "rw/.stranger"),
        ),
        no("datagrams to outside", &UNIX_MAY_SEND, EACCES, |a| {
            send(a, "services/datagram")
        }),
        no(
            "connected to outside for datagrams",
            &UNIX_MAY_SEND,
            EACCES,
            |a| connect(a, SOCK_DGRAM, "services/datagram"),
        ),
        yes("an own service", &UNIX_STREAM_CONNECT, |a| {
            let own = service(a, SOCK_STREAM);
            let connected = connect(a, SOCK_STREAM, "rw/service");
            if connected != 0 {
                return connected;
            }
            a.call(SYS_accept, &[A::N(own), A::N(0), A::N(0)])
        }),
        yes("an own service for packets", &UNIX_STREAM_CONNECT, |a| {
            service(a, SOCK_SEQPACKET);
            connect(a, SOCK_SEQPACKET, "rw/service")
        }),
        yes("datagrams to itself", &UNIX_MAY_SEND, |a| {
            service(a, SOCK_DGRAM);
            send(a, "rw/service")
        }),
        yes("a pair of streams", &SOCKET_POST_CREATE, |a| pair(a, SOCK_STREAM)),
        yes("a pair for datagrams", &UNIX_MAY_SEND, |a| pair(a, SOCK_DGRAM)),
        no("a file outside handed over", &FILE_RECEIVE, EACCES, |a| {
            handed(a, HELD_OUTSIDE)
        }),
        no("a directory outside handed over", &FILE_RECEIVE, EACCES, |a| {
            handed(a, super::OUTSIDE_DIRECTORY)
        }),
        yes("an own file handed over", &FILE_RECEIVE, |a| {
            let file = a.open("r/file", 0);
            handed(a, file)
        }),
        yes("a pipe handed over", &FILE_RECEIVE, |a| handed(a, 0)),
    ]
}
