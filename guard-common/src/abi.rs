//! Names and numbers both halves must know: the version of the layout, the
//! programs, the maps, the globals the loader freezes.

/// Raised whenever a record, a map value or the meaning of a global changes.
/// Every record carries it, and the host half refuses any other.
pub const ABI_VERSION: u32 = 1;

/// Ring buffer of [`crate::event::NetRecord`].
pub const MAP_EVENTS: &str = "EVENTS";
/// Array of [`Counters`], indexed by the number of the operation.
pub const MAP_COUNTERS: &str = "COUNTERS";

/// Depth of the sandboxes' cgroups, as `bpf_get_current_ancestor_cgroup_id` counts (the root is 0).
pub const GLOBAL_SANDBOX_LEVEL: &str = "SANDBOX_LEVEL";
/// Offset of `uaddr` in the kernel's `bpf_sock_addr_kern`, or [`ABSENT`].
pub const GLOBAL_UADDR_OFFSET: &str = "UADDR_OFFSET";
/// Offset of `uaddrlen` in the kernel's `bpf_sock_addr_kern`, or [`ABSENT`].
pub const GLOBAL_UADDRLEN_OFFSET: &str = "UADDRLEN_OFFSET";
/// An offset that this kernel does not have.
pub const ABSENT: u64 = u64::MAX;

/// Bytes of the ring: a power of two and a multiple of the page size. Denials
/// are rare, and what does not fit is counted, so a small ring does.
pub const RING_BYTES: usize = 512 * 1024;

/// Slots of the counters: one an operation, slot 0 unused.
pub const COUNTER_SLOTS: usize = 16;

/// What became of the records of one operation. `reserved + lost` is how often it was denied.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records that got room in the ring. Each is there or will be in a moment.
    pub reserved: u64,
    /// Records for which the ring had no room.
    pub lost: u64,
}

/// The host half reads a slot as two plain integers.
pub type CountersRaw = [u64; 2];

const _: () = assert!(size_of::<Counters>() == size_of::<CountersRaw>());
const _: () = assert!(RING_BYTES.is_power_of_two() && RING_BYTES.is_multiple_of(4096));
const _: () = assert!((crate::event::OP_LAST as usize) < COUNTER_SLOTS);
