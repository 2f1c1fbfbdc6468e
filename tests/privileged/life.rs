//! How sessions live and end: the shutdown ladder, bytes untouched, back-pressure, one warden for many.

#[path = "life/bytes.rs"]
mod bytes;
#[path = "life/ends.rs"]
mod ends;
#[path = "life/ladder.rs"]
mod ladder;
#[path = "life/starts.rs"]
mod starts;
#[path = "life/warden.rs"]
mod warden;

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    life::{
        stage::{Done, Stage},
        trail,
    },
    records::Record,
};

/// A stage of its own for a test; whatever the test does, nothing is left and the trail is whole.
fn on_stage(test: impl FnOnce(&mut Stage) -> Result<()>) -> Result<()> {
    let mut stage = Stage::new("life")?;
    let result = test(&mut stage).and_then(|()| {
        stage.nothing_left()?;
        stage.verify()?;
        trail::complete(&stage.records()?)
    });
    if result.is_err() {
        stage.keep();
    }
    result
}

fn ended(done: &Done, code: i32) -> Result<()> {
    ensure!(
        done.code() == Some(code),
        "ended with {} instead of {code}:\n{}",
        done.status,
        done.stderr
    );
    Ok(())
}

/// The one exit record of the stage.
fn exit_record(stage: &Stage) -> Result<Record> {
    let records = stage.records()?;
    let exits = trail::kind(&records, "exit");
    ensure!(exits.len() == 1, "{} exit records", exits.len());
    Ok(exits.first().copied().context("no exit record")?.clone())
}
