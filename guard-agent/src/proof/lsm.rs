//! BPF LSM: whether a program can be loaded, attached and hit here. What the kernel's list says decides nothing.

use std::{fs, io, os::fd::OwnedFd, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    attacks,
    attempt::Answer,
    host::LsmList,
    verdict::{Verdict, Why},
};
use crate::{
    sys::bpf::{self, instruction},
    warden::kernel::KernelTypes,
};

const TYPES: &str = "/sys/kernel/btf/vmlinux";
const HOOK: &str = "bpf_lsm_file_open";
/// The number of some type that is no hook.
const ANY_TYPE: u32 = 1;

/// How far it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reached {
    /// The kernel does not describe itself.
    NoTypes,
    /// What it says is not to be understood.
    BadTypes,
    /// Its types have no such hook: built without `CONFIG_BPF_LSM`.
    NoHook,
    /// The errno of the load.
    NotLoaded(i32),
    NotAttached(i32),
    /// In force as far as anybody says, and nothing is refused.
    NeverCalled,
    Hit,
    Failed(String),
}

/// Loads a program that refuses every open in one cgroup, enters the cgroup, opens. It ends with this process.
pub(super) fn attack(cgroup: &Path, id: u64, planted: &Path) -> Reached {
    let errno = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let load = |hook| bpf::load_lsm(c"guard_proof", &refuse_in(id), hook);
    // A kernel that takes none does not look for which hook it is: then its types, some megabytes, need not be read.
    if let Err(error) = load(ANY_TYPE)
        && errno(&error) == libc::EPERM
    {
        return Reached::NotLoaded(libc::EPERM);
    }
    let types = match fs::read(TYPES) {
        Ok(data) => KernelTypes::parse(&data),
        Err(_) => return Reached::NoTypes,
    };
    let Some(types) = types else {
        return Reached::BadTypes;
    };
    let Some(hook) = types.function(HOOK) else {
        return Reached::NoHook;
    };
    drop(types);
    let program: OwnedFd = match load(hook) {
        Ok(program) => program,
        Err(error) => return Reached::NotLoaded(errno(&error)),
    };
    // Entered before it is attached: the way in is an open.
    if let Err(error) = fs::write(cgroup.join("cgroup.procs"), "0") {
        return Reached::Failed(format!("cannot enter its cgroup: {error}"));
    }
    if attacks::read(planted) != Answer::WORKED {
        return Reached::Failed("the planted file cannot be opened".to_owned());
    }
    let link = match bpf::attach_lsm(&program) {
        Ok(link) => link,
        Err(error) => return Reached::NotAttached(errno(&error)),
    };
    let answer = attacks::read(planted);
    drop(link);
    if answer == Answer::errno(libc::EPERM) {
        Reached::Hit
    } else {
        Reached::NeverCalled
    }
}

/// `return bpf_get_current_cgroup_id() == id ? -EPERM : 0`
fn refuse_in(id: u64) -> [u64; 8] {
    const CALL: u8 = 0x85;
    const LOAD_64: u8 = 0x18;
    const JUMP_UNLESS_EQUAL: u8 = 0x5d;
    const SET: u8 = 0xb7;
    const EXIT: u8 = 0x95;
    const CURRENT_CGROUP_ID: i32 = 80;
    let (low, high) = (id as u32, (id >> 32) as u32);
    [
        instruction(CALL, 0, 0, 0, CURRENT_CGROUP_ID),
        instruction(LOAD_64, 1, 0, 0, low.cast_signed()),
        instruction(0, 0, 0, 0, high.cast_signed()),
        instruction(JUMP_UNLESS_EQUAL, 0, 1, 2, 0),
        instruction(SET, 0, 0, 0, -libc::EPERM),
        instruction(EXIT, 0, 0, 0, 0),
        instruction(SET, 0, 0, 0, 0),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// Why this machine has no BPF LSM; none when it has.
pub(super) fn verdict(reached: &Reached) -> Option<Verdict> {
    judge(reached, &LsmList::read())
}

/// What was reached decides; the list only explains.
fn judge(reached: &Reached, list: &LsmList) -> Option<Verdict> {
    let refused = |step: &str, errno: i32| {
        let name = format!("{:?}", nix::errno::Errno::from_raw(errno));
        match list.names("bpf") {
            Some(true) => Verdict::NotAvailable(Why {
                why: format!("the kernel's lsm list names bpf, but {step} is refused: {name}"),
                change: Some(
                    "use a kernel that lets root load BPF LSM programs; nothing on this machine's command line helps"
                        .to_owned(),
                ),
            }),
            Some(false) => Verdict::not_available(
                format!("the kernel's lsm list has no bpf, and {step} is refused: {name}"),
                ADD_BPF,
            ),
            None => Verdict::not_available(
                format!("{step} is refused: {name} ({list})"),
                "mount securityfs to see whether `lsm=` has `bpf`: `mount -t securityfs none /sys/kernel/security`",
            ),
        }
    };
    Some(match reached {
        Reached::Hit => return None,
        Reached::NoTypes => Verdict::not_available(
            format!("this kernel shows no type information (`{TYPES}`)"),
            "use a kernel built with CONFIG_DEBUG_INFO_BTF, and mount sysfs",
        ),
        Reached::BadTypes => Verdict::not_available(
            format!("this kernel's type information (`{TYPES}`) is cut off or damaged"),
            "see what is mounted over `/sys/kernel/btf`: the kernel's own file is whole",
        ),
        Reached::NoHook => Verdict::not_available(
            format!("the kernel has no `{HOOK}`: it was built without BPF LSM"),
            "boot a kernel with `CONFIG_BPF_LSM`",
        ),
        Reached::NotLoaded(errno) => refused("loading", *errno),
        Reached::NotAttached(errno) => refused("attaching", *errno),
        Reached::NeverCalled => match list.names("bpf") {
            Some(false) => Verdict::not_available(
                "the kernel's lsm list has no bpf: a program loads and attaches, and is never called",
                ADD_BPF,
            ),
            _ => Verdict::not_available(
                format!("a program loads and attaches, and is never called ({list})"),
                ADD_BPF,
            ),
        },
        Reached::Failed(cause) => Verdict::not_enforced(format!("its self-test did not work: {cause}")),
    })
}

const ADD_BPF: &str = "add `bpf` to the end of `lsm=` on the kernel's command line and boot again";

#[cfg(test)]
mod tests {
    use super::*;

    /// tetragon#3455, KubeArmor#1506, bpftrace#2716: the list says one thing and the kernel does another.
    #[test]
    fn what_was_reached_decides_whatever_the_list_says() {
        let lists = [
            LsmList::parse("lockdown,capability,landlock,bpf\n"),
            LsmList::parse("landlock,lockdown,yama"),
            LsmList::parse(""),
            LsmList::Hidden("securityfs is not mounted at `/sys/kernel/security`".into()),
        ];
        for list in &lists {
            assert_eq!(judge(&Reached::Hit, list), None, "{list}");
            for reached in [
                Reached::NoTypes,
                Reached::BadTypes,
                Reached::NoHook,
                Reached::NotLoaded(libc::EPERM),
                Reached::NotLoaded(libc::EINVAL),
                Reached::NotAttached(libc::EINVAL),
                Reached::NeverCalled,
            ] {
                let verdict = judge(&reached, list).unwrap();
                assert!(matches!(verdict, Verdict::NotAvailable(_)), "{reached:?} {list}");
                assert!(
                    verdict.why().is_some_and(|why| why.change.is_some()),
                    "{reached:?} {list}"
                );
            }
        }
    }

    #[test]
    fn the_list_explains_what_the_load_said() {
        let said = |reached: &Reached, list: &LsmList| {
            judge(reached, list)
                .and_then(|verdict| verdict.why().map(|why| why.why.clone()))
                .unwrap_or_default()
        };
        let refused = Reached::NotLoaded(libc::EPERM);
        assert_eq!(
            said(&refused, &LsmList::parse("landlock,bpf")),
            "the kernel's lsm list names bpf, but loading is refused: EPERM"
        );
        assert_eq!(
            said(&refused, &LsmList::parse("landlock,mybpf")),
            "the kernel's lsm list has no bpf, and loading is refused: EPERM"
        );
        assert_eq!(
            said(
                &refused,
                &LsmList::Hidden("securityfs is not mounted at `/sys/kernel/security`".into())
            ),
            "loading is refused: EPERM (the kernel's lsm list cannot be seen: securityfs is not mounted at `/sys/kernel/security`)"
        );
    }
}
