//! `isolation = "call"`: one plan, a fresh sandbox for each call, on the word of a gateway that can say nothing but a
//! number.

mod bounds;
mod ends;
mod fresh;
mod stage;

use anyhow::Result;
use guard_tests::life::{stage::Stage, trail};
use stage::Calls;

/// A session that ends well; then nothing is left and the trail is whole.
fn in_a_session(server: &[&str], test: impl FnOnce(&mut Calls) -> Result<()>) -> Result<()> {
    with_limit(server, None, test)
}

fn with_limit(
    server: &[&str],
    limit_ms: Option<u64>,
    test: impl FnOnce(&mut Calls) -> Result<()>,
) -> Result<()> {
    let stage = Stage::new("calls")?;
    let mut calls = Calls::begin(stage, server, limit_ms)?;
    let result = test(&mut calls).and_then(|()| {
        calls.leave()?;
        calls.stage.nothing_left()?;
        calls.stage.verify()?;
        trail::complete(&calls.stage.records()?)
    });
    if result.is_err() {
        calls.stage.keep();
        eprintln!("{}", calls.stage.log());
    }
    result
}
