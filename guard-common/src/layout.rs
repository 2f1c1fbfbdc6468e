//! One number for everything both halves must agree on: it stands in the object,
//! and the loader compares it before anything is loaded.

use core::mem::{offset_of, size_of};

use crate::{
    abi::{
        ABI_VERSION, AnsweredValue, CALL_COUNT, CallSpec, ConsumedValue, HitValue, LabelValue, PENDING_COUNT,
        PendingValue, RING_BYTES, ROOT_COUNT, RootKey, RootValue, SLOT_ALLOWED_BYTES, SLOT_BYTES, SLOT_COUNT,
        SandboxValue, SlotValue,
    },
    event::NetRecord,
    hooks::HOOK_COUNT,
    record::{CallRecord, ExecRecord, Header, PathsRecord},
    stamp::StampValue,
    verdict::VerdictRecord,
};

macro_rules! facts {
    ($($type:ident { $($field:ident),+ $(,)? })+) => {
        &[$(size_of::<$type>() as u64, $(offset_of!($type, $field) as u64,)+)+]
    };
}

const PLACES: &[u64] = facts! {
    Header { abi, kind, flags, ktime_ns, cgroup_id, pid, tid, slot, cpu, calls }
    NetRecord {
        header, op, family, sock_type, protocol, errno, reason, port, unix_path_len, address, unix_path
    }
    CallRecord { header, nr, errno, flags, result, args, path_len, second_len, path }
    PathsRecord { call, second }
    ExecRecord {
        header, dev, ino, nlink, flags, filename_len, interpreter_len, filename, interpreter
    }
    SlotValue { reserved, lost, allowed_reserved, allowed_lost, bytes, allowed_bytes }
    ConsumedValue { records, allowed_records, bytes, allowed_bytes }
    SandboxValue { slot, flags, withheld }
    StampValue { calls, mask, flags }
    AnsweredValue { nr, errno }
    CallSpec { errnos, path, second, address, address_length, flags }
    VerdictRecord {
        header, hook, errno, reason, flags, needs, found, dev, nlink, ino, detail, names_len, names
    }
    LabelValue { sandbox, told, refused }
    RootKey { inode, sandbox }
    RootValue { ino, dev, generation, rights, named }
    PendingValue { sandbox, rights, named, state, inode, ino, dev, generation }
    HitValue { allowed, denied }
};

const NUMBERS: &[u64] = &[
    ABI_VERSION as u64,
    RING_BYTES as u64,
    SLOT_BYTES,
    SLOT_ALLOWED_BYTES,
    SLOT_COUNT as u64,
    CALL_COUNT as u64,
    ROOT_COUNT as u64,
    PENDING_COUNT as u64,
    HOOK_COUNT as u64,
];

/// FNV-1a, a word at a time: tells layouts apart, protects against nobody.
const fn hash(mut state: u64, words: &[u64]) -> u64 {
    let mut index = 0;
    while index < words.len() {
        state = (state ^ words[index]).wrapping_mul(0x0000_0100_0000_01b3);
        index += 1;
    }
    state
}

/// Differs when any size, offset or number above does.
pub const LAYOUT_HASH: u64 = hash(hash(0xcbf2_9ce4_8422_2325, PLACES), NUMBERS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_counts_and_so_does_its_place() {
        assert_ne!(hash(1, &[1, 2]), hash(1, &[2, 1]));
        for index in 0..PLACES.len() {
            let mut other = [0; 128];
            other[..PLACES.len()].copy_from_slice(PLACES);
            other[index] += 1;
            assert_ne!(hash(1, &other[..PLACES.len()]), hash(1, PLACES), "{index}");
        }
    }
}
