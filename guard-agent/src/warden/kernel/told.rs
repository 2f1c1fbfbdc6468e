//! The programs that tell what other security modules refused: at the end of the kernel's own functions, after all
//! modules were asked. They change no verdict, so each is there or is not, and what is not is said.

use std::os::fd::{AsFd as _, OwnedFd};

use guard_common::{
    hooks::{Argument, Presence, Slot, What},
    told::{TOLD, Told},
};

use super::{btf::KernelTypes, error::KernelError, loader::ProgramInfo, prepared::Prepared};
use crate::{fault, refusal::chain, sys::bpf};

/// Of each function that this kernel is to have: its number, or why it cannot be watched.
pub(super) type Places = Vec<(&'static Told, Result<u32, String>)>;

/// Functions that this kernel has not, and need not have, are left out.
pub(super) fn places(types: Option<&KernelTypes>) -> Places {
    let Some(types) = types else { return Vec::new() };
    TOLD.iter()
        .filter_map(|told| {
            let place = place(types, told);
            let later = matches!(told.hook.presence, Presence::Since { .. });
            let absent = later && types.function(told.function).is_none();
            (!absent).then_some((told, place))
        })
        .collect()
}

fn place(types: &KernelTypes, told: &Told) -> Result<u32, String> {
    let number = types
        .function(told.function)
        .ok_or_else(|| format!("the kernel shows no function `{}`", told.function))?;
    let count = types.arguments(told.function).map(|arguments| arguments.len());
    if count != Some(told.arguments) {
        return Err(format!(
            "`{}` has not {} arguments on this kernel",
            told.function, told.arguments
        ));
    }
    let misplaced = |argument: &&Argument| match (argument.what, argument.slot) {
        (What::Pointer(structure, nth), Slot::At(slot)) => {
            types.slot(told.function, structure, nth) != Some(slot)
        }
        (What::Number, Slot::At(slot)) => slot >= told.arguments,
        (_, Slot::Global(_)) => true,
    };
    match told.hook.arguments.iter().find(misplaced) {
        None => Ok(number),
        Some(argument) => Err(format!(
            "`{}` has not its {:?} where it is expected",
            told.function, argument.what
        )),
    }
}

/// Programs that are loaded and not attached yet.
pub(super) struct Loaded(Vec<(&'static Told, Result<OwnedFd, String>)>);

impl Loaded {
    /// Loads each that can be, while the object's maps are where it was relocated to.
    pub(super) fn load(prepared: &Prepared, places: &Places) -> Self {
        let refused = fault::point("told.programs").err().map(|error| error.to_string());
        let load = |told: &'static Told, place: &Result<u32, String>| match (&refused, place) {
            (Some(why), _) | (None, Err(why)) => Err(why.clone()),
            (None, Ok(number)) => prepared
                .load_exit(told.program, *number)
                .map_err(|error| chain(&error)),
        };
        let all = places.iter().map(|(told, place)| (*told, load(told, place)));
        Self(all.collect())
    }

    pub(super) fn attach(self) -> Tellers {
        let all = self.0.into_iter();
        Tellers(
            all.map(|(told, program)| (told, program.and_then(|program| attach(told, program))))
                .collect(),
        )
    }
}

fn attach(told: &'static Told, program: OwnedFd) -> Result<Attached, String> {
    let link = bpf::attach_lsm(&program).map_err(|source| KernelError::Function {
        program: told.program,
        function: told.function,
        source,
    });
    let link = link.map_err(|error| chain(&error))?;
    Ok(Attached { program, _link: link })
}

struct Attached {
    program: OwnedFd,
    /// Held: the program runs as long as it is open.
    _link: OwnedFd,
}

/// The programs, those that are there.
pub(super) struct Tellers(Vec<(&'static Told, Result<Attached, String>)>);

impl Tellers {
    /// Whether all are in force, or which are not and why.
    pub(super) fn complete(&self) -> Result<(), String> {
        let refused = self
            .0
            .iter()
            .filter_map(|(told, result)| Some((told.hook.name, result.as_ref().err()?.as_str())));
        missing(&refused.collect::<Vec<_>>(), self.0.len())
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = ProgramInfo> {
        self.0.iter().map(|(told, result)| {
            let program = result.as_ref().ok();
            let facts = program.and_then(|attached| bpf::program_facts(attached.program.as_fd()).ok());
            ProgramInfo::new(
                told.program,
                program.is_some(),
                result.as_ref().err().cloned(),
                facts,
            )
        })
    }
}

/// What is missing, for people: one reason for all is said once.
fn missing(refused: &[(&str, &str)], of: usize) -> Result<(), String> {
    let Some((_, first)) = refused.first() else {
        return Ok(());
    };
    if refused.len() == of && (refused.iter().all(|(_, why)| why == first) || of > MOST_NAMED) {
        return Err(format!("of no hook: {first}"));
    }
    let mut each: Vec<String> = refused
        .iter()
        .take(MOST_NAMED)
        .map(|(name, why)| format!("of `{name}`: {why}"))
        .collect();
    if refused.len() > MOST_NAMED {
        each.push(format!("and {} more", refused.len() - MOST_NAMED));
    }
    Err(each.join("; "))
}

/// Hooks named in one message.
const MOST_NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::{
        super::btf::tests::{data, kernel, string_at},
        *,
    };

    fn unwatched(places: &Places) -> Vec<(&'static str, &str)> {
        places
            .iter()
            .filter_map(|(told, place)| Some((told.hook.name, place.as_ref().err()?.as_str())))
            .collect()
    }

    #[test]
    fn every_kernel_of_the_tier_has_the_functions() {
        for (series, later) in [
            ("6.1", &[][..]),
            ("6.12", &["file_truncate"]),
            ("6.18", &["file_truncate"]),
            ("7.3", &["file_truncate"]),
        ] {
            let places = places(Some(&kernel(series)));
            assert_eq!(unwatched(&places), [], "{series}");
            let came_later: Vec<&str> = places
                .iter()
                .filter(|(told, _)| told.hook.presence != Presence::Required)
                .map(|(told, _)| told.hook.name)
                .collect();
            assert_eq!(came_later, later, "{series}");
        }
    }

    #[test]
    fn a_function_that_is_not_there_or_another_is_named_and_the_others_are_watched() {
        let mut altered = data("6.12").to_vec();
        for name in ["security_path_link", "security_file_truncate"] {
            let at = string_at(&altered, name);
            altered[at] = b'X';
        }
        let places = places(KernelTypes::parse(&altered).as_ref());
        assert_eq!(
            unwatched(&places),
            [("path_link", "the kernel shows no function `security_path_link`")]
        );
        // The other came later: a kernel without it has nobody who asks.
        assert!(places.iter().all(|(told, _)| told.hook.name != "file_truncate"));
        assert_eq!(super::places(None), []);
    }

    #[test]
    fn arguments_that_are_elsewhere_leave_the_program_out() {
        let types = kernel("6.12");
        let moved = Told {
            arguments: 4,
            ..guard_common::told::TOLD_PATH_LINK
        };
        let why = "`security_path_link` has not 4 arguments on this kernel";
        assert_eq!(place(&types, &moved), Err(why.to_owned()));
        let other = Told {
            function: "security_path_symlink",
            ..guard_common::told::TOLD_PATH_LINK
        };
        let said = place(&types, &other).unwrap_err();
        assert!(
            said.starts_with("`security_path_symlink` has not its Pointer(\"dentry\", 0)"),
            "{said}"
        );
    }

    #[test]
    fn what_is_missing_is_said_in_one_line() {
        assert_eq!(missing(&[], 15), Ok(()));
        let all = ["a", "b"].map(|name| (name, "EPERM"));
        assert_eq!(missing(&all, 2), Err("of no hook: EPERM".to_owned()));
        assert_eq!(missing(&all, 3), Err("of `a`: EPERM; of `b`: EPERM".to_owned()));
        let five = ["a", "b", "c", "d", "e"].map(|name| (name, "x"));
        assert_eq!(
            missing(&five, 9),
            Err("of `a`: x; of `b`: x; of `c`: x; and 2 more".to_owned())
        );
    }
}
