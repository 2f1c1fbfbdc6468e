//! A new IPv4 or IPv6 socket: only plain TCP and UDP ones exist in a sandbox,
//! so that the programs on `connect` and `sendmsg` see each address tried.
//!
//! Raw, ping, MPTCP and SCTP sockets would go by ways that those do not see.

use aya_ebpf::{macros::cgroup_sock, programs::SockContext};
use guard_common::event::{OP_SOCK_CREATE, REASON_SOCKET_KIND};

use super::{ALLOW, DENY, field};
use crate::emit::{Denied, report};

const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const IPPROTO_IP: u32 = 0;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;

#[cgroup_sock(sock_create)]
pub(crate) fn sock_create(context: SockContext) -> i32 {
    let socket = context.sock;
    let family = field!(socket, family);
    let sock_type = field!(socket, type_);
    let protocol = field!(socket, protocol);
    if family == AF_INET || family == AF_INET6 {
        if sock_type == SOCK_STREAM && (protocol == IPPROTO_IP || protocol == IPPROTO_TCP) {
            return ALLOW;
        }
        if sock_type == SOCK_DGRAM && (protocol == IPPROTO_IP || protocol == IPPROTO_UDP) {
            return ALLOW;
        }
    }
    report(&Denied {
        op: OP_SOCK_CREATE,
        reason: REASON_SOCKET_KIND,
        family,
        sock_type,
        protocol,
        port: 0,
        address: [0; 4],
    });
    DENY
}
