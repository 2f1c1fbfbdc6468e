//! The families of sockets a sandbox may make. TCP and UDP are there so that the programs of its cgroup see, refuse and
//! tell each address that is tried; where those are not, in another cgroup, neither are these.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_KIND};

use super::{
    decide::{Verdict, decide_nameless},
    object::argument,
    subject::is_in_its_cgroup,
};

pub(super) const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const SOCK_STREAM: u64 = 1;
const SOCK_DGRAM: u64 = 2;
/// The rest are flags.
const TYPE: u64 = 0xf;
const NUMBER: u64 = 0xffff_ffff;

#[lsm(hook = "socket_create")]
pub(crate) fn socket_create(context: LsmContext) -> i32 {
    decide_nameless(&hooks::SOCKET_CREATE, |subject| {
        let (family, kind): (u64, u64) = (argument(&context, 0), argument(&context, 1));
        let (family, kind) = (family & NUMBER, kind & TYPE);
        let by_the_kernel: u64 = argument(&context, 3);
        if by_the_kernel & NUMBER != 0 || family == AF_UNIX {
            return Verdict::ALLOW;
        }
        if (family == AF_INET || family == AF_INET6)
            && (kind == SOCK_STREAM || kind == SOCK_DGRAM)
            && is_in_its_cgroup(subject)
        {
            return Verdict::ALLOW;
        }
        Verdict::deny(REASON_KIND).detail(family << 32 | kind)
    })
}
