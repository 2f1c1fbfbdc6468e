//! Datagrams with descriptors over a connected `SOCK_SEQPACKET` socket.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
};

use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixCredentials,
    getsockopt, recvmsg, sendmsg, setsockopt, socketpair, sockopt,
};

/// The most descriptors one datagram carries.
pub const MAX_DESCRIPTORS: usize = 64;
/// The kernel's own limit (`SCM_MAX_FD`). There is room for as many: of a list that was cut off nobody would close
/// what had arrived.
const KERNEL_DESCRIPTORS: usize = 253;

/// A connected pair, close-on-exec. `large` buffers need privilege beyond the system's limit.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (a, b) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    Ok((a, b))
}

/// Makes room for a datagram of `bytes`; without privilege the kernel gives what its limit allows.
pub fn grow_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    if setsockopt(socket, sockopt::SndBufForce, &bytes).is_err() {
        setsockopt(socket, sockopt::SndBuf, &bytes)?;
    }
    Ok(())
}

/// The process at the other end when the connection was made.
pub fn peer(socket: &impl AsFd) -> io::Result<UnixCredentials> {
    Ok(getsockopt(socket, sockopt::PeerCredentials)?)
}

/// Sends one datagram.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    let sent = loop {
        match sendmsg::<()>(
            socket.as_fd().as_raw_fd(),
            &[IoSlice::new(bytes)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Err(nix::Error::EINTR) => {}
            other => break other?,
        }
    };
    // SOCK_SEQPACKET sends all or nothing.
    debug_assert_eq!(sent, bytes.len());
    Ok(())
}

/// One received datagram. Empty bytes mean that the other end is closed.
#[derive(Debug)]
pub struct Received {
    pub length: usize,
    pub descriptors: Vec<OwnedFd>,
}

/// Receives one datagram into `buffer`. A datagram that does not fit, or more descriptors than
/// [`MAX_DESCRIPTORS`], is an error; nothing leaks.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = nix::cmsg_space!([RawFd; KERNEL_DESCRIPTORS]);
    let mut slices = [IoSliceMut::new(buffer)];
    let mut reset = false;
    let message = loop {
        match recvmsg::<()>(
            socket.as_fd().as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::MSG_CMSG_CLOEXEC,
        ) {
            Err(nix::Error::EINTR) => {}
            // The other end closed before it had read everything of ours. The kernel says so once, ahead of what it
            // sent before that.
            Err(nix::Error::ECONNRESET) if !reset => reset = true,
            other => break other?,
        }
    };
    let mut descriptors = Vec::new();
    for item in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = item {
            for fd in received {
                // SAFETY: the kernel installed this descriptor for us just now; nobody else owns it.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    if descriptors.len() > MAX_DESCRIPTORS
        || message
            .flags
            .intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC)
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "datagram larger than the protocol allows",
        ));
    }
    Ok(Received {
        length: message.bytes,
        descriptors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_the_end_arrives_although_the_sender_left_something_unread() {
        let (ours, theirs) = pair().unwrap();
        send(&theirs, b"unread", &[]).unwrap();
        send(&ours, b"last", &[]).unwrap();
        drop(ours);
        let mut buffer = [0; 8];
        assert_eq!(receive(&theirs, &mut buffer).unwrap().length, 4);
        assert_eq!(&buffer[..4], b"last");
        assert_eq!(receive(&theirs, &mut buffer).unwrap().length, 0);
    }

    #[test]
    fn too_many_descriptors_are_refused_and_closed() {
        for count in [MAX_DESCRIPTORS + 1, KERNEL_DESCRIPTORS] {
            let (ours, theirs) = pair().unwrap();
            let (left, right) = pair().unwrap();
            send(&ours, b"x", &vec![right.as_fd(); count]).unwrap();
            drop(right);
            receive(&theirs, &mut [0; 8]).unwrap_err();
            // The other end reads as closed only when no copy of `right` is open any more.
            assert_eq!(receive(&left, &mut [0; 8]).unwrap().length, 0, "{count}");
        }
    }
}
