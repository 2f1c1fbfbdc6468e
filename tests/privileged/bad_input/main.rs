//! What is wrong with a launch is told in three lines, with the exit status of `docs/commands.md`; nothing was
//! started, nothing is left. Each case has a launch beside it that works, so that the mark proves something.

mod audit_content;
mod audit_places;
mod builds;
mod command_line;
mod full_disk;
mod machine;
mod odd_names;
mod policies;
mod root_kinds;
mod runtimes;
mod state_places;

use anyhow::{Result, ensure};
use guard_tests::refused::{PATIENCE, Stage};

/// The launch that every other test spoils in one point.
#[test]
fn a_good_launch_leaves_its_mark() -> Result<()> {
    let stage = Stage::new("good")?;
    let finished = stage.run().run("", PATIENCE)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    ensure!(finished.stdout.is_empty(), "{}", finished.stdout);
    ensure!(stage.marker().exists(), "the server did not run");
    let kinds: Vec<String> = stage
        .bench
        .records()?
        .into_iter()
        .map(|record| record.kind)
        .collect();
    ensure!(
        kinds.contains(&"launch".to_owned()) && kinds.contains(&"exit".to_owned()),
        "{kinds:?}"
    );
    ensure!(
        stage.nothing_left().is_err(),
        "a launch must count as something left"
    );
    stage.no_session()
}
