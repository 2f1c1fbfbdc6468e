//! Typed messages over a `SOCK_SEQPACKET` socket, one JSON object a datagram, bounded before it is parsed.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::sys::seqpacket;

/// The largest message. A launch request carries the child's arguments and environment; Linux itself
/// allows up to 2 MiB for both, servers use a few KiB.
pub const MAX_MESSAGE: usize = 256 << 10;

#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("message of {length} bytes is larger than the {MAX_MESSAGE} allowed")]
    TooLarge { length: usize },
    #[error("cannot send on the link")]
    Send(#[source] io::Error),
    #[error("cannot receive on the link")]
    Receive(#[source] io::Error),
    #[error("message cannot be encoded")]
    Encode(#[source] serde_json::Error),
    #[error("message is not of this protocol")]
    Decode(#[source] serde_json::Error),
    #[error("the other end closed the link")]
    Closed,
    #[error("no answer in time")]
    Timeout,
}

/// Parses one datagram. Fuzzed: must never panic, whatever the bytes.
pub fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, ChannelError> {
    serde_json::from_slice(bytes).map_err(ChannelError::Decode)
}

pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, ChannelError> {
    let bytes = serde_json::to_vec(message).map_err(ChannelError::Encode)?;
    if bytes.len() > MAX_MESSAGE {
        return Err(ChannelError::TooLarge { length: bytes.len() });
    }
    Ok(bytes)
}

/// One end of a link, blocking.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    /// What the last message was received into. A call waits for one: a new buffer each time would cost more than the
    /// message.
    buffer: Mutex<Vec<u8>>,
}

impl Channel {
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        seqpacket::grow_buffer(&socket, MAX_MESSAGE + 4096)?;
        Ok(Self {
            socket,
            buffer: Mutex::default(),
        })
    }

    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = seqpacket::pair()?;
        seqpacket::grow_buffer(&theirs, MAX_MESSAGE + 4096)?;
        Ok((Self::new(ours)?, theirs))
    }

    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    pub fn send<M: Serialize>(
        &self,
        message: &M,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        seqpacket::send(&self.socket, &encode(message)?, descriptors).map_err(ChannelError::Send)
    }

    /// Waits for one message; descriptors come with it.
    pub fn receive<M: DeserializeOwned>(&self) -> Result<(M, Vec<OwnedFd>), ChannelError> {
        // Taken, not locked: whoever waits for a message holds up nobody.
        let mut buffer = std::mem::take(&mut *self.buffer.lock().unwrap_or_else(PoisonError::into_inner));
        if buffer.is_empty() {
            buffer = vec![0; MAX_MESSAGE];
        }
        let received = receive_from(&self.socket, &mut buffer);
        *self.buffer.lock().unwrap_or_else(PoisonError::into_inner) = buffer;
        received
    }

    /// As [`Self::receive`], but not longer than `limit`.
    pub fn receive_within<M: DeserializeOwned>(
        &self,
        limit: Duration,
    ) -> Result<(M, Vec<OwnedFd>), ChannelError> {
        let timeout = nix::poll::PollTimeout::try_from(limit).unwrap_or(nix::poll::PollTimeout::MAX);
        let mut ready = [nix::poll::PollFd::new(
            self.socket.as_fd(),
            nix::poll::PollFlags::POLLIN,
        )];
        match nix::poll::poll(&mut ready, timeout) {
            Ok(0) => Err(ChannelError::Timeout),
            Ok(_) => self.receive(),
            Err(error) => Err(ChannelError::Receive(error.into())),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One message from a socket; for callers that wait for readiness themselves.
pub fn receive_from<M: DeserializeOwned>(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> Result<(M, Vec<OwnedFd>), ChannelError> {
    let received = seqpacket::receive(socket, buffer).map_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionReset {
            ChannelError::Closed
        } else {
            ChannelError::Receive(error)
        }
    })?;
    if received.length == 0 {
        return Err(ChannelError::Closed);
    }
    let bytes = buffer.get(..received.length).unwrap_or_default();
    Ok((decode(bytes)?, received.descriptors))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::link::message::{FromWarden, ToWarden};

    #[test]
    fn a_message_and_its_descriptors_arrive() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::new(theirs).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let hello = ToWarden::Hello {
            link: 1,
            build: "b".into(),
        };
        ours.send(&hello, &[file.as_fd(), file.as_fd()]).unwrap();
        let (message, descriptors): (ToWarden, _) = theirs.receive().unwrap();
        assert_eq!(message, hello);
        assert_eq!(descriptors.len(), 2);
        drop(ours);
        assert!(matches!(theirs.receive::<ToWarden>(), Err(ChannelError::Closed)));
    }

    #[test]
    fn a_message_is_not_mixed_with_a_longer_one_before_it() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::new(theirs).unwrap();
        for build in ["long".repeat(1000), "b".to_owned()] {
            let hello = ToWarden::Hello { link: 1, build };
            ours.send(&hello, &[]).unwrap();
            assert_eq!(theirs.receive::<ToWarden>().unwrap().0, hello);
        }
    }

    #[test]
    fn two_that_wait_on_one_end_get_a_message_each() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::new(theirs).unwrap();
        let hello = |link| ToWarden::Hello {
            link,
            build: "b".into(),
        };
        let mut heard = std::thread::scope(|scope| {
            let wait = || theirs.receive::<ToWarden>().unwrap().0;
            let (one, other) = (scope.spawn(wait), scope.spawn(wait));
            ours.send(&hello(1), &[]).unwrap();
            ours.send(&hello(2), &[]).unwrap();
            [one.join().unwrap(), other.join().unwrap()]
        });
        heard.sort_by_key(|hello| matches!(hello, ToWarden::Hello { link: 2, .. }));
        assert_eq!(heard, [hello(1), hello(2)]);
    }

    #[test]
    fn too_large_is_refused_before_it_is_sent() {
        let (ours, _theirs) = Channel::pair().unwrap();
        let build = "x".repeat(MAX_MESSAGE);
        let error = ours.send(&ToWarden::Hello { link: 1, build }, &[]).unwrap_err();
        assert!(matches!(error, ChannelError::TooLarge { length } if length > MAX_MESSAGE));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            let _ = decode::<ToWarden>(&bytes);
            let _ = decode::<FromWarden>(&bytes);
        }

        #[test]
        fn a_damaged_message_never_panics(at in 0usize..64, byte in any::<u8>()) {
            let mut bytes = encode(&ToWarden::Hello { link: 1, build: "0123456789abcdef".into() }).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = decode::<ToWarden>(&bytes);
        }
    }
}
