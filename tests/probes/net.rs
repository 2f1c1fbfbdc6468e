//! Reaching the network: inet in all its doors, and the families that are no network but reach as far.

use std::{
    io::{IoSlice, Write as _},
    mem::size_of,
    net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::net::{UnixDatagram, UnixStream},
    },
};

use nix::sys::socket::{MsgFlags, SockaddrIn, UnixAddr, sendmsg, sendto};

use crate::{
    files::done,
    probe::{Answer, Args, EPERM, Failure, Probe, Run, probe},
    raw::call,
};

/// Denied by the cgroup programs, which record it.
const fn inet4(name: &'static str, vector: &'static str, op: &'static str, run: Run) -> Probe {
    probe(name, vector, run)
        .refused(EPERM)
        .record(op, "cgroup-bpf")
        .family("AF_INET")
}
const fn inet6(name: &'static str, vector: &'static str, op: &'static str, run: Run) -> Probe {
    probe(name, vector, run)
        .refused(EPERM)
        .record(op, "cgroup-bpf")
        .family("AF_INET6")
}

/// A family no server needs: refused before the kernel looks for a module.
macro_rules! family {
    ($name:literal, $family:expr, $kind:expr, $protocol:expr) => {
        probe($name, "odd socket families", |_| {
            done(call!(SYS_socket, $family, $kind, $protocol))
        })
        .root()
        .seccomp("socket")
    };
}

pub(crate) const PROBES: &[Probe] = &[
    inet4("tcp4", "TCP connect", "connect", |a| {
        TcpStream::connect(v4(a, "tcp4")?)?.write_all(b"x")?;
        Ok(String::new())
    }),
    inet6("tcp6", "TCP connect", "connect", |a| {
        Ok(TcpStream::connect((Ipv6Addr::LOCALHOST, a.number::<u16>("tcp6")?)).map(|_| String::new())?)
    }),
    inet6("tcp4-mapped", "TCP connect", "connect", |a| {
        let address = SocketAddrV6::new(
            "127.0.0.1"
                .parse::<std::net::Ipv4Addr>()
                .unwrap_or(std::net::Ipv4Addr::LOCALHOST)
                .to_ipv6_mapped(),
            a.number("tcp4")?,
            0,
            0,
        );
        Ok(TcpStream::connect(address).map(|_| String::new())?)
    }),
    inet4("tcp-fastopen", "sendto(MSG_FASTOPEN)", "connect", |a| {
        let socket = open(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        Ok(sendto(
            socket.as_raw_fd(),
            b"x",
            &sockaddr(a, "tcp4")?,
            MsgFlags::from_bits_retain(libc::MSG_FASTOPEN),
        )?
        .to_string())
    }),
    inet4("tcp-fastopen-connect", "TFO_CONNECT", "connect", |a| {
        let socket = open(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        let mut on = 1_i32;
        call!(
            SYS_setsockopt,
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_FASTOPEN_CONNECT,
            crate::raw::at(&mut on),
            4
        )?;
        nix::sys::socket::connect(socket.as_raw_fd(), &sockaddr(a, "tcp4")?)?;
        done(call!(SYS_write, socket, c"x", 1))
    }),
    probe("mptcp", "MPTCP", |a| {
        let socket = open(libc::AF_INET, libc::SOCK_STREAM, 262)?;
        nix::sys::socket::connect(socket.as_raw_fd(), &sockaddr(a, "tcp4")?)?;
        Ok(String::new())
    })
    .refused(EPERM)
    .record("socket", "cgroup-bpf")
    .family("AF_INET")
    .needs("mptcp"),
    inet4("udp-sendto", "UDP", "sendmsg", |a| {
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        Ok(sendto(socket.as_raw_fd(), b"x", &sockaddr(a, "udp4")?, MsgFlags::empty())?.to_string())
    }),
    inet4("udp-sendmsg", "UDP", "sendmsg", |a| {
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let data = [IoSlice::new(b"x")];
        Ok(sendmsg(
            socket.as_raw_fd(),
            &data,
            &[],
            MsgFlags::empty(),
            Some(&sockaddr(a, "udp4")?),
        )?
        .to_string())
    }),
    inet4("udp-sendmmsg", "UDP", "sendmsg", |a| {
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        sendmmsg(&socket, &sockaddr(a, "udp4")?)
    }),
    inet4("udp-connect", "UDP", "connect", |a| {
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        nix::sys::socket::connect(socket.as_raw_fd(), &sockaddr(a, "udp4")?)?;
        done(call!(SYS_write, socket, c"x", 1))
    }),
    inet6("udp6-sendto", "UDP", "sendmsg", |a| {
        let socket = open(libc::AF_INET6, libc::SOCK_DGRAM, 0)?;
        let to = nix::sys::socket::SockaddrIn6::from(SocketAddrV6::new(
            Ipv6Addr::LOCALHOST,
            a.number("udp6")?,
            0,
            0,
        ));
        Ok(sendto(socket.as_raw_fd(), b"x", &to, MsgFlags::empty())?.to_string())
    }),
    probe("udplite-sendto", "UDP", |a| {
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 136)?;
        Ok(sendto(socket.as_raw_fd(), b"x", &sockaddr(a, "udp4")?, MsgFlags::empty())?.to_string())
    })
    .refused(EPERM)
    .needs("udplite"),
    inet4("bind4-any", "toolhive#2023", "bind", |_| {
        Ok(TcpListener::bind("0.0.0.0:0").map(|_| String::new())?)
    }),
    inet4("bind4-loopback", "toolhive#2023", "bind", |_| {
        Ok(TcpListener::bind("127.0.0.1:0").map(|_| String::new())?)
    }),
    inet6("bind6-any", "toolhive#2023", "bind", |_| {
        Ok(TcpListener::bind("[::]:0").map(|_| String::new())?)
    }),
    inet4("bind-udp", "toolhive#2023", "bind", |_| {
        Ok(UdpSocket::bind("0.0.0.0:0").map(|_| String::new())?)
    }),
    probe("listen-unbound", "toolhive#2023", |a| {
        // Without a bind no program of the kernel is asked: it must be a network that nobody else is in.
        let socket = open(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        call!(SYS_listen, socket, 1)?;
        let network: u64 = a.number("net_ns")?;
        if std::os::unix::fs::MetadataExt::ino(&std::fs::metadata("/proc/self/ns/net")?) == network {
            return Ok(String::from("listens in the host's network"));
        }
        Err(Failure::Word("own-network", String::new()))
    })
    .refused(&["EPERM", "EACCES", "own-network"]),
    probe("raw-icmp", "raw ICMP", |_| {
        done(call!(
            SYS_socket,
            libc::AF_INET,
            libc::SOCK_RAW,
            libc::IPPROTO_ICMP
        ))
    })
    .root()
    .refused(EPERM),
    probe("raw-icmp6", "raw ICMP", |_| {
        done(call!(
            SYS_socket,
            libc::AF_INET6,
            libc::SOCK_RAW,
            libc::IPPROTO_ICMPV6
        ))
    })
    .root()
    .refused(EPERM),
    probe("ping", "raw ICMP", |_| {
        done(call!(
            SYS_socket,
            libc::AF_INET,
            libc::SOCK_DGRAM,
            libc::IPPROTO_ICMP
        ))
    })
    .refused(&["EPERM", "EACCES"])
    .needs("ping"),
    probe("sctp", "odd protocols", |_| {
        done(call!(
            SYS_socket,
            libc::AF_INET,
            libc::SOCK_STREAM,
            libc::IPPROTO_SCTP
        ))
    })
    .refused(EPERM)
    .needs("sctp"),
    family!("packet", libc::AF_PACKET, libc::SOCK_RAW, 0),
    family!("netlink-route", libc::AF_NETLINK, libc::SOCK_RAW, 0),
    family!("netlink-audit", libc::AF_NETLINK, libc::SOCK_RAW, 9).needs("netlink-audit"),
    family!("netlink-uevent", libc::AF_NETLINK, libc::SOCK_RAW, 15),
    family!("netlink-generic", libc::AF_NETLINK, libc::SOCK_RAW, 16),
    family!("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0).needs("vsock"),
    family!("xdp", libc::AF_XDP, libc::SOCK_RAW, 0).needs("xdp"),
    family!("alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0).needs("alg"),
    family!("key", libc::AF_KEY, libc::SOCK_RAW, 2).needs("key"),
    family!("kcm", 41, libc::SOCK_SEQPACKET, 0).needs("kcm"),
    family!("can", libc::AF_CAN, libc::SOCK_RAW, 1).needs("can"),
    family!("tipc", libc::AF_TIPC, libc::SOCK_STREAM, 0).needs("tipc"),
    family!("rds", libc::AF_RDS, libc::SOCK_SEQPACKET, 0).needs("rds"),
    family!("qrtr", 42, libc::SOCK_DGRAM, 0).needs("qrtr"),
    family!("smc", 43, libc::SOCK_STREAM, 0).needs("smc"),
    family!("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1).needs("bluetooth"),
    family!("nfc", libc::AF_NFC, libc::SOCK_RAW, 0).needs("nfc"),
    family!("rxrpc", libc::AF_RXRPC, libc::SOCK_DGRAM, libc::AF_INET).needs("rxrpc"),
    family!("l2tp", libc::AF_PPPOX, libc::SOCK_DGRAM, 1).needs("pppox"),
    probe("family-high-bits", "odd socket families", |_| {
        // The kernel reads 32 bits of the argument; a filter that compares 64 would miss this netlink socket.
        done(call!(
            SYS_socket,
            0x1_0000_0000_u64 + libc::AF_NETLINK as u64,
            libc::SOCK_RAW,
            0
        ))
    })
    .seccomp("socket"),
    probe("unix-outside", "AF_UNIX pathname", |a| {
        Ok(UnixStream::connect(a.path("unix")?).map(|_| String::new())?)
    })
    .refused(&["ENOENT", "EACCES", "EPERM"]),
    probe("unix-in-root", "nono#781", |a| {
        UnixStream::connect(a.path("unix_root")?)?;
        Ok(String::new())
    })
    .refused(&["EPERM", "EACCES"])
    .record("connect", "cgroup-bpf")
    .family("AF_UNIX")
    .unseen("socket", "AF_UNIX"),
    probe("unix-in-root-dgram", "nono#781", |a| {
        Ok(UnixDatagram::unbound()?
            .send_to(b"x", a.path("unix_root_dgram")?)?
            .to_string())
    })
    .refused(&["EPERM", "EACCES"])
    .record("sendmsg", "cgroup-bpf")
    .family("AF_UNIX")
    .unseen("socket", "AF_UNIX"),
    // One end of a pair still sends to anybody's address; a raw pair is a datagram pair by another name.
    probe("unix-pair-dgram", "nono#781", |a| from_pair(a, libc::SOCK_DGRAM))
        .refused(&["EPERM", "EACCES"])
        .unseen("socketpair", "AF_UNIX"),
    probe("unix-pair-raw", "nono#781", |a| from_pair(a, libc::SOCK_RAW)).refused(&["EPERM", "EACCES"]),
    probe("unix-abstract", "AF_UNIX abstract", |a| {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(a.text("abstract")?)?;
        Ok(UnixStream::connect_addr(&address).map(|_| String::new())?)
    })
    .refused(&["EPERM", "EACCES", "ECONNREFUSED"]),
];

fn from_pair(args: &Args, kind: i32) -> Answer {
    let mut pair = [-1_i32; 2];
    call!(SYS_socketpair, libc::AF_UNIX, kind, 0, crate::raw::at(&mut pair))?;
    let address = UnixAddr::new(&args.path("unix_root_dgram")?)?;
    Ok(sendto(pair[0], b"x", &address, MsgFlags::empty())?.to_string())
}

fn v4(args: &Args, key: &str) -> Result<SocketAddr, Failure> {
    Ok(SocketAddr::from(([127, 0, 0, 1], args.number::<u16>(key)?)))
}

fn sockaddr(args: &Args, key: &str) -> Result<SockaddrIn, Failure> {
    Ok(SockaddrIn::from(SocketAddrV4::new(
        std::net::Ipv4Addr::LOCALHOST,
        args.number(key)?,
    )))
}

#[expect(unsafe_code, reason = "takes the new descriptor into ownership")]
fn open(family: i32, kind: i32, protocol: i32) -> Result<OwnedFd, Failure> {
    let raw = call!(SYS_socket, family, kind | libc::SOCK_CLOEXEC, protocol)?;
    // SAFETY: the call has just returned this descriptor and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(raw).unwrap_or(-1)) })
}

fn sendmmsg(socket: &OwnedFd, to: &SockaddrIn) -> Answer {
    let mut address = *to.as_ref();
    let mut data = *b"x";
    let mut part = libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut message = libc::mmsghdr {
        msg_hdr: libc::msghdr {
            msg_name: (&raw mut address).cast(),
            msg_namelen: u32::try_from(size_of::<libc::sockaddr_in>()).unwrap_or(0),
            msg_iov: &raw mut part,
            msg_iovlen: 1,
            msg_control: std::ptr::null_mut(),
            msg_controllen: 0,
            msg_flags: 0,
        },
        msg_len: 0,
    };
    done(call!(SYS_sendmmsg, socket, crate::raw::at(&mut message), 1, 0))
}
