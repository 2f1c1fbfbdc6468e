//! A program that was executed: what was named, and the inode that was really run.

use core::ffi::c_void;

use aya_ebpf::{
    Global, helpers::generated::bpf_probe_read_kernel, macros::raw_tracepoint, programs::RawTracePointContext,
};
use guard_common::{
    abi::ABSENT,
    record::{
        DEVICE_KNOWN, ExecRecord, INODE_KNOWN, INTERPRETER_BYTES, LINKS_KNOWN, PATH_BYTES, PATH_GIVEN,
        PATH_UNREADABLE, SECOND_GIVEN,
    },
};

use super::text::{self, Copied, NOTHING};
use crate::{
    maps::{BPRM_FILE, BPRM_FILENAME, BPRM_INTERP, FILE_INODE, INODE_INO, INODE_NLINK, INODE_SB, SB_DEV},
    ring::emit,
    scope,
};

/// `SECOND_` flags are the `PATH_` ones, shifted by this.
const SECOND_SHIFT: u32 = SECOND_GIVEN.trailing_zeros();

#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub(crate) fn sched_process_exec(context: RawTracePointContext) -> i32 {
    if let Some(sandbox) = scope::observed() {
        let bprm: u64 = context.arg(2);
        emit::<ExecRecord>(&sandbox, true, |record| fill(record, bprm));
    }
    0
}

/// All of the record but its head.
#[inline(always)]
fn fill(record: *mut ExecRecord, bprm: u64) {
    let filename = member::<u64>(bprm, &BPRM_FILENAME);
    let interpreter = member::<u64>(bprm, &BPRM_INTERP);
    let inode = member::<u64>(bprm, &BPRM_FILE).and_then(|file| member::<u64>(file, &FILE_INODE));
    let ino = inode.and_then(|inode| member::<u64>(inode, &INODE_INO));
    let nlink = inode.and_then(|inode| member::<u32>(inode, &INODE_NLINK));
    let dev = inode
        .and_then(|inode| member::<u64>(inode, &INODE_SB))
        .and_then(|block| member::<u32>(block, &SB_DEV));
    let mut flags = 0;
    if ino.is_some() {
        flags |= INODE_KNOWN;
    }
    if nlink.is_some() {
        flags |= LINKS_KNOWN;
    }
    if dev.is_some() {
        flags |= DEVICE_KNOWN;
    }
    // SAFETY: `record` is a ring reservation of this type that is not submitted yet, so nobody else reads
    // or writes it; the texts have the sizes given.
    unsafe {
        (&raw mut (*record).dev).write_volatile(u64::from(dev.unwrap_or(0)));
        (&raw mut (*record).ino).write_volatile(ino.unwrap_or(0));
        (&raw mut (*record).nlink).write_volatile(nlink.unwrap_or(0));
        let path = match filename {
            Some(from) => text::kernel::<PATH_BYTES>((&raw mut (*record).filename).cast(), from),
            None => Copied {
                length: 0,
                flags: PATH_GIVEN | PATH_UNREADABLE,
            },
        };
        // The kernel starts with one string for both, and replaces the second when a script names a program.
        let program = match interpreter {
            Some(from) if interpreter != filename => {
                text::kernel::<INTERPRETER_BYTES>((&raw mut (*record).interpreter).cast(), from)
            }
            _ => NOTHING,
        };
        (&raw mut (*record).filename_len).write_volatile(path.length);
        (&raw mut (*record).interpreter_len).write_volatile(program.length);
        (&raw mut (*record).flags).write_volatile(flags | path.flags | (program.flags << SECOND_SHIFT));
        let reserved = (&raw mut (*record).reserved).cast::<u16>();
        reserved.write_volatile(0);
        reserved.add(1).write_volatile(0);
        reserved.add(2).write_volatile(0);
    }
}

/// A member of one of the kernel's structures; none where this kernel does not say where it is.
#[inline(always)]
fn member<T: Copy + Default>(structure: u64, offset: &Global<u64>) -> Option<T> {
    let offset = offset.load();
    if offset == ABSENT || structure == 0 {
        return None;
    }
    let mut value = T::default();
    let from = (structure as *const u8)
        .wrapping_add(offset as usize)
        .cast::<c_void>();
    // SAFETY: the destination is a local of the given size, an integer; the helper checks the source and
    // fails instead of faulting.
    let failed = unsafe { bpf_probe_read_kernel((&raw mut value).cast(), size_of::<T>() as u32, from) };
    if failed != 0 {
        return None;
    }
    Some(value)
}
