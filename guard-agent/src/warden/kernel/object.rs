//! The committed eBPF object and its manifest, as `build.rs` checked and embedded them.

/// The object: aligned, because its instructions are read in place.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/guard.bpf.o"));

/// What it was built from and with, as JSON.
pub static MANIFEST: &str = include_str!("../../../ebpf/manifest.json");
