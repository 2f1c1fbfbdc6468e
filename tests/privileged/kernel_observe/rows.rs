//! Arguments with which each call of the table looks for a file that is not there.

use guard_common::syscalls::Call;

use guard_tests::arena::Arg;

pub(crate) const MISSING: &[u8] = b"/guard-observe-no-such-file";
pub(crate) const OTHER: &[u8] = b"/guard-observe-no-such-directory/name";
const AT_FDCWD: i64 = -100;

/// `struct mount_attr` that asks for read-only.
const MOUNT_ATTR: &[u8] = &{
    let mut attr = [0u8; 32];
    attr[0] = 1;
    attr
};

/// `None` for a call without a path.
pub(crate) fn arguments(call: &Call) -> Option<[Arg<'static>; 6]> {
    let mut args = [Arg::Number(0); 6];
    args[usize::from(call.path?)] = Arg::Text(MISSING);
    if let Some(second) = call.second {
        args[usize::from(second)] = Arg::Text(OTHER);
    }
    for directory in [call.dirfd, call.second_dirfd].into_iter().flatten() {
        args[usize::from(directory)] = Arg::Number(AT_FDCWD);
    }
    // Names of links are missing only where their directory is.
    if matches!(
        call.name,
        "creat" | "mkdir" | "mkdirat" | "mknod" | "mknodat" | "symlink" | "symlinkat"
    ) {
        args[usize::from(call.path?)] = Arg::Text(OTHER);
    }
    match call.name {
        "setxattr" | "lsetxattr" | "getxattr" | "lgetxattr" | "removexattr" | "lremovexattr" => {
            args[1] = Arg::Text(b"user.x");
        }
        "setxattrat" | "getxattrat" => {
            args[3] = Arg::Text(b"user.x");
            args[4] = Arg::Bytes(&[0; 16]);
            args[5] = Arg::Number(16);
        }
        // Room for the answer.
        "readlink" => args[2] = Arg::Number(1),
        "readlinkat" => args[3] = Arg::Number(1),
        "removexattrat" => args[3] = Arg::Text(b"user.x"),
        // `struct open_how`, `struct file_attr`.
        "openat2" | "file_getattr" | "file_setattr" => {
            args[2] = Arg::Bytes(&[0; 24]);
            args[3] = Arg::Number(24);
        }
        "mount_setattr" | "open_tree_attr" => {
            args[3] = Arg::Bytes(MOUNT_ATTR);
            args[4] = Arg::Number(32);
        }
        _ => {}
    }
    Some(args)
}
