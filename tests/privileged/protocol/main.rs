//! The protocol between client and server: the test holds both ends, the agent is between them.
//!
//! Whatever is refused is followed by a question and its answer on the same session: nothing of it reached the other
//! end, and the session goes on.

mod answers;
mod batch;
mod bytes;
mod cancel;
mod duo;
mod ending;
mod expect;
mod framing;
mod greeting;
mod ids;
mod keys;
mod lines;
mod load;
mod modern;
mod notifications;
mod pipes;
mod pressure;
mod real;
mod requests;
mod roots;
mod sizes;
mod strict;

use anyhow::Result;
use duo::Duo;
use guard_tests::{life::stage::Stage, programs};

/// A stage of its own for a test; whatever the test does, nothing is left.
fn on_stage(test: impl FnOnce(&Stage) -> Result<()>) -> Result<()> {
    let mut stage = Stage::new("protocol")?;
    stage.protocol = "mcp";
    std::fs::copy(programs::scripted()?, stage.path().join("bin/guard-scripted"))?;
    let result = test(&stage).and_then(|()| stage.nothing_left().map(drop));
    if result.is_err() {
        stage.keep();
    }
    result
}

/// A session before any greeting; at the end both leave well.
fn raw(test: impl FnOnce(&mut Duo) -> Result<()>) -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        test(&mut duo)?;
        duo.leave()
    })
}

/// A session after an ordinary greeting.
fn greeted(test: impl FnOnce(&mut Duo) -> Result<()>) -> Result<()> {
    raw(|duo| {
        duo.greet(&greeting::Greeting::default())?;
        test(duo)
    })
}
