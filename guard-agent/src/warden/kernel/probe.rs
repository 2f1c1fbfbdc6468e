//! Cheap facts about this host's kernel, asked before anything is loaded.

use std::{io, path::Path};

use crate::sys::bpf;

const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Each fact is there, or says why it is not.
#[derive(Debug)]
pub struct Facts {
    /// The kernel describes its own types, which offsets are taken from.
    pub types: io::Result<()>,
    /// This process may make maps and load programs.
    pub bpf: io::Result<()>,
}

/// Asks the kernel. Changes nothing.
pub fn probe() -> Facts {
    Facts {
        types: readable(Path::new(KERNEL_TYPES)),
        bpf: bpf::may_create_maps(),
    }
}

pub(super) fn kernel_types() -> io::Result<Vec<u8>> {
    std::fs::read(KERNEL_TYPES)
}

fn readable(path: &Path) -> io::Result<()> {
    std::fs::File::open(path).map(drop)
}
