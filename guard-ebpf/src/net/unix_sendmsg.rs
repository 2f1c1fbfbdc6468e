//! A datagram to a unix socket with an address of its own. Kernels from 6.7 on.
//!
//! The loader's library does not know the attach type, so the section says
//! `sendmsg4` and the loader loads this program itself, with the right type.

use aya_ebpf::{macros::cgroup_sock_addr, programs::SockAddrContext};
use guard_common::event::OP_UNIX_SENDMSG;

use super::{DENY, unix_path::report_unix};

#[cgroup_sock_addr(sendmsg4)]
pub(crate) fn unix_sendmsg(context: SockAddrContext) -> i32 {
    report_unix(OP_UNIX_SENDMSG, &context);
    DENY
}
