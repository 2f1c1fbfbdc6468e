//! Every map and every global the loader freezes before it loads a program.

use crate::storage::{SOCKET_STORAGE, Storage, TASK_STORAGE};
use aya_ebpf::{
    Global,
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, ArrayOfMaps, HashMap, LruHashMap, RingBuf},
    macros::btf_map,
};
use guard_common::{
    abi::{
        ABSENT, ANSWERED_COUNT, AnsweredValue, CALL_COUNT, CallSpec, ConsumedValue, HitValue, LabelValue,
        PENDING_COUNT, PendingValue, RING_BYTES, ROOT_COUNT, RootKey, RootValue, SLOT_COUNT, SandboxValue,
        SlotValue,
    },
    hooks::HOOK_COUNT,
    layout::LAYOUT_HASH,
    record::Header,
    stamp::StampRaw,
};

#[btf_map]
pub(crate) static EVENTS: RingBuf<Header, RING_BYTES> = RingBuf::new();

#[btf_map]
pub(crate) static SLOTS: Array<SlotValue, SLOT_COUNT> = Array::new();

#[btf_map]
pub(crate) static CONSUMED: Array<ConsumedValue, SLOT_COUNT> = Array::new();

#[btf_map]
pub(crate) static SANDBOXES: HashMap<u64, SandboxValue, SLOT_COUNT> = HashMap::new();

#[btf_map]
pub(crate) static CALLS: Array<CallSpec, CALL_COUNT> = Array::new();

#[btf_map]
pub(crate) static ANSWERED: LruHashMap<u32, AnsweredValue, ANSWERED_COUNT> = LruHashMap::new();

#[btf_map]
pub(crate) static LABELS: Storage<LabelValue, TASK_STORAGE> = Storage::new();

#[btf_map]
pub(crate) static SOCKETS: Storage<u64, SOCKET_STORAGE> = Storage::new();

#[btf_map]
pub(crate) static ROOTS: HashMap<RootKey, RootValue, ROOT_COUNT> = HashMap::new();

#[btf_map]
pub(crate) static PENDING: HashMap<u64, PendingValue, PENDING_COUNT> = HashMap::new();

#[btf_map]
pub(crate) static HITS: Array<HitValue, HOOK_COUNT> = Array::new();

/// A map for each slot, and not one for all: who may map one writes to nobody else's. Each holds a [`StampValue`], but is
/// declared without a structure: before Linux 6.2 a map that the host half makes, which has no types, is not taken for
/// one whose values could have members of the kernel's.
///
/// [`StampValue`]: guard_common::stamp::StampValue
#[btf_map]
pub(crate) static STAMPS: ArrayOfMaps<Array<StampRaw, 1, { BPF_F_MMAPABLE as usize }>, SLOT_COUNT> =
    ArrayOfMaps::new();

/// Read by the loader alone.
#[used]
#[unsafe(no_mangle)]
pub(crate) static LAYOUT: Global<u64> = Global::new(LAYOUT_HASH);

#[unsafe(no_mangle)]
pub(crate) static SANDBOX_LEVEL: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
pub(crate) static PARENT_CGROUP: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
pub(crate) static UADDR_OFFSET: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static UADDRLEN_OFFSET: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static BPRM_FILE: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static BPRM_FILENAME: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static BPRM_INTERP: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static FILE_INODE: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static INODE_SB: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static INODE_INO: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static INODE_NLINK: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static SB_DEV: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static FILE_DENTRY: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static FILE_FLAGS: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static FILE_MODE: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static PATH_DENTRY: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static DENTRY_PARENT: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static DENTRY_INODE: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static DENTRY_SB: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static DENTRY_NAME: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static QSTR_NAME: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static INODE_GENERATION: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static SB_FLAGS: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static TASK_CRED: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static TASK_REAL_CRED: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static TASK_FS: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static FS_PWD: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static VMA_FILE: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static SOCKET_SK: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static SOCK_FAMILY: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static IATTR_VALID: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static IATTR_MODE: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static SETATTR_DENTRY: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static SETXATTR_DENTRY: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static REMOVEXATTR_DENTRY: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static WARDEN: Global<u64> = Global::new(ABSENT);
