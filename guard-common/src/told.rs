//! The hooks on which another security module may refuse before ours is asked, and the programs that tell of it. They
//! run at the end of the kernel's own function, `security_` and the hook's name, after all modules were asked.
//!
//! These are the hooks on which Landlock or Yama decides and that a sandbox gets to: of mounting, of asking to be traced
//! and of calls of 32 bits the system call filter lets nothing through, and it tells by itself. On all other hooks ours
//! is the only one to refuse, but for modules that an administrator confines our servers with (AppArmor, SELinux): what
//! those refuse there ends a call, and the end of the call is told.
//!
//! A program more costs nothing while nothing is refused, and some milliseconds when the warden starts.

use crate::hooks::{self, EACCES, EPERM, Hook};

/// One such hook and its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    pub hook: &'static Hook,
    /// The program's name: `told_` and the hook's.
    pub program: &'static str,
    /// The kernel's function it watches.
    pub function: &'static str,
    /// How many arguments that has: what it returned stands behind them. Those that the program reads are the hook's.
    pub arguments: usize,
    /// The version of Landlock's interface from which on it decides here.
    pub landlock: u32,
    /// It decides here where a sandbox has scopes, about who is outside.
    pub scope: bool,
    /// What a caller sees that it refuses, positive.
    pub errnos: &'static [u16],
    /// Others that decide here in every kernel that has them, by their names in the kernel's list.
    pub others: &'static [&'static str],
}

/// What Landlock answers where a file would come to where more may be done with it.
pub const EXDEV: u16 = 18;

/// Modules that decide on every hook for everybody, where they are.
pub const CONFINING: [&str; 2] = ["selinux", "smack"];

const NOBODY: &[&str] = &[];
const TRACING: &[&str] = &["capability", "yama"];

macro_rules! told {
    ($($constant:ident $hook:ident $name:literal, $arguments:literal, $landlock:literal, $scope:literal, [$($errno:ident),+], $others:expr;)+) => {
        $(pub const $constant: Told = Told {
            hook: &hooks::$hook,
            program: concat!("told_", $name),
            function: concat!("security_", $name),
            arguments: $arguments,
            landlock: $landlock,
            scope: $scope,
            errnos: &[$($errno),+],
            others: $others,
        };)+

        /// All of them, in the order of the hooks' numbers.
        pub const TOLD: &[Told] = &[$($constant),+];
    };
}

told! {
    TOLD_FILE_OPEN FILE_OPEN "file_open", 1, 1, false, [EACCES], NOBODY;
    TOLD_FILE_IOCTL FILE_IOCTL "file_ioctl", 3, 5, false, [EACCES], NOBODY;
    TOLD_FILE_TRUNCATE FILE_TRUNCATE "file_truncate", 1, 3, false, [EACCES], NOBODY;
    TOLD_PATH_TRUNCATE PATH_TRUNCATE "path_truncate", 1, 3, false, [EACCES], NOBODY;
    TOLD_PATH_MKDIR PATH_MKDIR "path_mkdir", 3, 1, false, [EACCES], NOBODY;
    TOLD_PATH_MKNOD PATH_MKNOD "path_mknod", 4, 1, false, [EACCES], NOBODY;
    TOLD_PATH_RMDIR PATH_RMDIR "path_rmdir", 2, 1, false, [EACCES], NOBODY;
    TOLD_PATH_UNLINK PATH_UNLINK "path_unlink", 2, 1, false, [EACCES], NOBODY;
    TOLD_PATH_SYMLINK PATH_SYMLINK "path_symlink", 3, 1, false, [EACCES], NOBODY;
    TOLD_PATH_LINK PATH_LINK "path_link", 3, 1, false, [EACCES, EXDEV], NOBODY;
    TOLD_PATH_RENAME PATH_RENAME "path_rename", 5, 1, false, [EACCES, EXDEV], NOBODY;
    TOLD_UNIX_STREAM_CONNECT UNIX_STREAM_CONNECT "unix_stream_connect", 3, 6, true, [EPERM], NOBODY;
    TOLD_UNIX_MAY_SEND UNIX_MAY_SEND "unix_may_send", 2, 6, true, [EPERM], NOBODY;
    TOLD_PTRACE_ACCESS_CHECK PTRACE_ACCESS_CHECK "ptrace_access_check", 2, 1, false, [EPERM], TRACING;
    TOLD_TASK_KILL TASK_KILL "task_kill", 4, 6, true, [EPERM], NOBODY;
}

/// How a hook's refusals by others are told, if they are.
pub fn told(hook: &Hook) -> Option<&'static Told> {
    TOLD.iter().find(|told| told.hook.id == hook.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_names_of_its_hook_and_stands_once() {
        for (index, one) in TOLD.iter().enumerate() {
            assert_eq!(one.program.strip_prefix("told_"), Some(one.hook.name));
            assert_eq!(one.function.strip_prefix("security_"), Some(one.hook.name));
            assert_eq!(told(one.hook), Some(one));
            assert!(TOLD[index + 1..].iter().all(|later| later.hook.id > one.hook.id));
        }
        assert_eq!(told(&hooks::MMAP_FILE), None);
    }
}
