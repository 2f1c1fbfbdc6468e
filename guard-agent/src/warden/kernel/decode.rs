//! What the network programs report. The bytes come from the kernel half, still nothing is taken on trust.
#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use guard_common::event::{NetOp, NetRecord};

use super::{event::calls, sockaddr::unix_name};

/// One denied network operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetEvent {
    pub op: NetOp,
    /// Address family, socket type and protocol as the kernel numbers them.
    pub family: u16,
    pub sock_type: u32,
    pub protocol: u32,
    pub endpoint: Endpoint,
    /// In the kernel's first pid namespace.
    pub pid: u32,
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub ktime_ns: u64,
    /// The caller's cgroup at the sandboxes' level; 0 when the caller is in none there.
    pub cgroup_id: u64,
    /// The slot of that sandbox, 0 when none was opened.
    pub slot: u32,
    pub cpu: u32,
    /// The calls in flight then, a bit each, by the gateway's word. `None`: nobody marks them.
    pub calls: Option<u64>,
    /// One of the `REASON_` numbers of `guard_common::event`.
    pub reason: u16,
    /// What the caller saw, positive.
    pub errno: u16,
}

/// Where the operation wanted to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    V4(SocketAddrV4),
    /// A v4-mapped address stays what the caller gave.
    V6(SocketAddrV6),
    /// A unix socket's name as given, without the zero that ends a path; it starts with a zero when
    /// abstract and is empty when unknown.
    Unix(Vec<u8>),
    /// The operation has no address.
    None,
}

impl NetEvent {
    pub(super) fn from_record(record: &NetRecord) -> Self {
        let op = NetOp::from_raw(record.op);
        Self {
            op,
            family: record.family,
            sock_type: record.sock_type,
            protocol: record.protocol,
            endpoint: endpoint(op, record),
            pid: record.header.pid,
            tid: record.header.tid,
            ktime_ns: record.header.ktime_ns,
            cgroup_id: record.header.cgroup_id,
            slot: record.header.slot,
            cpu: record.header.cpu,
            calls: calls(&record.header),
            reason: record.reason,
            errno: record.errno,
        }
    }
}

fn endpoint(op: NetOp, record: &NetRecord) -> Endpoint {
    match op {
        NetOp::Connect4 | NetOp::Sendmsg4 | NetOp::Bind4 => {
            let [a, b, c, d, ..] = record.address;
            Endpoint::V4(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), record.port))
        }
        NetOp::Connect6 | NetOp::Sendmsg6 | NetOp::Bind6 => Endpoint::V6(SocketAddrV6::new(
            Ipv6Addr::from(record.address),
            record.port,
            0,
            0,
        )),
        NetOp::UnixConnect | NetOp::UnixSendmsg => {
            let length = usize::from(record.unix_path_len).min(record.unix_path.len());
            Endpoint::Unix(unix_name(record.unix_path.get(..length).unwrap_or_default()).to_vec())
        }
        NetOp::SockCreate | NetOp::Unknown(_) => Endpoint::None,
    }
}

#[cfg(test)]
mod tests {
    use guard_common::{
        abi::ABI_VERSION,
        event::{OP_CONNECT4, OP_CONNECT6, OP_UNIX_CONNECT},
        record::{Header, KIND_NET},
    };
    use proptest::prelude::*;
    use zerocopy::{FromBytes, IntoBytes};

    use super::{super::event::Event, *};

    fn record(op: u16) -> NetRecord {
        NetRecord {
            header: Header {
                abi: ABI_VERSION,
                kind: KIND_NET,
                flags: 0,
                ktime_ns: 7,
                cgroup_id: 8,
                pid: 9,
                tid: 10,
                slot: 2,
                cpu: 1,
                calls: 0,
            },
            op,
            family: 2,
            sock_type: 1,
            protocol: 6,
            errno: 1,
            reason: 1,
            port: 443,
            unix_path_len: 0,
            reserved: 0,
            address: [0; 16],
            unix_path: [0; 108],
            tail: 0,
        }
    }

    fn decode(record: &NetRecord) -> NetEvent {
        match Event::decode(record.as_bytes()) {
            Ok(Event::Net(event)) => event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn addresses_keep_their_byte_order() {
        let mut v4 = record(OP_CONNECT4);
        v4.address[..4].copy_from_slice(&[192, 0, 2, 1]);
        assert_eq!(
            decode(&v4).endpoint,
            Endpoint::V4("192.0.2.1:443".parse().unwrap())
        );
        let mut v6 = record(OP_CONNECT6);
        v6.address = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(
            decode(&v6).endpoint,
            Endpoint::V6("[2001:db8::1]:443".parse().unwrap())
        );
    }

    #[test]
    fn unix_names_end_where_the_caller_ended_them() {
        let mut path = record(OP_UNIX_CONNECT);
        path.unix_path[..9].copy_from_slice(b"/run/a\0zz");
        for (length, wanted) in [(0, &b""[..]), (3, b"/ru"), (7, b"/run/a"), (9, b"/run/a")] {
            path.unix_path_len = length;
            assert_eq!(decode(&path).endpoint, Endpoint::Unix(wanted.to_vec()));
        }
        let mut abstract_name = record(OP_UNIX_CONNECT);
        abstract_name.unix_path[..4].copy_from_slice(b"\0a\0b");
        abstract_name.unix_path_len = 4;
        assert_eq!(
            decode(&abstract_name).endpoint,
            Endpoint::Unix(b"\0a\0b".to_vec())
        );
        // More than there is: what there is.
        abstract_name.unix_path_len = u16::MAX;
        let Endpoint::Unix(name) = decode(&abstract_name).endpoint else {
            panic!("not a unix name")
        };
        assert_eq!(name.len(), 108);
    }

    #[test]
    fn an_unknown_operation_keeps_its_number() {
        let event = decode(&record(999));
        assert_eq!(event.op, NetOp::Unknown(999));
        assert_eq!(event.op.raw(), 999);
        assert_eq!(event.endpoint, Endpoint::None);
        for raw in 0..200 {
            assert_eq!(NetOp::from_raw(raw).raw(), raw);
        }
    }

    proptest! {
        #[test]
        fn any_record_decodes(bytes in proptest::collection::vec(any::<u8>(), 200..=200)) {
            let event = NetEvent::from_record(&NetRecord::read_from_bytes(&bytes).unwrap());
            prop_assert_eq!(event.op.raw(), u16::from_ne_bytes([bytes[48], bytes[49]]));
            if let Endpoint::Unix(name) = event.endpoint {
                prop_assert!(name.len() <= 108);
            }
        }
    }
}
