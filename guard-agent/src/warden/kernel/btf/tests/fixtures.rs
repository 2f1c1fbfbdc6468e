//! What five real kernels say, from 5.10 to 7.3: see `fixtures/README.md` for where they are from.

use super::{KERNELS, KernelTypes, kernel};

/// An offset on each of `KERNELS`.
type Offsets = [Option<u64>; 5];

const fn all(offset: u64) -> Offsets {
    [Some(offset); 5]
}

const fn each(a: u64, b: u64, c: u64, d: u64, e: u64) -> Offsets {
    [Some(a), Some(b), Some(c), Some(d), Some(e)]
}

const MEMBERS: &[(&str, &str, Offsets)] = &[
    ("file", "f_inode", each(32, 32, 40, 32, 32)),
    // In an unnamed union since 6.18.
    ("file", "f_path", each(16, 16, 64, 64, 64)),
    ("file", "f_flags", each(64, 64, 48, 40, 40)),
    ("file", "f_mode", each(68, 68, 12, 4, 4)),
    ("path", "mnt", all(0)),
    ("path", "dentry", all(8)),
    ("dentry", "d_parent", all(24)),
    ("dentry", "d_name", all(32)),
    ("dentry", "d_inode", all(48)),
    ("dentry", "d_sb", all(104)),
    // In an unnamed structure in an unnamed union.
    ("qstr", "len", all(4)),
    ("qstr", "name", all(8)),
    ("inode", "i_mode", all(0)),
    ("inode", "i_flags", each(12, 12, 12, 12, 4)),
    ("inode", "i_sb", all(40)),
    ("inode", "i_ino", all(64)),
    ("inode", "i_nlink", all(72)),
    ("inode", "i_generation", each(560, 592, 124, 124, 124)),
    ("super_block", "s_dev", all(16)),
    ("super_block", "s_flags", each(80, 80, 80, 80, 96)),
    ("super_block", "s_magic", each(96, 96, 96, 96, 112)),
    ("task_struct", "pid", each(2232, 2416, 2432, 2704, 2872)),
    ("task_struct", "tgid", each(2236, 2420, 2436, 2708, 2876)),
    ("task_struct", "real_cred", each(2712, 2952, 2952, 3224, 3384)),
    ("task_struct", "cred", each(2720, 2960, 2960, 3232, 3392)),
    ("task_struct", "fs", each(2800, 3040, 3040, 3312, 3480)),
    ("fs_struct", "pwd", all(40)),
    ("linux_binprm", "file", each(64, 64, 64, 64, 88)),
    ("linux_binprm", "filename", each(96, 96, 96, 96, 120)),
    ("linux_binprm", "interp", each(104, 104, 104, 104, 128)),
    ("vm_area_struct", "vm_file", each(160, 112, 128, 88, 88)),
    ("socket", "type", all(4)),
    ("socket", "sk", all(24)),
    ("socket", "ops", all(32)),
    ("sock", "__sk_common", all(0)),
    ("sock_common", "skc_family", all(16)),
    ("iattr", "ia_valid", all(0)),
    ("iattr", "ia_mode", all(4)),
    ("bpf_sock_addr_kern", "uaddr", all(8)),
    (
        "bpf_sock_addr_kern",
        "uaddrlen",
        [None, None, Some(32), Some(32), Some(32)],
    ),
];

/// What a function takes on each of `KERNELS`, as `written` gives it.
type Takes = [Option<&'static str>; 5];

/// The hooks that changed, and two functions that took an argument before their hook did.
const MOVED: &[(&str, Takes)] = &[
    (
        "bpf_lsm_inode_setattr",
        [
            Some("dentry: *dentry, attr: *iattr"),
            Some("dentry: *dentry, attr: *iattr"),
            Some(SETATTR),
            Some(SETATTR),
            Some(SETATTR),
        ],
    ),
    (
        "security_inode_setattr",
        [
            Some("dentry: *dentry, attr: *iattr"),
            Some("mnt_userns: *user_namespace, dentry: *dentry, attr: *iattr"),
            Some(SETATTR),
            Some(SETATTR),
            Some(SETATTR),
        ],
    ),
    (
        "bpf_lsm_inode_setxattr",
        [
            Some("dentry: *dentry, name: *char, value: *void, size: size_t, flags: int"),
            Some(
                "mnt_userns: *user_namespace, dentry: *dentry, name: *char, value: *void, size: size_t, flags: int",
            ),
            Some(SETXATTR),
            Some(SETXATTR),
            Some(SETXATTR),
        ],
    ),
    (
        "bpf_lsm_inode_removexattr",
        [
            Some("dentry: *dentry, name: *char"),
            Some("mnt_userns: *user_namespace, dentry: *dentry, name: *char"),
            Some(REMOVEXATTR),
            Some(REMOVEXATTR),
            Some(REMOVEXATTR),
        ],
    ),
    (
        "bpf_lsm_path_rename",
        [
            Some("old_dir: *path, old_dentry: *dentry, new_dir: *path, new_dentry: *dentry"),
            Some(RENAME),
            Some(RENAME),
            Some(RENAME),
            Some(RENAME),
        ],
    ),
    ("security_path_rename", [Some(RENAME); 5]),
    (
        "bpf_lsm_perf_event_open",
        [
            Some("attr: *perf_event_attr, type: int"),
            Some("attr: *perf_event_attr, type: int"),
            Some("type: int"),
            Some("type: int"),
            Some("type: int"),
        ],
    ),
    (
        "bpf_lsm_bpf",
        [
            Some("cmd: int, attr: *bpf_attr, size: unsigned int"),
            Some("cmd: int, attr: *bpf_attr, size: unsigned int"),
            Some("cmd: int, attr: *bpf_attr, size: unsigned int"),
            Some("cmd: int, attr: *bpf_attr, size: unsigned int, kernel: bool"),
            Some("cmd: int, attr: *bpf_attr, size: unsigned int, kernel: bool"),
        ],
    ),
    (
        "bpf_lsm_task_alloc",
        [
            Some("task: *task_struct, clone_flags: long unsigned int"),
            Some("task: *task_struct, clone_flags: long unsigned int"),
            Some("task: *task_struct, clone_flags: long unsigned int"),
            Some("task: *task_struct, clone_flags: u64"),
            Some("task: *task_struct, clone_flags: u64"),
        ],
    ),
    (
        "bpf_lsm_mmap_file",
        [
            Some(MMAP),
            Some(MMAP),
            Some(MMAP),
            Some(MMAP),
            Some(
                "file__nullable: *file, reqprot: long unsigned int, prot: long unsigned int, \
                 flags: long unsigned int",
            ),
        ],
    ),
    // Backported to 6.12, and not in this 6.18.
    (
        "bpf_lsm_mmap_backing_file",
        [None, None, Some(BACKING), None, Some(BACKING)],
    ),
    (
        "bpf_lsm_unix_find",
        [
            None,
            None,
            None,
            None,
            Some("path: *path, other: *sock, flags: int"),
        ],
    ),
    (
        "bpf_lsm_file_truncate",
        [
            None,
            None,
            Some("file: *file"),
            Some("file: *file"),
            Some("file: *file"),
        ],
    ),
    (
        "bpf_lsm_inode_set_acl",
        [None, None, Some(SET_ACL), Some(SET_ACL), Some(SET_ACL)],
    ),
    (
        "bpf_lsm_inode_file_setattr",
        [
            None,
            None,
            None,
            Some("dentry: *dentry, fa: *file_kattr"),
            Some("dentry: *dentry, fa: *file_kattr"),
        ],
    ),
    (
        "bpf_lsm_userns_create",
        [
            None,
            Some("cred: *cred"),
            Some("cred: *cred"),
            Some("cred: *cred"),
            Some("cred: *cred"),
        ],
    ),
    ("bpf_lsm_uring_allowed", [None, None, None, Some(""), Some("")]),
];

const SETATTR: &str = "idmap: *mnt_idmap, dentry: *dentry, attr: *iattr";
const SETXATTR: &str =
    "idmap: *mnt_idmap, dentry: *dentry, name: *char, value: *void, size: size_t, flags: int";
const REMOVEXATTR: &str = "idmap: *mnt_idmap, dentry: *dentry, name: *char";
const SET_ACL: &str = "idmap: *mnt_idmap, dentry: *dentry, acl_name: *char, kacl: *posix_acl";
const RENAME: &str =
    "old_dir: *path, old_dentry: *dentry, new_dir: *path, new_dentry: *dentry, flags: unsigned int";
const MMAP: &str =
    "file: *file, reqprot: long unsigned int, prot: long unsigned int, flags: long unsigned int";
const BACKING: &str = "vma: *vm_area_struct, backing_file: *file, user_file: *file";

/// The same on all five.
const STEADY: &[(&str, &str)] = &[
    ("bpf_lsm_file_open", "file: *file"),
    ("bpf_lsm_file_receive", "file: *file"),
    (
        "bpf_lsm_file_mprotect",
        "vma: *vm_area_struct, reqprot: long unsigned int, prot: long unsigned int",
    ),
    ("bpf_lsm_path_unlink", "dir: *path, dentry: *dentry"),
    (
        "bpf_lsm_path_mknod",
        "dir: *path, dentry: *dentry, mode: umode_t, dev: unsigned int",
    ),
    (
        "bpf_lsm_path_link",
        "old_dentry: *dentry, new_dir: *path, new_dentry: *dentry",
    ),
    ("bpf_lsm_path_chown", "path: *path, uid: kuid_t, gid: kgid_t"),
    ("bpf_lsm_inode_getattr", "path: *path"),
    ("bpf_lsm_inode_copy_up", "src: *dentry, new: **cred"),
    ("bpf_lsm_sb_umount", "mnt: *vfsmount, flags: int"),
    ("bpf_lsm_move_mount", "from_path: *path, to_path: *path"),
    (
        "bpf_lsm_task_kill",
        "p: *task_struct, info: *kernel_siginfo, sig: int, cred: *cred",
    ),
    (
        "bpf_lsm_socket_connect",
        "sock: *socket, address: *sockaddr, addrlen: int",
    ),
    (
        "bpf_lsm_unix_stream_connect",
        "sock: *sock, other: *sock, newsk: *sock",
    ),
    (
        "bpf_lsm_kernel_load_data",
        "id: kernel_load_data_id, contents: bool",
    ),
    // A typedef of a pointer to a structure.
    (
        "bpf_lsm_key_permission",
        "key_ref: *__key_reference_with_attributes, cred: *cred, need_perm: key_need_perm",
    ),
];

/// Each argument as `name: *kind`, with a star for each pointer.
fn written(types: &KernelTypes, function: &str) -> Option<String> {
    let arguments = types.arguments(function)?;
    let texts = arguments.iter().map(|argument| {
        let stars = "*".repeat(argument.pointers);
        format!("{}: {stars}{}", argument.name, argument.kind)
    });
    Some(texts.collect::<Vec<_>>().join(", "))
}

fn kernels() -> [KernelTypes; 5] {
    KERNELS.map(|(name, _)| kernel(name))
}

#[test]
fn members_are_where_each_kernel_has_them() {
    for (column, types) in kernels().iter().enumerate() {
        for (structure, member, offsets) in MEMBERS {
            assert_eq!(
                types.member_offset(structure, member),
                offsets[column],
                "{structure}.{member} on {}",
                KERNELS[column].0
            );
        }
    }
}

#[test]
fn hooks_take_what_each_kernel_gives_them() {
    for (column, types) in kernels().iter().enumerate() {
        let steady = STEADY.iter().map(|(function, takes)| (function, Some(*takes)));
        let moved = MOVED.iter().map(|(function, takes)| (function, takes[column]));
        for (function, takes) in steady.chain(moved) {
            let kernel = KERNELS[column].0;
            assert_eq!(
                written(types, function).as_deref(),
                takes,
                "{function} on {kernel}"
            );
            assert_eq!(
                types.function(function).is_some(),
                takes.is_some(),
                "{function} on {kernel}"
            );
        }
    }
}

#[test]
fn slots_follow_the_arguments() {
    let slots = |function: &str, structure: &str, nth: usize| {
        kernels().map(|types| types.slot(function, structure, nth))
    };
    assert_eq!(
        slots("bpf_lsm_inode_setattr", "dentry", 0),
        [Some(0), Some(0), Some(1), Some(1), Some(1)]
    );
    assert_eq!(
        slots("bpf_lsm_inode_setattr", "iattr", 0),
        [Some(1), Some(1), Some(2), Some(2), Some(2)]
    );
    for function in ["bpf_lsm_inode_setxattr", "bpf_lsm_inode_removexattr"] {
        assert_eq!(
            slots(function, "dentry", 0),
            [Some(0), Some(1), Some(1), Some(1), Some(1)]
        );
    }
    assert_eq!(slots("bpf_lsm_path_rename", "path", 0), [Some(0); 5]);
    assert_eq!(slots("bpf_lsm_path_rename", "dentry", 0), [Some(1); 5]);
    assert_eq!(slots("bpf_lsm_path_rename", "path", 1), [Some(2); 5]);
    assert_eq!(slots("bpf_lsm_path_rename", "dentry", 1), [Some(3); 5]);
    assert_eq!(slots("bpf_lsm_path_rename", "dentry", 2), [None; 5]);
    assert_eq!(slots("bpf_lsm_task_kill", "cred", 0), [Some(3); 5]);
    // A pointer to a pointer is no pointer to the structure, and a scalar is no structure.
    assert_eq!(slots("bpf_lsm_inode_copy_up", "cred", 0), [None; 5]);
    assert_eq!(slots("bpf_lsm_socket_listen", "int", 0), [None; 5]);
    assert_eq!(slots("bpf_lsm_no_such_hook", "file", 0), [None; 5]);
}

/// Otherwise a table filled from one fixture would do for the other.
#[test]
fn no_fixture_is_the_other() {
    let kernels = kernels();
    let answers = |types: &KernelTypes| -> Vec<Option<u64>> {
        MEMBERS
            .iter()
            .map(|(structure, member, _)| types.member_offset(structure, member))
            .collect()
    };
    for (index, one) in kernels.iter().enumerate() {
        for other in &kernels[index + 1..] {
            assert_ne!(answers(one), answers(other));
        }
    }
    let [_, old, _, _, new] = &kernels;
    for (structure, member) in [
        ("linux_binprm", "file"),
        ("super_block", "s_flags"),
        ("file", "f_path"),
        ("vm_area_struct", "vm_file"),
    ] {
        assert_ne!(
            old.member_offset(structure, member),
            new.member_offset(structure, member),
            "{structure}.{member}"
        );
    }
}

/// All that the offsets of today's programs are taken from.
#[test]
fn the_offsets_of_the_loader_are_in_every_fixture() {
    for (column, types) in kernels().iter().enumerate() {
        for (global, structure, member) in crate::warden::kernel::offsets::MEMBERS {
            let newer = member == "uaddrlen";
            assert_eq!(
                types.member_offset(structure, member).is_some(),
                !newer || column >= 2,
                "{global} on {}",
                KERNELS[column].0
            );
        }
    }
}
