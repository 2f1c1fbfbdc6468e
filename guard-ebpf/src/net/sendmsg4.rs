//! A datagram with an address of its own. IPv4.

use aya_ebpf::{macros::cgroup_sock_addr, programs::SockAddrContext};
use guard_common::event::OP_SENDMSG4;

use super::{DENY, report4};

#[cgroup_sock_addr(sendmsg4)]
pub(crate) fn sendmsg4(context: SockAddrContext) -> i32 {
    report4(OP_SENDMSG4, &context);
    DENY
}
