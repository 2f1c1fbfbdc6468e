//! The globals that tell the kernel half where this kernel keeps things, and whom it watches.

use guard_common::abi;

use super::{btf::KernelTypes, probe};

/// Structure and member behind each global that is an offset.
pub(super) const MEMBERS: [(&str, &str, &str); 10] = [
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
];

/// Name and value of every offset. Only what records say depends on these, no verdict: what this kernel
/// does not tell is left out.
pub(super) fn read() -> Vec<(&'static str, u64)> {
    let types = probe::kernel_types()
        .ok()
        .and_then(|data| KernelTypes::parse(&data));
    let offset = |structure, member| {
        types
            .as_ref()
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
        for (global, offset) in read() {
            assert_ne!(offset, abi::ABSENT, "{global}");
        }
    }
}
