//! A TCP or UDP connect, also TCP fast open. IPv6.

use aya_ebpf::{macros::cgroup_sock_addr, programs::SockAddrContext};
use guard_common::event::OP_CONNECT6;

use super::{DENY, report6};

#[cgroup_sock_addr(connect6)]
pub(crate) fn connect6(context: SockAddrContext) -> i32 {
    report6(OP_CONNECT6, &context);
    DENY
}
