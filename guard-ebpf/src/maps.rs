//! Every map and every global the loader freezes before it loads a program.

use aya_ebpf::{
    Global,
    btf_maps::{Array, RingBuf},
    macros::btf_map,
};
use guard_common::{
    abi::{ABSENT, COUNTER_SLOTS, Counters, RING_BYTES},
    event::NetRecord,
};

#[btf_map]
pub(crate) static EVENTS: RingBuf<NetRecord, RING_BYTES> = RingBuf::new();

#[btf_map]
pub(crate) static COUNTERS: Array<Counters, COUNTER_SLOTS> = Array::new();

#[unsafe(no_mangle)]
pub(crate) static SANDBOX_LEVEL: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
pub(crate) static UADDR_OFFSET: Global<u64> = Global::new(ABSENT);
#[unsafe(no_mangle)]
pub(crate) static UADDRLEN_OFFSET: Global<u64> = Global::new(ABSENT);
