//! What is tried, outside and inside: the same code for both.

use std::{
    fs,
    io::{self, BufRead},
    net::{Ipv6Addr, SocketAddr, TcpStream},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixStream},
    },
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use guard_agent::warden::kernel::Endpoint;
use guard_common::event::NetOp;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::targets::{Places, Targets, abstract_name};

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const STREAM: u32 = 1;
const DGRAM: u32 = 2;
const RAW: u32 = 3;
const TCP: u32 = 6;
const UDP: u32 = 17;
const MPTCP: i32 = 262;
const SCTP: i32 = 132;
const MSG_FASTOPEN: i32 = 0x2000_0000;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed(i32),
}

impl Outcome {
    fn of(result: io::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => Self::Failed(error.raw_os_error().unwrap_or(-1)),
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        if text == "done" {
            Self::Done
        } else {
            Self::Failed(text.parse().unwrap_or_else(|_| panic!("not an answer: {text:?}")))
        }
    }
}

/// What is to happen inside.
pub(crate) enum Expectation {
    Allowed,
    Denied {
        op: NetOp,
        family: u16,
        sock_type: u32,
        protocol: u32,
        endpoint: Endpoint,
    },
}

pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Some kernels do not have it at all.
    pub(crate) may_be_absent: bool,
    run: fn(&Places) -> io::Result<()>,
    expect: fn(&Places) -> Expectation,
}

impl Operation {
    pub(crate) fn perform(&self, targets: &Targets) -> Outcome {
        Outcome::of((self.run)(&targets.places()))
    }

    pub(crate) fn expected(&self, targets: &Targets) -> Expectation {
        (self.expect)(&targets.places())
    }
}

fn ip(address: SocketAddr) -> Endpoint {
    match address {
        SocketAddr::V4(v4) => Endpoint::V4(v4),
        SocketAddr::V6(v6) => Endpoint::V6(v6),
    }
}

fn denied(op: NetOp, family: u16, sock_type: u32, protocol: u32, endpoint: Endpoint) -> Expectation {
    Expectation::Denied {
        op,
        family,
        sock_type,
        protocol,
        endpoint,
    }
}

fn create(family: u16, sock_type: u32, protocol: i32) -> Expectation {
    denied(
        NetOp::SockCreate,
        family,
        sock_type,
        protocol.cast_unsigned(),
        Endpoint::None,
    )
}

fn unix(op: NetOp, sock_type: u32, name: Vec<u8>) -> Expectation {
    denied(op, AF_UNIX, sock_type, 0, Endpoint::Unix(name))
}

fn path(places: &Places, name: &str) -> Vec<u8> {
    places.directory.join(name).into_os_string().into_encoded_bytes()
}

fn socket(domain: Domain, kind: Type, protocol: i32) -> io::Result<Socket> {
    Socket::new(domain, kind, Some(Protocol::from(protocol)))
}

/// A UDP socket without a local name: making one would be a bind.
fn udp(domain: Domain) -> io::Result<Socket> {
    socket(domain, Type::DGRAM, 0)
}

fn send_to(domain: Domain, address: SocketAddr) -> io::Result<()> {
    udp(domain)?.send_to(b"x", &SockAddr::from(address)).map(drop)
}

fn bind(address: SocketAddr) -> io::Result<()> {
    udp(Domain::for_address(address))?.bind(&SockAddr::from(address))
}

fn bound4() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 3], 41234))
}

fn bound6() -> SocketAddr {
    SocketAddr::from((Ipv6Addr::LOCALHOST, 41235))
}

/// Ping sockets are for groups that a sysctl of the network namespace names: one of its own, with all.
fn ping() -> io::Result<()> {
    thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
        fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")?;
        socket(Domain::IPV4, Type::DGRAM, 1).map(drop)
    })
    .join()
    .unwrap()
}

pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "tcp4-connect",
        may_be_absent: false,
        run: |to| TcpStream::connect(to.tcp4).map(drop),
        expect: |to| denied(NetOp::Connect4, AF_INET, STREAM, TCP, ip(to.tcp4)),
    },
    Operation {
        name: "tcp6-connect",
        may_be_absent: false,
        run: |to| TcpStream::connect(to.tcp6).map(drop),
        expect: |to| denied(NetOp::Connect6, AF_INET6, STREAM, TCP, ip(to.tcp6)),
    },
    Operation {
        name: "tcp6-connect-mapped",
        may_be_absent: false,
        run: |to| TcpStream::connect(Places::mapped(to.tcp4)).map(drop),
        expect: |to| {
            denied(
                NetOp::Connect6,
                AF_INET6,
                STREAM,
                TCP,
                ip(Places::mapped(to.tcp4)),
            )
        },
    },
    Operation {
        name: "tcp4-fast-open",
        may_be_absent: false,
        run: |to| {
            let stream = socket(Domain::IPV4, Type::STREAM, 0)?;
            stream
                .send_to_with_flags(b"x", &SockAddr::from(to.tcp4), MSG_FASTOPEN)
                .map(drop)
        },
        expect: |to| denied(NetOp::Connect4, AF_INET, STREAM, TCP, ip(to.tcp4)),
    },
    Operation {
        name: "tcp6-fast-open",
        may_be_absent: false,
        run: |to| {
            let stream = socket(Domain::IPV6, Type::STREAM, 0)?;
            stream
                .send_to_with_flags(b"x", &SockAddr::from(to.tcp6), MSG_FASTOPEN)
                .map(drop)
        },
        expect: |to| denied(NetOp::Connect6, AF_INET6, STREAM, TCP, ip(to.tcp6)),
    },
    Operation {
        name: "udp4-connect",
        may_be_absent: false,
        run: |to| udp(Domain::IPV4)?.connect(&SockAddr::from(to.udp4)),
        expect: |to| denied(NetOp::Connect4, AF_INET, DGRAM, UDP, ip(to.udp4)),
    },
    Operation {
        name: "udp6-connect",
        may_be_absent: false,
        run: |to| udp(Domain::IPV6)?.connect(&SockAddr::from(to.udp6)),
        expect: |to| denied(NetOp::Connect6, AF_INET6, DGRAM, UDP, ip(to.udp6)),
    },
    Operation {
        name: "udp4-sendto",
        may_be_absent: false,
        run: |to| send_to(Domain::IPV4, to.udp4),
        expect: |to| denied(NetOp::Sendmsg4, AF_INET, DGRAM, UDP, ip(to.udp4)),
    },
    Operation {
        name: "udp6-sendto",
        may_be_absent: false,
        run: |to| send_to(Domain::IPV6, to.udp6),
        expect: |to| denied(NetOp::Sendmsg6, AF_INET6, DGRAM, UDP, ip(to.udp6)),
    },
    Operation {
        // The kernel hands a mapped address to IPv4 before the program sees it.
        name: "udp6-sendto-mapped",
        may_be_absent: false,
        run: |to| send_to(Domain::IPV6, Places::mapped(to.udp4)),
        expect: |to| denied(NetOp::Sendmsg4, AF_INET6, DGRAM, UDP, ip(to.udp4)),
    },
    Operation {
        name: "bind4",
        may_be_absent: false,
        run: |_| bind(bound4()),
        expect: |_| denied(NetOp::Bind4, AF_INET, DGRAM, UDP, ip(bound4())),
    },
    Operation {
        name: "bind6",
        may_be_absent: false,
        run: |_| bind(bound6()),
        expect: |_| denied(NetOp::Bind6, AF_INET6, DGRAM, UDP, ip(bound6())),
    },
    Operation {
        name: "mptcp4",
        may_be_absent: true,
        run: |_| socket(Domain::IPV4, Type::STREAM, MPTCP).map(drop),
        expect: |_| create(AF_INET, STREAM, MPTCP),
    },
    Operation {
        name: "mptcp6",
        may_be_absent: true,
        run: |_| socket(Domain::IPV6, Type::STREAM, MPTCP).map(drop),
        expect: |_| create(AF_INET6, STREAM, MPTCP),
    },
    Operation {
        name: "raw4",
        may_be_absent: false,
        run: |_| socket(Domain::IPV4, Type::RAW, 1).map(drop),
        expect: |_| create(AF_INET, RAW, 1),
    },
    Operation {
        name: "raw6",
        may_be_absent: false,
        run: |_| socket(Domain::IPV6, Type::RAW, 58).map(drop),
        expect: |_| create(AF_INET6, RAW, 58),
    },
    Operation {
        name: "udp-lite",
        may_be_absent: true,
        run: |_| socket(Domain::IPV4, Type::DGRAM, 136).map(drop),
        expect: |_| create(AF_INET, DGRAM, 136),
    },
    Operation {
        name: "sctp",
        may_be_absent: true,
        run: |_| socket(Domain::IPV4, Type::STREAM, SCTP).map(drop),
        expect: |_| create(AF_INET, STREAM, SCTP),
    },
    Operation {
        name: "ping4",
        may_be_absent: false,
        run: |_| ping(),
        expect: |_| create(AF_INET, DGRAM, 1),
    },
    Operation {
        name: "unix-stream-connect",
        may_be_absent: false,
        run: |to| UnixStream::connect(to.directory.join("stream")).map(drop),
        expect: |to| unix(NetOp::UnixConnect, STREAM, path(to, "stream")),
    },
    Operation {
        name: "unix-abstract-connect",
        may_be_absent: false,
        run: |to| {
            let name = abstract_name(&to.directory);
            UnixStream::connect_addr(&UnixAddr::from_abstract_name(name)?).map(drop)
        },
        expect: |to| {
            let name = [b"\0", abstract_name(&to.directory).as_slice()].concat();
            unix(NetOp::UnixConnect, STREAM, name)
        },
    },
    Operation {
        name: "unix-datagram-connect",
        may_be_absent: false,
        run: |to| UnixDatagram::unbound()?.connect(to.directory.join("datagram")),
        expect: |to| unix(NetOp::UnixConnect, DGRAM, path(to, "datagram")),
    },
    Operation {
        name: "unix-datagram-sendto",
        may_be_absent: false,
        run: |to| {
            UnixDatagram::unbound()?
                .send_to(b"x", to.directory.join("datagram"))
                .map(drop)
        },
        expect: |to| unix(NetOp::UnixSendmsg, DGRAM, path(to, "datagram")),
    },
    Operation {
        name: "plain-sockets",
        may_be_absent: false,
        run: |_| {
            for domain in [Domain::IPV4, Domain::IPV6] {
                socket(domain, Type::STREAM, 0)?;
                socket(domain, Type::STREAM, 6)?;
                socket(domain, Type::DGRAM, 0)?;
                socket(domain, Type::DGRAM, 17)?;
            }
            Ok(())
        },
        expect: |_| Expectation::Allowed,
    },
    Operation {
        // Stated residual: no cgroup program sees a listen without a bind. What it can be reached
        // from is the sandbox's own network namespace.
        name: "tcp4-listen-unbound",
        may_be_absent: false,
        run: |_| socket(Domain::IPV4, Type::STREAM, 0)?.listen(1),
        expect: |_| Expectation::Allowed,
    },
    Operation {
        name: "socket-pair",
        may_be_absent: false,
        run: |_| {
            let (one, two) = UnixDatagram::pair()?;
            one.send(b"x")?;
            two.recv(&mut [0; 8]).map(drop)
        },
        expect: |_| Expectation::Allowed,
    },
];

/// The subject's whole life: an order a line, an answer a line.
pub(crate) fn serve() {
    if std::env::var_os("GUARD_NET_SUBJECT").is_none() {
        return;
    }
    for order in io::stdin().lock().lines() {
        let order = order.unwrap();
        let mut words = order.split(' ');
        let name = words.next().unwrap();
        let places = Places::decode(words);
        let answer = match name.strip_prefix("flood:") {
            Some(each) => flood(each.parse().unwrap(), &places).to_string(),
            None => {
                let operation = OPERATIONS
                    .iter()
                    .find(|operation| operation.name == name)
                    .unwrap();
                match Outcome::of((operation.run)(&places)) {
                    Outcome::Done => "done".to_owned(),
                    Outcome::Failed(errno) => errno.to_string(),
                }
            }
        };
        eprintln!("{answer}");
    }
}

fn flood(each: u64, places: &Places) -> u64 {
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let socket = udp(Domain::IPV4).unwrap();
                for _ in 0..each {
                    let result = socket.send_to(b"x", &SockAddr::from(places.udp4));
                    if result.is_err_and(|error| error.raw_os_error() == Some(1)) {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    refused.into_inner()
}
