//! What the programs of tier T1 have to know of this kernel: where its structures keep their members, where its hooks
//! have their arguments, which hooks there are. Taken from its own types, never from its version. A verdict depends
//! on each, so that what is not known refuses the tier.

use guard_common::{
    abi::{self, ABSENT},
    hooks::{Argument, HOOKS, Hook, Presence, Slot, What},
};

use super::super::{btf::KernelTypes, error::KernelError, told};

/// A global, and the members whose offsets add up to it.
type Place = (&'static str, &'static [(&'static str, &'static str)]);

const PLACES: [Place; 18] = [
    (abi::GLOBAL_FILE_DENTRY, &[("file", "f_path"), ("path", "dentry")]),
    (abi::GLOBAL_FILE_FLAGS, &[("file", "f_flags")]),
    (abi::GLOBAL_FILE_MODE, &[("file", "f_mode")]),
    (abi::GLOBAL_PATH_DENTRY, &[("path", "dentry")]),
    (abi::GLOBAL_DENTRY_PARENT, &[("dentry", "d_parent")]),
    (abi::GLOBAL_DENTRY_INODE, &[("dentry", "d_inode")]),
    (abi::GLOBAL_DENTRY_SB, &[("dentry", "d_sb")]),
    (abi::GLOBAL_DENTRY_NAME, &[("dentry", "d_name"), ("qstr", "name")]),
    (abi::GLOBAL_QSTR_NAME, &[("qstr", "name")]),
    (abi::GLOBAL_INODE_GENERATION, &[("inode", "i_generation")]),
    (abi::GLOBAL_SB_FLAGS, &[("super_block", "s_flags")]),
    (abi::GLOBAL_TASK_CRED, &[("task_struct", "cred")]),
    (abi::GLOBAL_TASK_REAL_CRED, &[("task_struct", "real_cred")]),
    (abi::GLOBAL_VMA_FILE, &[("vm_area_struct", "vm_file")]),
    (abi::GLOBAL_SOCKET_SK, &[("socket", "sk")]),
    (
        abi::GLOBAL_SOCK_FAMILY,
        &[("sock", "__sk_common"), ("sock_common", "skc_family")],
    ),
    (abi::GLOBAL_IATTR_VALID, &[("iattr", "ia_valid")]),
    (abi::GLOBAL_IATTR_MODE, &[("iattr", "ia_mode")]),
];

/// Members that records need, too, and that the others read without a verdict's depending on them.
const SHARED: [(&str, &str); 4] = [
    ("inode", "i_sb"),
    ("inode", "i_ino"),
    ("inode", "i_nlink"),
    ("super_block", "s_dev"),
];

/// What was found.
#[derive(Debug, Clone, Default)]
pub(in crate::warden::kernel) struct Places {
    pub(in crate::warden::kernel) globals: Vec<(&'static str, u64)>,
    /// Of each hook that is there, the number of its function.
    pub(super) hooks: Vec<(&'static Hook, u32)>,
    /// What refuses the tier, for people.
    missing: Vec<String>,
    /// Where other modules' verdicts are to be seen. None of it refuses anything.
    pub(in crate::warden::kernel) told: told::Places,
}

impl Places {
    /// `types`: none when the kernel shows none.
    pub(in crate::warden::kernel) fn of(types: Option<&KernelTypes>) -> Self {
        let mut places = Self {
            told: told::places(types),
            ..Self::default()
        };
        let Some(types) = types else {
            places.globals = PLACES.iter().map(|(global, _)| (*global, ABSENT)).collect();
            places.missing.push("the kernel shows no types".to_owned());
            return places;
        };
        for (global, members) in PLACES {
            places.member(types, global, members);
        }
        for (structure, member) in SHARED {
            if types.member_offset(structure, member).is_none() {
                places.lacks_member(structure, member);
            }
        }
        for hook in HOOKS {
            places.hook(types, hook);
        }
        places
    }

    /// What is not there refuses the tier.
    pub(super) fn complete(&self) -> Result<(), KernelError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        Err(KernelError::Unknown {
            missing: self.missing.join("; "),
        })
    }

    fn member(&mut self, types: &KernelTypes, global: &'static str, members: &[(&str, &str)]) {
        let mut sum = Some(0u64);
        for (structure, member) in members {
            let offset = types.member_offset(structure, member);
            if offset.is_none() {
                self.lacks_member(structure, member);
            }
            sum = sum.and_then(|sum| sum.checked_add(offset?));
        }
        self.globals.push((global, sum.unwrap_or(ABSENT)));
    }

    fn lacks_member(&mut self, structure: &str, member: &str) {
        let text = format!("no member `{member}` of `struct {structure}` in the kernel's types");
        if !self.missing.contains(&text) {
            self.missing.push(text);
        }
    }

    fn hook(&mut self, types: &KernelTypes, hook: &'static Hook) {
        let function = format!("bpf_lsm_{}", hook.name);
        let Some(number) = types.function(&function) else {
            if hook.presence == Presence::Required {
                self.missing.push(format!("no security hook `{}`", hook.name));
            }
            return;
        };
        let count = types.arguments(&function).map(|arguments| arguments.len());
        for argument in hook.arguments {
            if let Err(why) = self.argument(types, &function, count, argument) {
                self.missing.push(format!("security hook `{}`: {why}", hook.name));
            }
        }
        self.hooks.push((hook, number));
    }

    fn argument(
        &mut self,
        types: &KernelTypes,
        function: &str,
        count: Option<usize>,
        argument: &Argument,
    ) -> Result<(), String> {
        let What::Pointer(structure, nth) = argument.what else {
            return match (argument.slot, count) {
                (Slot::At(slot), Some(count)) if slot < count => Ok(()),
                _ => Err("it has fewer arguments".to_owned()),
            };
        };
        let found = types
            .slot(function, structure, nth)
            .ok_or_else(|| format!("no argument `struct {structure} *`"))?;
        match argument.slot {
            Slot::At(slot) if slot == found => Ok(()),
            Slot::At(slot) => Err(format!(
                "its `struct {structure} *` is argument {found} instead of {slot}"
            )),
            Slot::Global(global) => {
                self.globals.push((global, found as u64));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use guard_common::hooks;

    use super::*;
    use crate::warden::kernel::btf::tests::{data, kernel, string_at};

    const TIER: [&str; 4] = ["6.1", "6.12", "6.18", "7.3"];

    fn global(places: &Places, name: &str) -> u64 {
        let mut values = places.globals.iter().filter(|(global, _)| *global == name);
        let (_, value) = values.next().unwrap();
        assert_eq!(values.next(), None, "{name}");
        *value
    }

    /// A kernel that calls something otherwise.
    fn without(series: &str, name: &str) -> Places {
        let mut altered = data(series).to_vec();
        let at = string_at(&altered, name);
        altered[at] = b'X';
        Places::of(KernelTypes::parse(&altered).as_ref())
    }

    #[test]
    fn every_kernel_of_the_tier_has_all_of_it() {
        for series in TIER {
            let places = Places::of(Some(&kernel(series)));
            assert_eq!(places.missing, [""; 0], "{series}");
            assert!(
                places.globals.iter().all(|(_, value)| *value != ABSENT),
                "{series}"
            );
            for hook in HOOKS.iter().filter(|hook| hook.presence == Presence::Required) {
                assert!(
                    places.hooks.iter().any(|(one, _)| *one == hook),
                    "{series}: {}",
                    hook.name
                );
            }
        }
    }

    #[test]
    fn hooks_that_came_later_are_there_from_their_version_on() {
        let later = |series: &str| -> Vec<&str> {
            let places = Places::of(Some(&kernel(series)));
            let names = places.hooks.iter().map(|(hook, _)| *hook);
            names
                .filter(|hook| hook.presence != Presence::Required)
                .map(|hook| hook.name)
                .collect()
        };
        let access_lists = ["file_truncate", "inode_set_acl", "inode_remove_acl"];
        assert_eq!(later("6.1"), ["file_ioctl_compat"], "given to older kernels, too");
        assert_eq!(
            later("6.12"),
            [&access_lists[..], &["file_ioctl_compat"]].concat()
        );
        for series in ["6.18", "7.3"] {
            let more = ["inode_file_setattr", "uring_allowed", "file_ioctl_compat"];
            assert_eq!(later(series), [&access_lists[..], &more].concat(), "{series}");
        }
    }

    #[test]
    fn arguments_that_moved_are_where_each_kernel_has_them() {
        let moved = |series| {
            let places = Places::of(Some(&kernel(series)));
            [
                hooks::GLOBAL_SETATTR_DENTRY,
                hooks::GLOBAL_SETXATTR_DENTRY,
                hooks::GLOBAL_REMOVEXATTR_DENTRY,
            ]
            .map(|name| global(&places, name))
        };
        assert_eq!(moved("6.1"), [0, 1, 1]);
        assert_eq!(moved("6.12"), [1, 1, 1]);
        assert_eq!(moved("6.18"), [1, 1, 1]);
        assert_eq!(moved("7.3"), [1, 1, 1]);
    }

    #[test]
    fn a_kernel_before_the_tier_says_what_it_lacks() {
        let places = Places::of(Some(&kernel("5.10")));
        for lacks in [
            "userns_create",
            "uring_override_creds",
            "uring_sqpoll",
            "uring_cmd",
        ] {
            let text = format!("no security hook `{lacks}`");
            assert!(places.missing.contains(&text), "{lacks}: {:?}", places.missing);
        }
        assert!(places.missing.iter().all(|text| !text.contains("file_open")));
    }

    #[test]
    fn a_kernel_that_shows_no_types_has_nothing() {
        let places = Places::of(None);
        assert_eq!(places.missing, ["the kernel shows no types"]);
        assert!(places.hooks.is_empty());
        assert_eq!(places.globals.len(), PLACES.len());
        assert!(places.globals.iter().all(|(_, value)| *value == ABSENT));
    }

    #[test]
    fn each_required_hook_is_missed_by_its_name_and_no_other() {
        for hook in HOOKS {
            let function = format!("bpf_lsm_{}", hook.name);
            if kernel("6.12").function(&function).is_none() {
                continue;
            }
            let missing = without("6.12", &function).missing;
            match hook.presence {
                Presence::Required => assert_eq!(missing, [format!("no security hook `{}`", hook.name)]),
                Presence::Since { .. } => assert_eq!(missing, [""; 0], "{}", hook.name),
            }
        }
    }

    #[test]
    fn each_member_is_missed_by_its_name() {
        let members = PLACES.iter().flat_map(|(_, members)| *members).chain(&SHARED);
        for (structure, member) in members {
            let text = format!("no member `{member}` of `struct {structure}` in the kernel's types");
            let missing = without("6.12", member).missing;
            assert!(missing.contains(&text), "{member}: {missing:?}");
        }
    }

    #[test]
    fn an_argument_of_another_type_is_missed() {
        let missing = without("6.12", "vm_area_struct").missing;
        assert!(
            missing
                .contains(&"security hook `file_mprotect`: no argument `struct vm_area_struct *`".to_owned()),
            "{missing:?}"
        );
    }
}
