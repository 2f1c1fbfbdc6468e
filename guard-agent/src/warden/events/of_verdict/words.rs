//! What a record calls what a hook refused: by the call it belongs to, so that one question finds what was refused by
//! whichever layer.

use std::collections::BTreeMap;

use guard_common::hooks::{self, EXECUTE, Hook, MAP, READ, WRITE};

use crate::{audit::Field, confine::seccomp};

/// The operation of a record, by the hook's name. Where a hook stands for several calls the one that is meant most.
const OPERATIONS: [(&str, &str); 59] = [
    ("file_open", "open"),
    ("mmap_file", "mmap"),
    ("file_mprotect", "mprotect"),
    ("file_receive", "recvmsg"),
    ("file_ioctl", "ioctl"),
    ("file_truncate", "ftruncate"),
    ("path_truncate", "truncate"),
    ("path_chmod", "chmod"),
    ("path_chown", "chown"),
    ("path_mkdir", "mkdir"),
    ("path_mknod", "mknod"),
    ("path_rmdir", "rmdir"),
    ("path_unlink", "unlink"),
    ("path_symlink", "symlink"),
    ("path_link", "link"),
    ("path_rename", "rename"),
    ("path_chroot", "chroot"),
    ("path_notify", "inotify_add_watch"),
    ("inode_setattr", "utimensat"),
    ("inode_setxattr", "setxattr"),
    ("inode_removexattr", "removexattr"),
    ("inode_set_acl", "setxattr"),
    ("inode_remove_acl", "removexattr"),
    ("inode_file_setattr", "file_setattr"),
    ("sb_mount", "mount"),
    ("sb_umount", "umount2"),
    ("sb_remount", "mount"),
    ("sb_pivotroot", "pivot_root"),
    ("move_mount", "move_mount"),
    ("userns_create", "unshare"),
    ("socket_create", "socket"),
    ("socket_post_create", "socket"),
    ("socket_listen", "listen"),
    ("unix_stream_connect", "connect"),
    ("unix_may_send", "sendmsg"),
    ("ptrace_access_check", "ptrace"),
    ("ptrace_traceme", "ptrace"),
    ("task_kill", "kill"),
    ("task_alloc", "clone"),
    ("bpf", "bpf"),
    ("bpf_map", "bpf"),
    ("bpf_prog", "bpf"),
    ("perf_event_open", "perf_event_open"),
    ("uring_override_creds", "io_uring_enter"),
    ("uring_sqpoll", "io_uring_setup"),
    ("uring_cmd", "io_uring_enter"),
    ("uring_allowed", "io_uring_setup"),
    ("kernel_module_request", "init_module"),
    ("kernel_read_file", "finit_module"),
    ("kernel_load_data", "init_module"),
    ("syslog", "syslog"),
    ("settime", "clock_settime"),
    ("quotactl", "quotactl"),
    ("key_alloc", "add_key"),
    ("key_permission", "keyctl"),
    ("inode_getattr", "stat"),
    ("inode_init_security_anon", "io_uring_setup"),
    ("file_ioctl_compat", "ioctl"),
    ("file_fcntl", "fcntl"),
];

/// What a hook's refusal is called in records.
pub(super) fn operation(hook: &Hook, needs: u32) -> &'static str {
    if hook.id == hooks::FILE_OPEN.id && needs & EXECUTE != 0 {
        return "exec";
    }
    OPERATIONS
        .iter()
        .find(|(name, _)| *name == hook.name)
        .map_or("unknown", |(_, operation)| operation)
}

/// `r`, `w`, `x`, or all of these that are there.
pub(super) fn rights(bits: u32) -> Option<String> {
    // Mapping as code comes with `x`, and with the libraries of a runtime.
    let all = [(READ, 'r'), (WRITE, 'w'), (EXECUTE | MAP, 'x')];
    let text: String = all
        .into_iter()
        .filter_map(|(bit, letter)| (bits & bit != 0).then_some(letter))
        .collect();
    (!text.is_empty()).then_some(text)
}

/// The family of a socket, of the hooks that look at one.
pub(super) fn family(hook: &Hook, detail: u64) -> Option<String> {
    [hooks::SOCKET_CREATE.id, hooks::SOCKET_LISTEN.id]
        .contains(&hook.id)
        .then(|| seccomp::family((detail >> 32) as u32))
}

/// What there is to say beside the path: which hook it was, the rights that were there, and what the hook has told.
pub(super) fn details(hook: &Hook, found: u32, detail: u64) -> BTreeMap<String, Field> {
    let text = |text: String| Field::Text(text.into());
    let mut fields = BTreeMap::from([("hook".to_owned(), text(hook.name.to_owned()))]);
    let mut tell = |name: &str, value: String| {
        fields.insert(name.to_owned(), text(value));
    };
    if let Some(found) = rights(found) {
        tell("has", found);
    }
    let low = detail as u32;
    match hook.name {
        "file_ioctl" | "file_ioctl_compat" if low != 0 => tell("request", seccomp::request(low)),
        "socket_create" => tell("type", seccomp::socket_type(low)),
        "path_chmod" | "path_mkdir" | "path_mknod" | "inode_setattr" if low != 0 => {
            tell("mode", seccomp::octal(low));
            if let Some(kind) = device(low) {
                tell("kind", kind.to_owned());
            }
        }
        _ => {}
    }
    fields
}

fn device(mode: u32) -> Option<&'static str> {
    match mode & libc::S_IFMT {
        libc::S_IFCHR => Some("character-device"),
        libc::S_IFBLK => Some("block-device"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use guard_common::hooks::HOOKS;

    use super::*;
    use crate::audit::Op;

    #[test]
    fn every_hook_has_an_operation_that_can_be_asked_for() {
        let names: Vec<&str> = HOOKS.iter().map(|hook| hook.name).collect();
        assert_eq!(OPERATIONS.map(|(name, _)| name).as_slice(), names);
        for hook in HOOKS {
            let op = operation(hook, 0);
            assert!(op.parse::<Op>().is_ok(), "{}: {op}", hook.name);
        }
    }

    #[test]
    fn opening_to_execute_is_called_so() {
        assert_eq!(operation(&hooks::FILE_OPEN, READ | WRITE), "open");
        assert_eq!(operation(&hooks::FILE_OPEN, READ | EXECUTE), "exec");
        assert_eq!(operation(&hooks::MMAP_FILE, MAP), "mmap");
    }

    #[test]
    fn rights_are_spelled_as_roots_have_them() {
        let all: Vec<Option<String>> = (0..8).map(rights).collect();
        let all: Vec<Option<&str>> = all.iter().map(Option::as_deref).collect();
        assert_eq!(
            all,
            [
                None,
                Some("r"),
                Some("w"),
                Some("rw"),
                Some("x"),
                Some("rx"),
                Some("wx"),
                Some("rwx")
            ]
        );
        // What no right has a letter for.
        assert_eq!(rights(16), None);
    }

    #[test]
    fn numbers_are_told_in_words() {
        let told = |hook: &Hook, found, detail| {
            let all = details(hook, found, detail);
            serde_json::to_string(&all).unwrap()
        };
        for (hook, found, detail, wanted) in [
            (&hooks::FILE_OPEN, 0, 0, r#"{"hook":"file_open"}"#),
            (&hooks::FILE_OPEN, 3, 0, r#"{"has":"rw","hook":"file_open"}"#),
            (
                &hooks::FILE_IOCTL,
                0,
                0x5412,
                r#"{"hook":"file_ioctl","request":"TIOCSTI"}"#,
            ),
            (
                &hooks::SOCKET_CREATE,
                0,
                (17 << 32) | 3,
                r#"{"hook":"socket_create","type":"SOCK_RAW"}"#,
            ),
            (
                &hooks::PATH_CHMOD,
                0,
                0o4755,
                r#"{"hook":"path_chmod","mode":"0o4755"}"#,
            ),
            (
                &hooks::PATH_MKNOD,
                0,
                0o020_644,
                r#"{"hook":"path_mknod","kind":"character-device","mode":"0o20644"}"#,
            ),
            (
                &hooks::PATH_MKNOD,
                0,
                0o060_600,
                r#"{"hook":"path_mknod","kind":"block-device","mode":"0o60600"}"#,
            ),
            (&hooks::TASK_KILL, 0, 9, r#"{"hook":"task_kill"}"#),
        ] {
            assert_eq!(told(hook, found, detail), wanted);
        }
        assert_eq!(
            family(&hooks::SOCKET_CREATE, (40 << 32) | 1).as_deref(),
            Some("AF_VSOCK")
        );
        assert_eq!(family(&hooks::SOCKET_LISTEN, 2 << 32).as_deref(), Some("AF_INET"));
        assert_eq!(family(&hooks::FILE_OPEN, 2 << 32), None);
    }
}
