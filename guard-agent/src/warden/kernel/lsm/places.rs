//! What the programs of tier T1 have to know of this kernel: where its structures keep their members, where its hooks
//! have their arguments, which hooks there are. Taken from its own types, never from its version. A verdict depends
//! on each, so that what is not known refuses the tier.

use guard_common::{
    abi::{self, ABSENT},
    hooks::{Argument, HOOKS, Hook, Presence, Slot, What},
};

use super::super::btf::KernelTypes;

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
    pub(super) missing: Vec<String>,
}

impl Places {
    /// `types`: none when the kernel shows none.
    pub(in crate::warden::kernel) fn of(types: Option<&KernelTypes>) -> Self {
        let mut places = Self::default();
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
