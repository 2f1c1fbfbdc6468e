//! A datagram with an address of its own. IPv6.

use aya_ebpf::{macros::cgroup_sock_addr, programs::SockAddrContext};
use guard_common::event::OP_SENDMSG6;

use super::{DENY, report6};

#[cgroup_sock_addr(sendmsg6)]
pub(crate) fn sendmsg6(context: SockAddrContext) -> i32 {
    report6(OP_SENDMSG6, &context);
    DENY
}
