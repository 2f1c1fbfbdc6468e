//! Runs of our programs that the kernel skipped: it does so where a program is already running on that processor, which
//! takes a kernel that lets one task interrupt another there. A hook that is skipped has not decided.

use guard_common::{hooks::HOOKS, told::TOLD};

use super::{
    loader::{ProgramInfo, Programs},
    observe::OBSERVERS,
};

/// How many, of all processes of the machine, since the programs were loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Of programs that only tell.
    pub telling: u64,
    /// Of programs on security hooks, by their hooks: those with any.
    pub hooks: Vec<(&'static str, u64)>,
}

impl Programs {
    pub fn skipped(&self) -> Skipped {
        Skipped::among(&self.programs())
    }
}

impl Skipped {
    fn among(programs: &[ProgramInfo]) -> Self {
        let tells = |name: &str| OBSERVERS.contains(&name) || TOLD.iter().any(|told| told.program == name);
        let is_hook = |name: &str| HOOKS.iter().any(|hook| hook.name == name);
        let with = |of: &dyn Fn(&str) -> bool| -> Vec<(&'static str, u64)> {
            let some = programs.iter().filter(|program| program.recursion_misses > 0);
            some.filter(|program| of(program.name))
                .map(|program| (program.name, program.recursion_misses))
                .collect()
        };
        Self {
            telling: with(&tells).iter().map(|(_, count)| count).sum(),
            hooks: with(&is_hook),
        }
    }

    /// What came since an earlier look.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |name: &str| {
            let known = before.hooks.iter().find(|(known, _)| *known == name);
            known.map_or(0, |(_, count)| *count)
        };
        let hooks = self.hooks.iter();
        Self {
            telling: self.telling.saturating_sub(before.telling),
            hooks: hooks
                .map(|(name, count)| (*name, count.saturating_sub(earlier(name))))
                .filter(|(_, count)| *count > 0)
                .collect(),
        }
    }

    /// Of all hooks.
    pub fn decisions(&self) -> u64 {
        self.hooks.iter().map(|(_, count)| count).sum()
    }

    /// Why the hooks are not to be relied on, if they are not.
    pub fn why(&self) -> Option<String> {
        if self.hooks.is_empty() {
            return None;
        }
        let each: Vec<String> = self
            .hooks
            .iter()
            .map(|(name, count)| format!("{count} of `{name}`"))
            .collect();
        Some(format!(
            "the kernel skipped runs of programs on security hooks, which then did not decide: {}",
            each.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use guard_common::abi::PROGRAM_SYS_EXIT;

    use super::*;

    fn program(name: &'static str, recursion_misses: u64) -> ProgramInfo {
        ProgramInfo {
            name,
            attached: true,
            why_not: None,
            verified_instructions: None,
            recursion_misses,
        }
    }

    #[test]
    fn what_decides_is_told_from_what_only_tells() {
        let all = [
            program("file_open", 0),
            program("mmap_file", 3),
            program("path_link", 1),
            program("told_file_open", 2),
            program(PROGRAM_SYS_EXIT, 5),
            // Nothing is skipped of those on a cgroup; a count would be of no hook.
            program("connect4", 7),
        ];
        let found = Skipped::among(&all);
        assert_eq!(found.telling, 7);
        assert_eq!(found.hooks, [("mmap_file", 3), ("path_link", 1)]);
        assert_eq!(found.decisions(), 4);
        assert_eq!(
            found.why().unwrap(),
            "the kernel skipped runs of programs on security hooks, which then did not decide: 3 of `mmap_file`, 1 of `path_link`"
        );
        assert_eq!(Skipped::among(&[program("file_open", 0)]), Skipped::default());
        assert_eq!(Skipped::default().why(), None);
    }

    #[test]
    fn only_what_came_since_counts() {
        let before = Skipped::among(&[program("mmap_file", 3), program("told_file_open", 2)]);
        assert_eq!(before.since(&before), Skipped::default());
        let later = Skipped::among(&[
            program("mmap_file", 3),
            program("file_open", 2),
            program("told_file_open", 9),
        ]);
        let since = later.since(&before);
        assert_eq!((since.telling, since.hooks), (7, vec![("file_open", 2)]));
    }
}
