#![expect(
    unsafe_code,
    reason = "a descriptor that arrives by message is a bare number until someone owns it"
)]
//! Receives one descriptor.

use std::{
    io::IoSliceMut,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use anyhow::Context;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// `None` when the other side closed without sending one.
pub(crate) fn descriptor(socket: &UnixStream) -> anyhow::Result<Option<OwnedFd>> {
    let mut byte = [0_u8; 1];
    let mut data = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([i32; 1]);
    let message = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut data,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )
    .context("recvmsg")?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = control
            && let [fd] = fds.as_slice()
        {
            // SAFETY: the kernel put this descriptor into our table with this message; nothing else knows of it.
            return Ok(Some(unsafe { OwnedFd::from_raw_fd(*fd) }));
        }
    }
    Ok(None)
}
