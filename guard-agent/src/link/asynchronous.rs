//! A link inside the warden's event loop.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{Interest, unix::AsyncFd};

use super::channel::{ChannelError, MAX_MESSAGE, encode, receive_from};
use crate::sys::{ready, seqpacket};

/// One end of a link, not blocking. Receiving is cancellation-safe: a message is taken whole or not at all.
#[derive(Debug)]
pub struct AsyncLink {
    socket: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
}

impl AsyncLink {
    /// Must be called inside a runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        seqpacket::grow_buffer(&socket, MAX_MESSAGE + 4096)?;
        set_nonblocking(socket.as_fd())?;
        let socket = ready::watch(socket, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            socket,
            buffer: vec![0; MAX_MESSAGE],
        })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }

    pub async fn receive<M: DeserializeOwned>(&mut self) -> Result<(M, Vec<OwnedFd>), ChannelError> {
        loop {
            let mut ready = self.socket.readable().await.map_err(ChannelError::Receive)?;
            match receive_from(self.socket.get_ref(), &mut self.buffer) {
                Err(ChannelError::Receive(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready.clear_ready();
                }
                other => return other,
            }
        }
    }

    pub async fn send<M: Serialize>(
        &self,
        message: &M,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let bytes = encode(message)?;
        loop {
            let mut ready = self.socket.writable().await.map_err(ChannelError::Send)?;
            match seqpacket::send(self.socket.get_ref(), &bytes, descriptors) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                other => return other.map_err(ChannelError::Send),
            }
        }
    }
}

fn set_nonblocking(socket: BorrowedFd<'_>) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_retain(fcntl(socket, FcntlArg::F_GETFL)?);
    fcntl(socket, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
