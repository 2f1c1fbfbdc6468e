//! The programs that run in the kernel: some deny by themselves and report what they denied, some only look.
#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "atomic adds: the target's standard library has none"
)]

mod emit;
mod lsm;
mod maps;
mod measured;
mod net;
mod observe;
mod ring;
mod scope;
mod stamp;
mod storage;
mod told;

/// Required by the language; no path to it may survive, or the object does not load.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The kernel reads this section to decide which helpers the programs may call.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
