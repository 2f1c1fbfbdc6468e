//! Who is called, on loopback and in a directory of the test's own.

use std::{
    net::{SocketAddr, TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixListener},
    },
    path::PathBuf,
};

/// Everything listened on, in the test's own process.
pub(crate) struct Targets {
    directory: tempfile::TempDir,
    tcp4: TcpListener,
    tcp6: TcpListener,
    udp4: UdpSocket,
    udp6: UdpSocket,
    _unix: (UnixListener, UnixDatagram, UnixListener),
}

/// The same as text, for the subject.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) tcp4: SocketAddr,
    pub(crate) tcp6: SocketAddr,
    pub(crate) udp4: SocketAddr,
    pub(crate) udp6: SocketAddr,
    pub(crate) directory: PathBuf,
}

impl Targets {
    pub(crate) fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let stream = UnixListener::bind(directory.path().join("stream")).unwrap();
        let datagram = UnixDatagram::bind(directory.path().join("datagram")).unwrap();
        // Nobody reads the datagrams: a full queue must not block.
        datagram.set_nonblocking(true).unwrap();
        let name = abstract_name(directory.path());
        let hidden = UnixListener::bind_addr(&UnixAddr::from_abstract_name(&name).unwrap()).unwrap();
        Self {
            tcp4: TcpListener::bind("127.0.0.1:0").unwrap(),
            tcp6: TcpListener::bind("[::1]:0").unwrap(),
            udp4: UdpSocket::bind("127.0.0.1:0").unwrap(),
            udp6: UdpSocket::bind("[::1]:0").unwrap(),
            _unix: (stream, datagram, hidden),
            directory,
        }
    }

    pub(crate) fn places(&self) -> Places {
        Places {
            tcp4: self.tcp4.local_addr().unwrap(),
            tcp6: self.tcp6.local_addr().unwrap(),
            udp4: self.udp4.local_addr().unwrap(),
            udp6: self.udp6.local_addr().unwrap(),
            directory: self.directory.path().to_owned(),
        }
    }

    pub(crate) fn encode(&self) -> String {
        let Places {
            tcp4,
            tcp6,
            udp4,
            udp6,
            directory,
        } = self.places();
        format!("{tcp4} {tcp6} {udp4} {udp6} {}", directory.display())
    }
}

impl Places {
    pub(crate) fn decode<'a>(mut words: impl Iterator<Item = &'a str>) -> Self {
        let mut address = || words.next().unwrap().parse().unwrap();
        let (tcp4, tcp6, udp4, udp6) = (address(), address(), address(), address());
        Self {
            tcp4,
            tcp6,
            udp4,
            udp6,
            directory: PathBuf::from(words.next().unwrap()),
        }
    }

    pub(crate) fn mapped(address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
            v6 => v6,
        }
    }
}

pub(crate) fn abstract_name(directory: &std::path::Path) -> Vec<u8> {
    format!("guard-net{}", directory.display()).into_bytes()
}
