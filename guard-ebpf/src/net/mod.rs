//! The network programs: attached to the cgroup that holds nothing but
//! sandboxes, for the policy "no network". Every verdict is a literal; the
//! record is made on the side.

mod bind4;
mod bind6;
mod connect4;
mod connect6;
mod sendmsg4;
mod sendmsg6;
mod sock_create;
mod unix_connect;
mod unix_path;
mod unix_sendmsg;

use aya_ebpf::{bindings::bpf_sock_addr, programs::SockAddrContext};
use guard_common::event::REASON_NETWORK_NONE;

use crate::emit::{self, Denied};

/// Verdicts of cgroup programs: 0 makes the caller see EPERM.
pub(crate) const DENY: i32 = 0;
pub(crate) const ALLOW: i32 = 1;

/// Reads one 32-bit field of a program's context. The verifier takes no other
/// width and no merged loads, hence volatile.
macro_rules! field {
    ($context:expr, $($field:tt)+) => {{
        let context = $context;
        // SAFETY: `context` is the pointer the kernel called the program with; the verifier
        // proves that the field exists in it and may be read by this kind of program.
        unsafe { (&raw const (*context).$($field)+).read_volatile() }
    }};
}
pub(crate) use field;

/// Reports an IPv4 operation.
#[inline(always)]
pub(crate) fn report4(op: u16, context: &SockAddrContext) {
    let context = context.sock_addr;
    let address = [field!(context, user_ip4), 0, 0, 0];
    emit::report(&denied(op, context, field!(context, user_port), address));
}

/// Reports an IPv6 operation; a v4-mapped address stays as it is.
#[inline(always)]
pub(crate) fn report6(op: u16, context: &SockAddrContext) {
    let context = context.sock_addr;
    let address = [
        field!(context, user_ip6[0]),
        field!(context, user_ip6[1]),
        field!(context, user_ip6[2]),
        field!(context, user_ip6[3]),
    ];
    emit::report(&denied(op, context, field!(context, user_port), address));
}

#[inline(always)]
pub(crate) fn denied(op: u16, context: *const bpf_sock_addr, port: u32, address: [u32; 4]) -> Denied {
    Denied {
        op,
        reason: REASON_NETWORK_NONE,
        family: field!(context, family),
        sock_type: field!(context, type_),
        protocol: field!(context, protocol),
        port,
        address,
    }
}
