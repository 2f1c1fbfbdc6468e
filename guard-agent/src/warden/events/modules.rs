//! Which security module refused, as far as it can be told: the kernel says what its modules answered together, not who.
//!
//! It is Landlock where the sandbox's ruleset has a say about that operation, the answer is one that Landlock gives, and
//! no other module decides there: by the kernel's own list, and by what those in the list say of themselves. Nothing is
//! decided by it.
#![forbid(unsafe_code)]

use std::fs;

use guard_common::{
    hooks::EACCES,
    told::{CONFINING, EXDEV, Told},
};

use crate::{audit::Layer, proof::LsmList};

/// What TOMOYO does is in its profiles; before it has a policy it has none.
const TOMOYO: &str = "/sys/kernel/security/tomoyo/profile";

/// Why somebody else than our programs refused.
pub(super) const NOT_GRANTED: &str = "not-granted";
pub(super) const GAIN: &str = "would-gain-rights";
pub(super) const STRANGER: &str = "stranger";
pub(super) const ANOTHER: &str = "security-module";

/// Landlock in one sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::warden) struct Landlock {
    /// 0: it is not in force.
    pub(in crate::warden) abi: u32,
    pub(in crate::warden) scopes: bool,
}

/// The modules that were asked before ours.
#[derive(Debug, Default)]
pub(super) struct Modules {
    landlock: Landlock,
    /// Another one decides on every hook.
    confining: bool,
    /// AppArmor is there, and decides for those it has a profile for.
    apparmor: bool,
    /// All that the kernel lists.
    listed: Vec<String>,
}

impl Modules {
    pub(super) fn of(landlock: Landlock) -> Self {
        let enforcing =
            || fs::read_to_string(TOMOYO).map_or(true, |profiles| profiles.contains("mode=enforcing"));
        Self::listed(landlock, &LsmList::read(), enforcing)
    }

    /// `tomoyo`: whether it enforces anything.
    pub(super) fn listed(landlock: Landlock, list: &LsmList, tomoyo: impl FnOnce() -> bool) -> Self {
        let LsmList::Seen(listed) = list else {
            // Whoever may be there.
            return Self {
                landlock,
                confining: true,
                ..Self::default()
            };
        };
        let has = |module: &str| listed.iter().any(|name| name == module);
        Self {
            landlock,
            confining: CONFINING.into_iter().any(has) || (has("tomoyo") && tomoyo()),
            apparmor: has("apparmor"),
            listed: listed.clone(),
        }
    }

    /// Layer and reason of a refusal. `profile`: whether AppArmor has one for who was refused.
    pub(super) fn refused(
        &self,
        told: &Told,
        errno: u16,
        profile: impl FnOnce() -> bool,
    ) -> (Layer, &'static str) {
        let has_a_say = self.landlock.abi >= told.landlock && (!told.scope || self.landlock.scopes);
        let answers = told.errnos.contains(&errno);
        let is_listed = |module: &&str| self.listed.iter().any(|name| name == module);
        if self.landlock.abi == 0
            || !has_a_say
            || !answers
            || self.confining
            || told.others.iter().any(is_listed)
            || (self.apparmor && profile())
        {
            return (Layer::Unknown, ANOTHER);
        }
        let reason = match errno {
            EXDEV => GAIN,
            EACCES => NOT_GRANTED,
            _ => STRANGER,
        };
        (Layer::Landlock, reason)
    }
}

#[cfg(test)]
mod tests {
    use guard_common::{
        hooks::EPERM,
        told::{TOLD, TOLD_FILE_OPEN, TOLD_PATH_RENAME, TOLD_PTRACE_ACCESS_CHECK, TOLD_TASK_KILL},
    };

    use super::*;

    const NEW: Landlock = Landlock { abi: 6, scopes: true };
    /// Debian's.
    const LIST: &str = "lockdown,capability,landlock,yama,apparmor,tomoyo,bpf";

    fn modules(landlock: Landlock, list: &str) -> Modules {
        Modules::listed(landlock, &LsmList::parse(list), || false)
    }

    fn plain(told: &Told, errno: u16) -> (Layer, &'static str) {
        modules(NEW, LIST).refused(told, errno, || false)
    }

    #[test]
    fn landlock_is_named_where_it_alone_can_have_refused() {
        for (told, errno, reason) in [
            (&TOLD_FILE_OPEN, EACCES, NOT_GRANTED),
            (&TOLD_PATH_RENAME, EACCES, NOT_GRANTED),
            (&TOLD_PATH_RENAME, EXDEV, GAIN),
            (&TOLD_TASK_KILL, EPERM, STRANGER),
        ] {
            assert_eq!(
                plain(told, errno),
                (Layer::Landlock, reason),
                "{}",
                told.hook.name
            );
        }
    }

    const UNKNOWN: (Layer, &str) = (Layer::Unknown, ANOTHER);

    #[test]
    fn an_answer_that_landlock_does_not_give_is_somebody_elses() {
        for (told, errno) in [
            (&TOLD_FILE_OPEN, EPERM),
            (&TOLD_FILE_OPEN, EXDEV),
            (&TOLD_TASK_KILL, EACCES),
            (&TOLD_FILE_OPEN, 12),
        ] {
            assert_eq!(plain(told, errno), UNKNOWN, "{} {errno}", told.hook.name);
        }
        // Capabilities and Yama answer the same there.
        assert_eq!(plain(&TOLD_PTRACE_ACCESS_CHECK, EPERM), UNKNOWN);
    }

    #[test]
    fn what_this_version_does_not_decide_was_somebody_else() {
        let old = Landlock {
            abi: 2,
            scopes: false,
        };
        for told in TOLD {
            let errno = told.errnos.first().copied().unwrap_or_default();
            let alone = told.others.is_empty();
            for (landlock, wanted) in [
                (old, alone && told.landlock <= 2 && !told.scope),
                (NEW, alone),
                (
                    Landlock {
                        abi: 6,
                        scopes: false,
                    },
                    alone && !told.scope,
                ),
                (Landlock::default(), false),
            ] {
                let (layer, _) = modules(landlock, LIST).refused(told, errno, || false);
                assert_eq!(
                    layer == Layer::Landlock,
                    wanted,
                    "{} {landlock:?}",
                    told.hook.name
                );
            }
        }
    }

    #[test]
    fn with_another_module_that_decides_nobody_is_named() {
        let open = |modules: &Modules, profile: bool| modules.refused(&TOLD_FILE_OPEN, EACCES, || profile);
        for list in ["landlock,selinux,bpf", "landlock,smack,bpf"] {
            assert_eq!(open(&modules(NEW, list), false), UNKNOWN, "{list}");
        }
        assert_eq!(
            open(&modules(NEW, LIST), true),
            UNKNOWN,
            "its AppArmor profile may have"
        );
        // Without AppArmor there is no profile to ask about.
        assert_eq!(open(&modules(NEW, "landlock,bpf"), true).0, Layer::Landlock);
        let tomoyo = Modules::listed(NEW, &LsmList::parse(LIST), || true);
        assert_eq!(open(&tomoyo, false), UNKNOWN);
        let hidden = LsmList::Hidden("securityfs is not mounted".into());
        assert_eq!(open(&Modules::listed(NEW, &hidden, || false), false), UNKNOWN);
    }
}
