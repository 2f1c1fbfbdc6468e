//! The call stamp of a sandbox: a page of its own that its gateway writes with plain stores and the programs read.
//! What stands in it is the gateway's word, about its own sandbox alone.

/// The page, from its beginning. What follows means nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StampValue {
    /// A bit for each call in flight.
    pub calls: u64,
    /// Rights as in [`crate::hooks`] that may be used on roots: what the calls in flight need.
    pub mask: u32,
    /// [`STAMP_MARKS`] or 0.
    pub flags: u32,
}

/// The gateway marks calls: without a bit in `calls` none is in flight. As long as it is not set, no bit says nothing.
pub const STAMP_MARKS: u32 = 1;

/// Calls that can be in flight at once.
pub const STAMP_CALLS: usize = u64::BITS as usize;

/// Where the fields stand in the page.
pub const CALLS_OFFSET: usize = core::mem::offset_of!(StampValue, calls);
pub const MASK_OFFSET: usize = core::mem::offset_of!(StampValue, mask);
pub const FLAGS_OFFSET: usize = core::mem::offset_of!(StampValue, flags);

/// The value as the host half hands it to the kernel.
pub type StampRaw = [u64; 2];

impl StampValue {
    pub const fn raw(self) -> StampRaw {
        let [a, b, c, d] = self.mask.to_ne_bytes();
        let [e, f, g, h] = self.flags.to_ne_bytes();
        [self.calls, u64::from_ne_bytes([a, b, c, d, e, f, g, h])]
    }
}

const _: () = {
    assert!(size_of::<StampValue>() == size_of::<StampRaw>());
    // Each is read and written whole.
    assert!(
        CALLS_OFFSET.is_multiple_of(8) && MASK_OFFSET.is_multiple_of(4) && FLAGS_OFFSET.is_multiple_of(4)
    );
};
