//! Unix sockets, which no network namespace holds: the other end has to be of the same sandbox.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self, REASON_STRANGER, REASON_UNREADABLE};

use super::{
    decide::{Verdict, decide_nameless},
    object::{argument, load},
    subject::Subject,
};
use crate::maps::{SOCKET_SK, SOCKETS};

#[lsm(hook = "unix_stream_connect")]
pub(crate) fn unix_stream_connect(context: LsmContext) -> i32 {
    decide_nameless(&hooks::UNIX_STREAM_CONNECT, |subject| {
        same(argument(&context, 1), subject)
    })
}

#[lsm(hook = "unix_may_send")]
pub(crate) fn unix_may_send(context: LsmContext) -> i32 {
    decide_nameless(&hooks::UNIX_MAY_SEND, |subject| {
        let other: u64 = argument(&context, 1);
        same(load(other, &SOCKET_SK), subject)
    })
}

#[inline(always)]
fn same(other: u64, subject: &Subject) -> Verdict {
    if other == 0 {
        return Verdict::deny(REASON_UNREADABLE);
    }
    let maker = SOCKETS.of(other);
    if maker.is_null() {
        return Verdict::deny(REASON_STRANGER);
    }
    // SAFETY: a live value of this type.
    if unsafe { maker.read_volatile() } != subject.sandbox {
        return Verdict::deny(REASON_STRANGER);
    }
    Verdict::ALLOW
}
