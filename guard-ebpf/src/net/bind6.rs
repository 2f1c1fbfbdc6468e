//! A name for a socket: nothing here listens. IPv6.

use aya_ebpf::{macros::cgroup_sock_addr, programs::SockAddrContext};
use guard_common::event::OP_BIND6;

use super::{DENY, report6};

#[cgroup_sock_addr(bind6)]
pub(crate) fn bind6(context: SockAddrContext) -> i32 {
    report6(OP_BIND6, &context);
    DENY
}
