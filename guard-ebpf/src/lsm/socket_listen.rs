//! Serving: among the sandbox's own processes only.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_KIND, REASON_UNREADABLE};

use super::{
    decide::{Verdict, decide_nameless},
    object::{argument, load},
    socket_create::AF_UNIX,
};
use crate::maps::{SOCK_FAMILY, SOCKET_SK};

#[lsm(hook = "socket_listen")]
pub(crate) fn socket_listen(context: LsmContext) -> i32 {
    decide_nameless(&hooks::SOCKET_LISTEN, |_| {
        let socket: u64 = argument(&context, 0);
        let inner: u64 = load(socket, &SOCKET_SK);
        if inner == 0 {
            return Verdict::deny(REASON_UNREADABLE);
        }
        let family = u64::from(load::<u16>(inner, &SOCK_FAMILY));
        if family == AF_UNIX {
            return Verdict::ALLOW;
        }
        Verdict::deny(REASON_KIND).detail(family << 32)
    })
}
