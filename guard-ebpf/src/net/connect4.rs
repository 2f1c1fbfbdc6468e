//! A TCP or UDP connect, also TCP fast open. IPv4.

use aya_ebpf::{macros::cgroup_sock_addr, programs::SockAddrContext};
use guard_common::event::OP_CONNECT4;

use super::{DENY, report4};

#[cgroup_sock_addr(connect4)]
pub(crate) fn connect4(context: SockAddrContext) -> i32 {
    report4(OP_CONNECT4, &context);
    DENY
}
