//! A name for a socket: nothing here listens. IPv4.

use aya_ebpf::{macros::cgroup_sock_addr, programs::SockAddrContext};
use guard_common::event::OP_BIND4;

use super::{DENY, report4};

#[cgroup_sock_addr(bind4)]
pub(crate) fn bind4(context: SockAddrContext) -> i32 {
    report4(OP_BIND4, &context);
    DENY
}
