//! The globals that tell the kernel half where this kernel keeps things, and whom it watches.

use guard_common::abi;

use super::{btf::KernelTypes, lsm::places::Places, probe};

/// Structure and member behind each global that is an offset.
pub(super) const MEMBERS: [(&str, &str, &str); 12] = [
    (abi::GLOBAL_UADDR_OFFSET, "bpf_sock_addr_kern", "uaddr"),
    (abi::GLOBAL_UADDRLEN_OFFSET, "bpf_sock_addr_kern", "uaddrlen"),
    (abi::GLOBAL_BPRM_FILE, "linux_binprm", "file"),
    (abi::GLOBAL_BPRM_FILENAME, "linux_binprm", "filename"),
    (abi::GLOBAL_BPRM_INTERP, "linux_binprm", "interp"),
    (abi::GLOBAL_FILE_INODE, "file", "f_inode"),
    (abi::GLOBAL_INODE_SB, "inode", "i_sb"),
    (abi::GLOBAL_INODE_INO, "inode", "i_ino"),
    (abi::GLOBAL_INODE_NLINK, "inode", "i_nlink"),
    (abi::GLOBAL_SB_DEV, "super_block", "s_dev"),
    (abi::GLOBAL_TASK_FS, "task_struct", "fs"),
    (abi::GLOBAL_FS_PWD, "fs_struct", "pwd"),
];

/// What the globals are set to.
pub(super) struct Offsets {
    /// Name and value. Only what records say depends on those that stand here, no verdict: what this kernel does not
    /// tell is [`abi::ABSENT`].
    pub(super) globals: Vec<(&'static str, u64)>,
    /// Those of tier T1.
    pub(super) lsm: Places,
}

/// Reads the running kernel's types, once.
pub(super) fn read() -> Offsets {
    let types = probe::kernel_types()
        .ok()
        .and_then(|data| KernelTypes::parse(&data));
    Offsets {
        globals: for_records(types.as_ref()),
        lsm: Places::of(types.as_ref()),
    }
}

fn for_records(types: Option<&KernelTypes>) -> Vec<(&'static str, u64)> {
    let offset = |structure, member| {
        types
            .and_then(|types| types.member_offset(structure, member))
            .unwrap_or(abi::ABSENT)
    };
    MEMBERS
        .into_iter()
        .map(|(global, structure, member)| (global, offset(structure, member)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_tells_all_of_them() {
        if probe::kernel_types().is_err() {
            return;
        }
        let Offsets { globals, lsm } = read();
        for (global, offset) in globals.into_iter().chain(lsm.globals) {
            assert_ne!(offset, abi::ABSENT, "{global}");
        }
    }
}
