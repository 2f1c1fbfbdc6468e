//! The records of the ring: a common head, then what kind of thing happened.
//!
//! Raw integers only, no padding: every bit pattern is a valid record, so the
//! host half can look at bytes of any origin without undefined behaviour.

/// A [`crate::event::NetRecord`].
pub const KIND_NET: u16 = 1;
/// A [`CallRecord`]: a system call with one path or none.
pub const KIND_CALL: u16 = 2;
/// A [`PathsRecord`]: a system call with two paths.
pub const KIND_PATHS: u16 = 3;
/// An [`ExecRecord`].
pub const KIND_EXEC: u16 = 4;

/// A [`crate::verdict::VerdictRecord`].
pub const KIND_VERDICT: u16 = 5;

/// In [`Header::flags`]: it was allowed, and counts among what was.
pub const ALLOWED: u16 = 1;
/// In [`Header::flags`]: the sandbox's gateway marks calls, and [`Header::calls`] is what it had marked.
pub const MARKED: u16 = 2;

/// Room for a path, the zero at its end included.
pub const PATH_BYTES: usize = 400;
/// Room for an interpreter's path: the kernel takes no longer one from a script.
pub const INTERPRETER_BYTES: usize = 256;
/// The most that is read of a socket address.
pub const ADDRESS_BYTES: usize = 112;

/// In the `flags` of a record: there is a path at all.
pub const PATH_GIVEN: u16 = 1;
/// The path is longer than its room.
pub const PATH_CUT: u16 = 2;
/// The path's memory could not be read, for instance because its page was not there.
pub const PATH_UNREADABLE: u16 = 4;
pub const SECOND_GIVEN: u16 = 8;
pub const SECOND_CUT: u16 = 16;
pub const SECOND_UNREADABLE: u16 = 32;
/// `path` holds a socket address of `path_len` bytes.
pub const ADDRESS_GIVEN: u16 = 64;
/// What an exec's record knows of the file.
pub const INODE_KNOWN: u16 = 128;
pub const DEVICE_KNOWN: u16 = 256;
pub const LINKS_KNOWN: u16 = 512;

macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident $body:tt) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(
            feature = "user",
            derive(
                zerocopy::FromBytes,
                zerocopy::IntoBytes,
                zerocopy::Immutable,
                zerocopy::KnownLayout
            )
        )]
        pub struct $name $body
    };
}
pub(crate) use record;

record! {
    /// Who did it and when: the beginning of every record.
    pub struct Header {
        pub abi: u32,
        /// One of the `KIND_` numbers.
        pub kind: u16,
        /// [`ALLOWED`] and [`MARKED`].
        pub flags: u16,
        /// `CLOCK_MONOTONIC`, nanoseconds.
        pub ktime_ns: u64,
        /// The calling task's ancestor cgroup at the sandboxes' level, 0 when it has none there
        /// (a socket that left its sandbox is still denied).
        pub cgroup_id: u64,
        /// Thread group and thread of the caller, in the kernel's first pid namespace.
        pub pid: u32,
        pub tid: u32,
        /// Whose room in the ring the record took.
        pub slot: u32,
        pub cpu: u32,
        /// The calls in flight at that moment, a bit each, by the gateway's word; 0 where it marks none.
        pub calls: u64,
    }
}

record! {
    /// A system call that failed, or an open that did not.
    pub struct CallRecord {
        pub header: Header,
        pub nr: u32,
        /// Positive; 0 when it succeeded.
        pub errno: u16,
        pub flags: u16,
        /// What the call returned.
        pub result: i64,
        pub args: [u64; 6],
        /// Bytes of `path` before its zero.
        pub path_len: u16,
        pub second_len: u16,
        pub reserved: u32,
        /// Copied from the caller's memory at the end of the call; what follows `path_len` means nothing.
        pub path: [u8; PATH_BYTES],
    }
}

record! {
    /// The same for a call with two paths.
    pub struct PathsRecord {
        pub call: CallRecord,
        pub second: [u8; PATH_BYTES],
    }
}

record! {
    /// A program that replaced another.
    pub struct ExecRecord {
        pub header: Header,
        /// As the kernel keeps it: major number times 2^20, plus minor number.
        pub dev: u64,
        pub ino: u64,
        pub nlink: u32,
        pub flags: u16,
        pub filename_len: u16,
        pub interpreter_len: u16,
        pub reserved: [u16; 3],
        /// The kernel's own copy of what the caller named.
        pub filename: [u8; PATH_BYTES],
        pub interpreter: [u8; INTERPRETER_BYTES],
    }
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Header>() == 48);
    assert!(size_of::<CallRecord>() == 520);
    assert!(size_of::<PathsRecord>() == 920);
    assert!(size_of::<ExecRecord>() == 736);
    // Ring records start on eight bytes.
    assert!(align_of::<Header>() == 8 && align_of::<CallRecord>() == 8 && align_of::<ExecRecord>() == 8);
    assert!(
        offset_of!(Header, flags) == 6 && offset_of!(Header, cpu) == 36 && offset_of!(Header, calls) == 40
    );
    assert!(offset_of!(CallRecord, args) == 64 && offset_of!(CallRecord, path) == 120);
    assert!(offset_of!(ExecRecord, filename) == 80);
    assert!(ADDRESS_BYTES <= PATH_BYTES);
};
