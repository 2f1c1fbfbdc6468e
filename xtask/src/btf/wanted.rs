//! What a fixture has to have: the hooks, and the members of structures, that the kernel half could ask for.

/// Names behind `bpf_lsm_`. Which of them a kernel has depends on its version.
pub(super) const HOOKS: &[&str] = &[
    "file_open",
    "file_post_open",
    "file_receive",
    "file_ioctl",
    "file_fcntl",
    "file_ioctl_compat",
    "file_mprotect",
    "file_truncate",
    "mmap_file",
    "mmap_backing_file",
    "path_truncate",
    "path_chmod",
    "path_chown",
    "path_mkdir",
    "path_rmdir",
    "path_mknod",
    "path_symlink",
    "path_unlink",
    "path_link",
    "path_rename",
    "path_chroot",
    "path_notify",
    "inode_getattr",
    "inode_setattr",
    "inode_setxattr",
    "inode_removexattr",
    "inode_set_acl",
    "inode_remove_acl",
    "inode_file_setattr",
    "inode_copy_up",
    "inode_init_security_anon",
    "sb_mount",
    "sb_umount",
    "sb_remount",
    "sb_pivotroot",
    "sb_kern_mount",
    "move_mount",
    "bprm_check_security",
    "bprm_creds_for_exec",
    "bprm_creds_from_file",
    "task_alloc",
    "task_kill",
    "task_prlimit",
    "task_setscheduler",
    "ptrace_access_check",
    "ptrace_traceme",
    "userns_create",
    "capable",
    "capset",
    "socket_create",
    "socket_post_create",
    "socket_socketpair",
    "socket_connect",
    "socket_bind",
    "socket_listen",
    "socket_sendmsg",
    "sk_alloc_security",
    "unix_stream_connect",
    "unix_may_send",
    "unix_find",
    "bpf",
    "bpf_map",
    "bpf_prog",
    "perf_event_open",
    "uring_override_creds",
    "uring_sqpoll",
    "uring_cmd",
    "uring_allowed",
    "kernel_module_request",
    "kernel_read_file",
    "kernel_load_data",
    "syslog",
    "settime",
    "quotactl",
    "key_alloc",
    "key_permission",
];

/// Hooks that the function calling them is not named after: hook, what stands behind `security_`.
const CALLED: &[(&str, &str)] = &[
    ("bprm_check_security", "bprm_check"),
    ("sk_alloc_security", "sk_alloc"),
    ("settime", "settime64"),
    ("userns_create", "create_user_ns"),
];

/// Structures, and their members; structures that stand in a member of theirs have their own line.
pub(super) const MEMBERS: &[(&str, &[&str])] = &[
    ("file", &["f_inode", "f_path", "f_flags", "f_mode"]),
    ("path", &["mnt", "dentry"]),
    ("dentry", &["d_parent", "d_inode", "d_sb", "d_name"]),
    ("qstr", &["name", "len"]),
    (
        "inode",
        &["i_sb", "i_ino", "i_mode", "i_nlink", "i_generation", "i_flags"],
    ),
    ("super_block", &["s_dev", "s_flags", "s_magic"]),
    ("task_struct", &["cred", "real_cred", "pid", "tgid", "fs"]),
    ("fs_struct", &["pwd"]),
    ("linux_binprm", &["file", "filename", "interp"]),
    ("vm_area_struct", &["vm_file"]),
    ("socket", &["sk", "type", "ops"]),
    ("sock", &["__sk_common"]),
    ("sock_common", &["skc_family"]),
    ("iattr", &["ia_valid", "ia_mode"]),
    // What the network programs are given, seen from the kernel's side.
    ("bpf_sock_addr_kern", &["uaddr", "uaddrlen"]),
];

/// The functions of a hook: what a program attaches to, and what calls it.
pub(super) fn functions(hook: &str) -> [String; 2] {
    let called = CALLED
        .iter()
        .find(|(name, _)| *name == hook)
        .map_or(hook, |(_, called)| called);
    [format!("bpf_lsm_{hook}"), format!("security_{called}")]
}

/// The wanted members of a structure; none of one that is not listed.
pub(super) fn members(structure: &str) -> &'static [&'static str] {
    MEMBERS
        .iter()
        .find(|(name, _)| *name == structure)
        .map_or(&[], |(_, members)| members)
}
