//! The record a network program writes when it denies something.
//!
//! Raw integers only, no padding: every bit pattern is a valid record, so the
//! host half can look at bytes of any origin without undefined behaviour.

use crate::record::Header;

pub const OP_CONNECT4: u16 = 1;
pub const OP_CONNECT6: u16 = 2;
pub const OP_SENDMSG4: u16 = 3;
pub const OP_SENDMSG6: u16 = 4;
pub const OP_BIND4: u16 = 5;
pub const OP_BIND6: u16 = 6;
pub const OP_SOCK_CREATE: u16 = 7;
pub const OP_UNIX_CONNECT: u16 = 8;
pub const OP_UNIX_SENDMSG: u16 = 9;
/// The highest number in use.
pub const OP_LAST: u16 = OP_UNIX_SENDMSG;

/// The sandbox has no network at all.
pub const REASON_NETWORK_NONE: u16 = 1;
/// Only plain TCP and UDP sockets may be made.
pub const REASON_SOCKET_KIND: u16 = 2;

/// `sizeof(sun_path)`: the same on every Linux.
pub const UNIX_PATH_BYTES: usize = 108;

crate::record::record! {
    /// One denied network operation.
    pub struct NetRecord {
        pub header: Header,
        /// One of the `OP_` numbers.
        pub op: u16,
        /// Address family of the socket, as the kernel numbers them.
        pub family: u16,
        /// Socket type, as the kernel numbers them.
        pub sock_type: u32,
        pub protocol: u32,
        /// The errno the caller sees, positive.
        pub errno: u16,
        /// One of the `REASON_` numbers.
        pub reason: u16,
        /// Host byte order, 0 when the operation has none.
        pub port: u16,
        /// Bytes of `unix_path` that the caller gave.
        pub unix_path_len: u16,
        pub reserved: u32,
        /// Network byte order; an IPv4 address is the first four bytes.
        pub address: [u8; 16],
        /// As given, a leading zero byte is an abstract name; the rest past `unix_path_len` means nothing.
        pub unix_path: [u8; UNIX_PATH_BYTES],
        pub tail: u32,
    }
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<NetRecord>() == 200);
    // Ring records start on eight bytes.
    assert!(align_of::<NetRecord>() == 8);
    assert!(offset_of!(NetRecord, op) == 48);
    assert!(offset_of!(NetRecord, port) == 64);
    assert!(offset_of!(NetRecord, address) == 72);
    assert!(offset_of!(NetRecord, unix_path) == 88);
    assert!(offset_of!(NetRecord, tail) == 196);
};

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetOp {
    Connect4,
    Connect6,
    Sendmsg4,
    Sendmsg6,
    Bind4,
    Bind6,
    SockCreate,
    UnixConnect,
    UnixSendmsg,
    /// A number this build does not know.
    Unknown(u16),
}

impl NetOp {
    pub const fn from_raw(raw: u16) -> Self {
        match raw {
            OP_CONNECT4 => Self::Connect4,
            OP_CONNECT6 => Self::Connect6,
            OP_SENDMSG4 => Self::Sendmsg4,
            OP_SENDMSG6 => Self::Sendmsg6,
            OP_BIND4 => Self::Bind4,
            OP_BIND6 => Self::Bind6,
            OP_SOCK_CREATE => Self::SockCreate,
            OP_UNIX_CONNECT => Self::UnixConnect,
            OP_UNIX_SENDMSG => Self::UnixSendmsg,
            other => Self::Unknown(other),
        }
    }

    /// The number a record carries.
    pub const fn raw(self) -> u16 {
        match self {
            Self::Connect4 => OP_CONNECT4,
            Self::Connect6 => OP_CONNECT6,
            Self::Sendmsg4 => OP_SENDMSG4,
            Self::Sendmsg6 => OP_SENDMSG6,
            Self::Bind4 => OP_BIND4,
            Self::Bind6 => OP_BIND6,
            Self::SockCreate => OP_SOCK_CREATE,
            Self::UnixConnect => OP_UNIX_CONNECT,
            Self::UnixSendmsg => OP_UNIX_SENDMSG,
            Self::Unknown(raw) => raw,
        }
    }

    /// The operation as audit records spell it, also the name of its program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect4 => "connect4",
            Self::Connect6 => "connect6",
            Self::Sendmsg4 => "sendmsg4",
            Self::Sendmsg6 => "sendmsg6",
            Self::Bind4 => "bind4",
            Self::Bind6 => "bind6",
            Self::SockCreate => "sock_create",
            Self::UnixConnect => "unix_connect",
            Self::UnixSendmsg => "unix_sendmsg",
            Self::Unknown(_) => "unknown",
        }
    }
}
