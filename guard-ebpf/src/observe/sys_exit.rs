//! The end of a system call: what failed for want of a right or a file, and opens that did not fail.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::generated::{bpf_get_current_pid_tgid, bpf_get_current_task_btf, bpf_probe_read_user},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use guard_common::{
    abi::{CALL_ALLOWED, CallSpec, NO_ARGUMENT},
    record::{
        ADDRESS_BYTES, ADDRESS_GIVEN, CallRecord, PATH_BYTES, PATH_UNREADABLE, PathsRecord, SECOND_GIVEN,
    },
};

use super::{
    registers::{self, Call},
    text::{self, Copied, NOTHING},
};
use crate::{
    maps::{ANSWERED, CALLS, LABELS},
    ring::emit,
    scope,
};

/// `SECOND_` flags are the `PATH_` ones, shifted by this.
const SECOND_SHIFT: u32 = SECOND_GIVEN.trailing_zeros();

#[raw_tracepoint(tracepoint = "sys_exit")]
pub(crate) fn sys_exit(context: RawTracePointContext) -> i32 {
    if let Some(sandbox) = scope::observed() {
        observe(&sandbox, context.arg(0), context.arg(1));
    }
    0
}

#[inline(always)]
fn observe(sandbox: &scope::Sandbox, registers: u64, result: i64) {
    let errno = if result < 0 {
        result.wrapping_neg() as u64
    } else {
        0
    };
    if errno >= 128 {
        return;
    }
    let Some(call) = registers::call(registers) else {
        return;
    };
    let Some(spec) = CALLS.get_ptr(call.nr) else {
        return;
    };
    // SAFETY: `spec` points at a live map value of this type that nobody writes once programs are attached.
    let spec = unsafe { spec.read_volatile() };
    // A call can end well although a hook was refused on its way: that it did is news.
    let told = told() && errno != 0;
    if !reported(&spec, errno) || told || answered(call.nr, errno) {
        return;
    }
    let allowed = errno == 0;
    if spec.second == NO_ARGUMENT {
        emit::<CallRecord>(sandbox, allowed, |record| {
            fill(record, &call, &spec, errno, result)
        });
    } else {
        emit::<PathsRecord>(sandbox, allowed, |record| {
            // SAFETY: `record` is a ring reservation of this type that is not submitted yet.
            unsafe {
                let first = &raw mut (*record).call;
                fill(first, &call, &spec, errno, result);
                let into = (&raw mut (*record).second).cast::<u8>();
                let second = text::user::<PATH_BYTES>(into, call.argument(spec.second));
                (&raw mut (*first).second_len).write_volatile(second.length);
                let flags = (&raw const (*first).flags).read_volatile();
                (&raw mut (*first).flags).write_volatile(flags | (second.flags << SECOND_SHIFT));
            }
        });
    }
}

/// Whether a call with this end is reported.
#[inline(always)]
fn reported(spec: &CallSpec, errno: u64) -> bool {
    if errno == 0 {
        return spec.flags & CALL_ALLOWED != 0;
    }
    let [low, high] = spec.errnos;
    let word = if errno < 64 { low } else { high };
    word >> (errno & 63) & 1 != 0
}

/// Whether a refusal on a security hook was reported within this call; it is forgotten either way.
#[inline(always)]
fn told() -> bool {
    // SAFETY: the helper takes nothing.
    let label = LABELS.of(unsafe { bpf_get_current_task_btf() as u64 });
    if label.is_null() {
        return false;
    }
    // SAFETY: a live value of this type; only its own task writes this field.
    unsafe {
        let field = &raw mut (*label).told;
        let told = field.read_volatile() != 0;
        field.write_volatile(0);
        told
    }
}

/// Whether the warden has recorded this refusal before it answered with it; it is forgotten either way.
#[inline(always)]
fn answered(nr: u32, errno: u64) -> bool {
    // SAFETY: the helper takes no memory of ours.
    let tid = unsafe { bpf_get_current_pid_tgid() } as u32;
    let Some(answer) = ANSWERED.get_ptr(&tid) else {
        return false;
    };
    // SAFETY: `answer` points at a map value of this type. Were it evicted and used again meanwhile, the
    // integers would be another thread's, and each is compared.
    let (known_nr, known_errno) = unsafe {
        (
            (&raw const (*answer).nr).read_volatile(),
            (&raw const (*answer).errno).read_volatile(),
        )
    };
    let _ = ANSWERED.remove(&tid);
    known_nr == nr && u64::from(known_errno) == errno
}

/// All of the record but its head.
#[inline(always)]
fn fill(record: *mut CallRecord, call: &Call, spec: &CallSpec, errno: u64, result: i64) {
    // SAFETY: `record` is (the beginning of) a ring reservation that is not submitted yet, so nobody else
    // reads or writes it.
    unsafe {
        (&raw mut (*record).nr).write_volatile(call.nr);
        (&raw mut (*record).errno).write_volatile(errno as u16);
        (&raw mut (*record).result).write_volatile(result);
        let args = (&raw mut (*record).args).cast::<u64>();
        let [a, b, c, d, e, f] = call.args;
        args.write_volatile(a);
        args.add(1).write_volatile(b);
        args.add(2).write_volatile(c);
        args.add(3).write_volatile(d);
        args.add(4).write_volatile(e);
        args.add(5).write_volatile(f);
        (&raw mut (*record).second_len).write_volatile(0);
        (&raw mut (*record).reserved).write_volatile(0);
        let into = (&raw mut (*record).path).cast::<u8>();
        let copied = if spec.path != NO_ARGUMENT {
            text::user::<PATH_BYTES>(into, call.argument(spec.path))
        } else if spec.address != NO_ARGUMENT {
            address(
                into,
                call.argument(spec.address),
                call.argument(spec.address_length),
            )
        } else {
            NOTHING
        };
        (&raw mut (*record).path_len).write_volatile(copied.length);
        (&raw mut (*record).flags).write_volatile(copied.flags);
    }
}

/// Copies a socket address, as much of it as the caller says there is.
///
/// # Safety
/// `into` must be valid for [`ADDRESS_BYTES`] bytes and belong to nobody else.
#[inline(always)]
unsafe fn address(into: *mut u8, from: u64, length: u64) -> Copied {
    // The kernel takes an `int`.
    let given = length & 0xffff_ffff;
    if from == 0 || given == 0 {
        return NOTHING;
    }
    let kept = if given > ADDRESS_BYTES as u64 {
        ADDRESS_BYTES as u64
    } else {
        given
    };
    // SAFETY: the destination has room for as much (the caller's promise); the helper checks the source.
    let failed = unsafe { bpf_probe_read_user(into.cast(), kept as u32, from as *const c_void) };
    if failed != 0 {
        return Copied {
            length: 0,
            flags: ADDRESS_GIVEN | PATH_UNREADABLE,
        };
    }
    Copied {
        length: kept as u16,
        flags: ADDRESS_GIVEN,
    }
}
