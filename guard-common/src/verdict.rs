//! The record of a refusal on a security hook, by our program or by another module: the object as the kernel has it, not
//! as anybody named it.

use crate::record::Header;

/// Room for names: once half of it is used up no further one begins, and each has room for the longest there is.
pub const NAMES_BYTES: usize = 768;
/// The longest name and its zero.
pub const NAME_BYTES: usize = 256;
/// Names begin before this.
pub const NAMES_LIMIT: usize = NAMES_BYTES - NAME_BYTES;
/// The most names that are told.
pub const NAMES_COUNT: usize = 24;

/// In [`VerdictRecord::flags`]: there is an object, and its names are told.
pub const NAMED: u16 = 1;
/// The names reach up to the filesystem's root.
pub const NAMES_WHOLE: u16 = 2;
/// The object has an inode, and its number and links hold. The device holds with [`NAMED`]: a name has one before it
/// has an inode.
pub const OBJECT_KNOWN: u16 = 4;
/// Another security module has refused: nothing is known of its reasons.
pub const BY_ANOTHER: u16 = 8;

crate::record::record! {
    pub struct VerdictRecord {
        pub header: Header,
        /// A hook's number.
        pub hook: u16,
        /// What the caller sees, positive.
        pub errno: u16,
        /// One of the reasons of [`crate::hooks`]; 0 with [`BY_ANOTHER`].
        pub reason: u16,
        pub flags: u16,
        /// Rights that the operation needs, and those that were found.
        pub needs: u32,
        pub found: u32,
        /// As the kernel keeps it: major number times 2^20, plus minor number.
        pub dev: u32,
        pub nlink: u32,
        pub ino: u64,
        /// What else there is to say: a family and a type, a command, a mode.
        pub detail: u64,
        /// Bytes of `names` that are used.
        pub names_len: u32,
        pub reserved: u32,
        /// The object's name, its directory's name and so on, each ended by a zero.
        pub names: [u8; NAMES_BYTES],
    }
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<VerdictRecord>() == 96 + NAMES_BYTES);
    // Ring records start on eight bytes.
    assert!(align_of::<VerdictRecord>() == 8 && offset_of!(VerdictRecord, names) == 96);
    assert!(NAMES_LIMIT.is_power_of_two());
};
