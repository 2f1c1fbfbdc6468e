//! A new socket gets its maker's sandbox: by that the others know it for one of theirs.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use guard_common::hooks::{self};

use super::{
    decide::count,
    object::{argument, load},
    subject::subject,
};
use crate::maps::{SOCKET_SK, SOCKETS};

const NUMBER: u64 = 0xffff_ffff;

#[lsm(hook = "socket_post_create")]
pub(crate) fn socket_post_create(context: LsmContext) -> i32 {
    let Some(subject) = subject() else { return 0 };
    let by_the_kernel: u64 = argument(&context, 4);
    if by_the_kernel & NUMBER != 0 {
        return 0;
    }
    let socket: u64 = argument(&context, 0);
    let inner: u64 = load(socket, &SOCKET_SK);
    if inner == 0 || SOCKETS.give(inner, subject.sandbox).is_null() {
        count(&hooks::SOCKET_POST_CREATE, true);
        return -12;
    }
    count(&hooks::SOCKET_POST_CREATE, false);
    0
}
