//! Fields of the kernel's structures, at offsets that the loader took from this kernel's own types and froze. The
//! verifier knows the type of each pointer and refuses an offset that leads to something else.

use aya_ebpf::{EbpfContext, Global};

/// Reads a field.
///
/// The offset is a constant to the verifier, and `structure` a pointer of a type that it knows.
#[inline(always)]
pub(crate) fn load<T: Copy>(structure: u64, offset: &Global<u64>) -> T {
    let at = (structure as *const u8)
        .wrapping_add(offset.load() as usize)
        .cast::<T>();
    // SAFETY: the verifier proves that the field is there and may be read, or the program does not load. Volatile, so
    // that it stays one load of this width.
    unsafe { at.read_volatile() }
}

/// An argument of the hook, or of the function that a program watches. Volatile, so that the load stays where it is: the verifier takes none from an address within
/// the context that was chosen before.
#[inline(always)]
pub(crate) fn argument<C: EbpfContext>(context: &C, slot: usize) -> u64 {
    let arguments = context.as_ptr().cast::<u64>();
    // SAFETY: the verifier proves that the hook has this argument, or the program does not load.
    unsafe { arguments.add(slot).read_volatile() }
}
