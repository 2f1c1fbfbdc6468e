//! Loading, and who is not touched.

use guard_agent::warden::kernel::{ProgramInfo, Skipped};
use guard_common::{
    hooks::{HOOKS, Presence},
    told::TOLD,
};
use guard_tests::arena::Arg;

use crate::stage::Stage;

const OPEN: u32 = 2;

#[test]
fn every_hook_of_this_kernel_is_attached() {
    let stage = Stage::set("load");
    let programs: Vec<ProgramInfo> = stage.programs.programs();
    for hook in HOOKS {
        let program = programs.iter().find(|program| program.name == hook.name).unwrap();
        println!(
            "{:<24} {:>7} {}",
            hook.name,
            program.verified_instructions.unwrap_or(0),
            program.why_not.as_deref().unwrap_or_default()
        );
        if hook.presence == Presence::Required {
            assert!(program.attached, "{program:?}");
        }
        assert_eq!(program.attached, program.why_not.is_none(), "{program:?}");
        assert_eq!(program.recursion_misses, 0, "{program:?}");
    }
    assert_eq!(stage.programs.verdicts(), Ok(()));
    assert_eq!(stage.programs.skipped(), Skipped::default());
    for told in TOLD {
        let program = programs.iter().find(|program| program.name == told.program);
        println!(
            "{:<24} {:>7}",
            told.program,
            program
                .and_then(|program| program.verified_instructions)
                .unwrap_or(0)
        );
        let there = told.hook.presence == Presence::Required || program.is_some();
        assert_eq!(
            program.is_some_and(|program| program.attached),
            there,
            "{program:?}"
        );
    }
}

#[test]
fn an_open_outside_is_refused_and_one_inside_is_not() {
    let mut stage = Stage::set("open");
    let path = |stage: &Stage, name: &str| stage.at(name).into_os_string().into_encoded_bytes();
    let outside = path(&stage, "outside/file");
    let inside = path(&stage, "r/file");
    // The same process, a moment before.
    assert!(stage.inside.call(OPEN, &[Arg::Text(&outside)]).result > 2);
    stage.enforce();
    assert_eq!(stage.inside.call(OPEN, &[Arg::Text(&outside)]).result, -13);
    assert!(stage.inside.call(OPEN, &[Arg::Text(&inside)]).result > 2);
    assert!(stage.outside.call(OPEN, &[Arg::Text(&outside)]).result > 2);
}
