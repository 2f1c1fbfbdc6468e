//! Names and numbers both halves must know: the version of the layout, the
//! programs, the maps and their values, the globals the loader freezes.

/// Raised whenever a record, a map value or the meaning of a global changes.
/// Every record carries it, and the host half refuses any other.
pub const ABI_VERSION: u32 = 4;

/// Ring buffer of the records in [`crate::record`] and [`crate::event`].
pub const MAP_EVENTS: &str = "EVENTS";
/// Array of [`SlotValue`], indexed by slot: written by the kernel half only.
pub const MAP_SLOTS: &str = "SLOTS";
/// Array of [`ConsumedValue`], indexed by slot: written by the host half only.
pub const MAP_CONSUMED: &str = "CONSUMED";
/// Hash of [`SandboxValue`] by the id of a sandbox's cgroup.
pub const MAP_SANDBOXES: &str = "SANDBOXES";
/// Array of [`CallSpec`], indexed by the number of the system call.
pub const MAP_CALLS: &str = "CALLS";
/// LRU hash of [`AnsweredValue`] by thread id in the kernel's first pid namespace.
pub const MAP_ANSWERED: &str = "ANSWERED";

/// Task storage of [`LabelValue`]: which sandbox a task belongs to, whatever cgroup it is in.
pub const MAP_LABELS: &str = "LABELS";
/// Socket storage of a sandbox's cgroup id: who made a socket.
pub const MAP_SOCKETS: &str = "SOCKETS";
/// Hash of [`RootValue`] by [`RootKey`]: what a sandbox may use. Filled by the kernel half, at the warden's look.
pub const MAP_ROOTS: &str = "ROOTS";
/// Hash of [`PendingValue`] by thread: what the warden's next look is to enrol.
pub const MAP_PENDING: &str = "PENDING";
/// Array of [`HitValue`], indexed by a hook's number.
pub const MAP_HITS: &str = "HITS";
/// Array by slot of arrays of one [`crate::stamp::StampValue`], each a page that one gateway has mapped.
pub const MAP_STAMPS: &str = "STAMPS";

/// Depth of the sandboxes' cgroups, as `bpf_get_current_ancestor_cgroup_id` counts (the root is 0).
pub const GLOBAL_SANDBOX_LEVEL: &str = "SANDBOX_LEVEL";
/// Id of the cgroup that holds the sandboxes' cgroups, one level above them.
pub const GLOBAL_PARENT_CGROUP: &str = "PARENT_CGROUP";
/// [`crate::layout::LAYOUT_HASH`] of the kernel half. The loader compares it and does not touch it.
pub const GLOBAL_LAYOUT: &str = "LAYOUT";
/// Offset of `uaddr` in the kernel's `bpf_sock_addr_kern`, or [`ABSENT`].
pub const GLOBAL_UADDR_OFFSET: &str = "UADDR_OFFSET";
/// Offset of `uaddrlen` in the kernel's `bpf_sock_addr_kern`, or [`ABSENT`].
pub const GLOBAL_UADDRLEN_OFFSET: &str = "UADDRLEN_OFFSET";
/// Offsets in the kernel's structures around an executed file, each may be [`ABSENT`].
pub const GLOBAL_BPRM_FILE: &str = "BPRM_FILE";
pub const GLOBAL_BPRM_FILENAME: &str = "BPRM_FILENAME";
pub const GLOBAL_BPRM_INTERP: &str = "BPRM_INTERP";
pub const GLOBAL_FILE_INODE: &str = "FILE_INODE";
pub const GLOBAL_INODE_SB: &str = "INODE_SB";
pub const GLOBAL_INODE_INO: &str = "INODE_INO";
pub const GLOBAL_INODE_NLINK: &str = "INODE_NLINK";
pub const GLOBAL_SB_DEV: &str = "SB_DEV";
/// The same for tier T1, where a verdict depends on them: one that is [`ABSENT`] refuses the tier.
pub const GLOBAL_FILE_DENTRY: &str = "FILE_DENTRY";
pub const GLOBAL_FILE_FLAGS: &str = "FILE_FLAGS";
pub const GLOBAL_FILE_MODE: &str = "FILE_MODE";
pub const GLOBAL_PATH_DENTRY: &str = "PATH_DENTRY";
pub const GLOBAL_DENTRY_PARENT: &str = "DENTRY_PARENT";
pub const GLOBAL_DENTRY_INODE: &str = "DENTRY_INODE";
pub const GLOBAL_DENTRY_SB: &str = "DENTRY_SB";
pub const GLOBAL_DENTRY_NAME: &str = "DENTRY_NAME";
pub const GLOBAL_QSTR_NAME: &str = "QSTR_NAME";
pub const GLOBAL_INODE_GENERATION: &str = "INODE_GENERATION";
pub const GLOBAL_SB_FLAGS: &str = "SB_FLAGS";
pub const GLOBAL_TASK_CRED: &str = "TASK_CRED";
pub const GLOBAL_TASK_REAL_CRED: &str = "TASK_REAL_CRED";
pub const GLOBAL_TASK_FS: &str = "TASK_FS";
pub const GLOBAL_FS_PWD: &str = "FS_PWD";
pub const GLOBAL_VMA_FILE: &str = "VMA_FILE";
pub const GLOBAL_SOCKET_SK: &str = "SOCKET_SK";
pub const GLOBAL_SOCK_FAMILY: &str = "SOCK_FAMILY";
pub const GLOBAL_IATTR_VALID: &str = "IATTR_VALID";
pub const GLOBAL_IATTR_MODE: &str = "IATTR_MODE";
/// The warden's process in the kernel's first pid namespace: only its looks enrol.
pub const GLOBAL_WARDEN: &str = "WARDEN";
/// An offset that this kernel does not have.
pub const ABSENT: u64 = u64::MAX;

/// Programs that only look, and the raw tracepoints of the same names.
pub const PROGRAM_SYS_EXIT: &str = "sys_exit";
pub const PROGRAM_EXEC: &str = "sched_process_exec";

/// Bytes of the ring: a power of two and a multiple of the page size.
pub const RING_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the ring that unread records of one slot may hold: a flood in one sandbox leaves room for others.
/// Processors that reserve at the same moment may go over by one record each.
pub const SLOT_BYTES: u64 = RING_BYTES as u64 / 4;
/// The part of it that records of what was allowed may hold: they never displace denials.
pub const SLOT_ALLOWED_BYTES: u64 = SLOT_BYTES / 2;

/// Slots of the counters. Slot 0 is for what belongs to no sandbox known here.
pub const SLOT_COUNT: usize = 1024;
pub const SLOT_UNKNOWN: u32 = 0;

/// Numbers a system call may have to be observed.
pub const CALL_COUNT: usize = 512;
/// Answers to notifications remembered until the calls' exits were seen.
pub const ANSWERED_COUNT: usize = 8192;

/// What became of the records of one slot, since the maps were made.
///
/// What was refused or failed and what was allowed are counted apart:
/// `reserved + lost` is how often the first happened, `allowed_reserved + allowed_lost` how often the second.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotValue {
    /// Records that got room in the ring. Each is there or will be in a moment.
    pub reserved: u64,
    /// Records for which the slot had no room.
    pub lost: u64,
    pub allowed_reserved: u64,
    pub allowed_lost: u64,
    /// Bytes of the ring that those records took, headers included.
    pub bytes: u64,
    pub allowed_bytes: u64,
}

/// What the reader took out of the ring for one slot, since the maps were made.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConsumedValue {
    pub records: u64,
    pub allowed_records: u64,
    pub bytes: u64,
    pub allowed_bytes: u64,
}

/// What is known of a sandbox's cgroup.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxValue {
    pub slot: u32,
    /// [`SANDBOX_OBSERVE`], [`SANDBOX_ENFORCE`] and [`SANDBOX_STAMP`].
    pub flags: u32,
    /// Rights that only an approved call may have while none has them: no stamp gives them.
    pub withheld: u32,
    pub reserved: u32,
}

/// Its calls and execs are reported.
pub const SANDBOX_OBSERVE: u32 = 1;
/// The security hooks decide for it: it is set up, and its roots are enrolled.
pub const SANDBOX_ENFORCE: u32 = 2;
/// It has a stamp: what may be done in its roots is what that allows, too.
pub const SANDBOX_STAMP: u32 = 4;

/// Roots and files of all sandboxes together.
pub const ROOT_COUNT: usize = 32_768;
/// Looks of the warden that are under way.
pub const PENDING_COUNT: usize = 64;

/// What a task belongs to: written by the warden for a sandbox's init, inherited from then on.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelValue {
    /// Id of the sandbox's cgroup, whatever cgroup the task is in.
    pub sandbox: u64,
    /// Not 0: a refusal by a security module was reported since the task's last call ended.
    pub told: u32,
    /// Number of the hook whose program has just refused and reported it: the end of the kernel's function is not to
    /// report that, too. 0 for none.
    pub refused: u32,
}

/// An object that a sandbox may use, and below it everything of the same filesystem.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootKey {
    /// Address of the inode. The warden holds it, so that it is nobody else's meanwhile.
    pub inode: u64,
    pub sandbox: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RootValue {
    /// Compared at each use.
    pub ino: u64,
    pub dev: u32,
    pub generation: u32,
    /// Rights as in [`crate::hooks`], whatever calls there are: of what the runtime needs, and the sandbox's own.
    pub rights: u32,
    /// Rights of what the operator named as a root: a stamp cuts them.
    pub named: u32,
}

/// A look of the warden that enrols.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingValue {
    pub sandbox: u64,
    pub rights: u32,
    pub named: u32,
    /// [`PENDING_WANTED`], then what became of it.
    pub state: u32,
    pub reserved: u32,
    /// The key that was used.
    pub inode: u64,
    pub ino: u64,
    pub dev: u32,
    pub generation: u32,
}

pub const PENDING_WANTED: u32 = 1;
pub const PENDING_DONE: u32 = 2;
/// The map of roots is full.
pub const PENDING_FULL: u32 = 3;
/// The object cannot be told from others: it has no inode.
pub const PENDING_UNREADABLE: u32 = 4;

/// How often a hook decided for tasks of sandboxes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HitValue {
    pub allowed: u64,
    pub denied: u64,
}

/// A call whose refusal the warden has recorded already.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredValue {
    pub nr: u32,
    pub errno: u32,
}

/// What the kernel half does with one system call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSpec {
    /// Bit set of the errno values that are reported; none: the call is not looked at.
    pub errnos: [u64; 2],
    /// Which argument is the path, [`NO_ARGUMENT`] for none.
    pub path: u8,
    pub second: u8,
    /// Which arguments are a socket address and its length.
    pub address: u8,
    pub address_length: u8,
    /// [`CALL_ALLOWED`] or 0.
    pub flags: u32,
}

pub const NO_ARGUMENT: u8 = 0xff;
/// Reported when it succeeded, too.
pub const CALL_ALLOWED: u32 = 1;

/// The values as the host half hands them to the kernel: plain integers.
pub type SlotRaw = [u64; 6];
pub type ConsumedRaw = [u64; 4];
pub type SandboxRaw = [u32; 4];
pub type AnsweredRaw = [u32; 2];
pub type CallRaw = [u64; 3];
pub type LabelRaw = [u64; 2];
pub type RootKeyRaw = [u64; 2];
pub type RootRaw = [u64; 3];
pub type PendingRaw = [u64; 6];
pub type HitRaw = [u64; 2];

impl CallSpec {
    pub const fn raw(self) -> CallRaw {
        let [a, b, c, d] = self.flags.to_ne_bytes();
        let last = [
            self.path,
            self.second,
            self.address,
            self.address_length,
            a,
            b,
            c,
            d,
        ];
        [self.errnos[0], self.errnos[1], u64::from_ne_bytes(last)]
    }
}

/// Bytes of the ring that a record takes.
pub const fn ring_bytes(record: usize) -> u64 {
    (record as u64 + 8).next_multiple_of(8)
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<SlotValue>() == size_of::<SlotRaw>());
    assert!(size_of::<ConsumedValue>() == size_of::<ConsumedRaw>());
    assert!(size_of::<SandboxValue>() == size_of::<SandboxRaw>());
    assert!(size_of::<AnsweredValue>() == size_of::<AnsweredRaw>());
    assert!(size_of::<CallSpec>() == size_of::<CallRaw>());
    assert!(size_of::<LabelValue>() == size_of::<LabelRaw>());
    assert!(size_of::<RootKey>() == size_of::<RootKeyRaw>());
    assert!(size_of::<RootValue>() == size_of::<RootRaw>());
    assert!(size_of::<PendingValue>() == size_of::<PendingRaw>());
    assert!(size_of::<HitValue>() == size_of::<HitRaw>());
    assert!(offset_of!(CallSpec, path) == 16 && offset_of!(CallSpec, flags) == 20);
    assert!(RING_BYTES.is_power_of_two() && RING_BYTES.is_multiple_of(4096));
};
