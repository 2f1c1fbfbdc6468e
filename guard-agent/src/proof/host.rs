//! Why this machine does not offer a layer, and what to change: words for what the kernel answered.

use std::{fmt, fs, io};

use super::verdict::Why;
use crate::{confine::landlock::Absence, warden::kernel::locked_down};

const LSM_LIST: &str = "/sys/kernel/security/lsm";

/// What a container's seccomp profile must leave to us.
pub(super) const LISTENER: &str = "the process that started this one must not listen to its refusals (look at the container's seccomp profile)";

/// The security modules the kernel says it runs. A list, not evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LsmList {
    Seen(Vec<String>),
    Hidden(String),
}

impl LsmList {
    pub fn read() -> Self {
        match fs::read_to_string(LSM_LIST) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::Hidden("securityfs is not mounted at `/sys/kernel/security`".to_owned())
            }
            Err(error) => Self::Hidden(format!("`{LSM_LIST}`: {error}")),
        }
    }

    pub fn parse(text: &str) -> Self {
        Self::Seen(text.trim().split(',').map(str::to_owned).collect())
    }

    /// `None`: it cannot be seen.
    pub fn names(&self, module: &str) -> Option<bool> {
        match self {
            Self::Seen(names) => Some(names.iter().any(|name| name == module)),
            Self::Hidden(_) => None,
        }
    }
}

impl fmt::Display for LsmList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seen(names) => write!(f, "the kernel's lsm list is `{}`", names.join(",")),
            Self::Hidden(why) => write!(f, "the kernel's lsm list cannot be seen: {why}"),
        }
    }
}

fn why(why: impl Into<String>, change: impl Into<String>) -> Why {
    Why {
        why: why.into(),
        change: Some(change.into()),
    }
}

/// Whether a seccomp filter of somebody else is around this process.
fn filtered() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
    })
}

pub(super) fn without_landlock(absence: Absence) -> Why {
    landlock_absence(absence, &LsmList::read(), filtered())
}

const LANDLOCK_CALLS: &str = "allow `landlock_create_ruleset`, `landlock_add_rule` and `landlock_restrict_self` in the seccomp filter around this process (the container's profile)";

fn landlock_absence(absence: Absence, list: &LsmList, filtered: bool) -> Why {
    match absence {
        Absence::NotEnabled => why(
            format!("Landlock is not enabled: {list}"),
            "add `landlock` to `lsm=` on the kernel's command line and boot again",
        ),
        Absence::NotBuilt if list.names("landlock") == Some(true) => why(
            "the kernel has Landlock and a seccomp filter around this process answers ENOSYS for it",
            LANDLOCK_CALLS,
        ),
        Absence::NotBuilt if filtered => why(
            format!(
                "the Landlock calls answer ENOSYS: the kernel was built without it, or the seccomp filter around this process answers for it ({list})"
            ),
            format!("{LANDLOCK_CALLS}, or boot a kernel of 5.13 or later with `CONFIG_SECURITY_LANDLOCK`"),
        ),
        Absence::NotBuilt => why(
            "the kernel was built without Landlock (older than 5.13, or `CONFIG_SECURITY_LANDLOCK` off)",
            "boot a kernel of 5.13 or later with `CONFIG_SECURITY_LANDLOCK`, and `landlock` in `lsm=`",
        ),
        Absence::Refused(errno) => why(
            format!(
                "the Landlock calls are refused: {}",
                io::Error::from_raw_os_error(errno)
            ),
            LANDLOCK_CALLS,
        ),
    }
}

pub(super) fn without_scopes() -> Why {
    why(
        "signal and abstract socket scopes need Landlock ABI 6",
        "boot a kernel of 6.12 or later",
    )
}

pub(super) fn without_tcp() -> Why {
    why(
        "refusing TCP needs Landlock ABI 4",
        "boot a kernel of 6.7 or later",
    )
}

pub(super) fn without_unix_hooks(missing: &str) -> Why {
    why(
        format!("{missing}; seccomp refuses to make unix sockets instead"),
        if locked_down(missing) {
            UNLOCK
        } else {
            "boot a kernel of 6.7 or later"
        },
    )
}

/// The kernel does not take the programs that observe.
pub(super) fn without_observation(missing: &str) -> Why {
    why(
        missing,
        if locked_down(missing) {
            UNLOCK
        } else {
            "use a kernel on which root may load raw tracepoint programs (5.10 or later)"
        },
    )
}

/// The kernel's types do not say what the programs of tier T1 need.
pub(super) fn without_hooks(missing: &str) -> Why {
    why(
        missing,
        "use a stock kernel of 6.1 or later with all of BPF LSM, and its own types at `/sys/kernel/btf`",
    )
}

const UNLOCK: &str = "boot without `lockdown=confidentiality`; `lockdown=integrity` is no hindrance";

pub(super) fn without_controllers(missing: &str) -> Why {
    why(
        missing,
        "boot with `cgroup_no_v1=all` (systemd: `systemd.unified_cgroup_hierarchy=1`), and delegate memory, cpu and pids where cgroup v2 is mounted",
    )
}

pub(super) fn without_view(cause: &str) -> Why {
    why(
        format!("user namespaces are allowed, and no view can be built in one: {cause}"),
        "run as root, or outside the container whose mounts are in the way",
    )
}

/// What only root has.
pub(super) fn without_root(what: &str) -> Why {
    why(what, "run as root")
}

pub(super) fn without_namespaces(error: &io::Error) -> Why {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => why(
            "no more namespaces may be made here",
            "raise the sysctls `user.max_mnt_namespaces`, `user.max_pid_namespaces`, `user.max_net_namespaces`, `user.max_ipc_namespaces` and `user.max_uts_namespaces`",
        ),
        Some(libc::EINVAL) => why(
            "the kernel was built without one of the namespaces",
            "boot a kernel with `CONFIG_NAMESPACES` and all kinds of them",
        ),
        _ => why(
            format!("making namespaces is refused: {error}"),
            "give this process CAP_SYS_ADMIN and let `unshare` and `clone3` through the seccomp filter around it",
        ),
    }
}

pub(super) fn without_user_namespaces(error: &io::Error) -> Why {
    user_namespace_refusal(error, |knob| {
        fs::read_to_string(format!("/proc/sys/{}", knob.replace('.', "/"))).ok()
    })
}

/// The settings that forbid them, in the order in which the kernel asks.
const KNOBS: [(&str, &str, &str); 3] = [
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "10000"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
];

fn user_namespace_refusal(error: &io::Error, read: impl Fn(&str) -> Option<String>) -> Why {
    for (knob, forbids, allows) in KNOBS {
        if read(knob).is_some_and(|value| value.trim() == forbids) {
            return why(
                format!("user namespaces are refused: the sysctl `{knob}` is {forbids}"),
                format!("`sysctl {knob}={allows}`, or run as root"),
            );
        }
    }
    let (cause, change) = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EUSERS) => (
            "the limit of nested or of all user namespaces is reached".to_owned(),
            "raise the sysctl `user.max_user_namespaces`, or run as root",
        ),
        Some(libc::EINVAL | libc::ENOSYS) => (
            "the kernel was built without them".to_owned(),
            "boot a kernel with `CONFIG_USER_NS`, or run as root",
        ),
        _ => (
            error.to_string(),
            "let `unshare` and `clone` through the seccomp filter around this process (a container's profile), leave a `chroot`, or run as root",
        ),
    };
    why(format!("user namespaces are refused: {cause}"), change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_that_does_not_answer_is_told_apart() {
        let (with, without) = (
            LsmList::parse("capability,landlock,bpf\n"),
            LsmList::parse("capability,bpf"),
        );
        let hidden = LsmList::Hidden("securityfs is not mounted".into());
        for (absence, list, filtered, words, change) in [
            (
                Absence::NotEnabled,
                &without,
                false,
                "`capability,bpf`",
                "add `landlock` to `lsm=`",
            ),
            (
                Absence::NotEnabled,
                &hidden,
                false,
                "cannot be seen: securityfs is not mounted",
                "`lsm=`",
            ),
            (
                Absence::NotBuilt,
                &with,
                true,
                "has Landlock and a seccomp filter",
                "allow `landlock_create",
            ),
            (
                Absence::NotBuilt,
                &hidden,
                true,
                "or the seccomp filter",
                "allow `landlock_create",
            ),
            (
                Absence::NotBuilt,
                &hidden,
                false,
                "built without",
                "CONFIG_SECURITY_LANDLOCK",
            ),
            (
                Absence::NotBuilt,
                &without,
                false,
                "built without",
                "CONFIG_SECURITY_LANDLOCK",
            ),
            (
                Absence::Refused(libc::EPERM),
                &with,
                true,
                "refused",
                "allow `landlock_create",
            ),
        ] {
            let found = landlock_absence(absence, list, filtered);
            assert!(found.why.contains(words), "{found:?}");
            assert!(
                found.change.unwrap_or_default().contains(change),
                "{absence:?} {list:?}"
            );
        }
    }

    #[test]
    fn the_setting_that_forbids_user_namespaces_is_named() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        for (knob, forbids, allows) in KNOBS {
            let read = |asked: &str| {
                let (_, _, fine) = KNOBS.into_iter().find(|(name, ..)| *name == asked)?;
                Some(format!("{}\n", if asked == knob { forbids } else { fine }))
            };
            let found = user_namespace_refusal(&error, read);
            assert!(found.why.contains(&format!("`{knob}` is {forbids}")), "{found:?}");
            assert!(
                found
                    .change
                    .unwrap_or_default()
                    .contains(&format!("{knob}={allows}"))
            );
        }
        let none = user_namespace_refusal(&error, |_| None);
        assert!(none.why.contains("Operation not permitted"), "{none:?}");
        let full = user_namespace_refusal(&io::Error::from_raw_os_error(libc::ENOSPC), |_| None);
        assert!(full.why.contains("limit"), "{full:?}");
    }
}
