//! The ways in which clients start us.

use std::{fs::File, io::Read as _, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use guard_tests::life::left::Role;

use super::{ended, on_stage};

#[test]
fn input_from_a_file() -> Result<()> {
    on_stage(|stage| {
        let path = stage.path().join("input");
        std::fs::write(&path, "one\ntwo\n")?;
        let mut command = stage.puppet(["echo"]);
        command.stdin(File::open(&path)?);
        let done = stage.start(&mut command)?.wait()?;
        ended(&done, 0)?;
        ensure!(done.text() == "one\ntwo\n", "{:?}", done.text());
        Ok(())
    })
}

#[test]
fn output_to_a_file() -> Result<()> {
    on_stage(|stage| {
        let path = stage.path().join("output");
        let mut command = stage.puppet(["flood=200000", "say=end"]);
        command.stdout(File::create(&path)?);
        let done = stage.start(&mut command)?.finish()?;
        ended(&done, 0)?;
        let written = std::fs::read(&path)?;
        ensure!(
            written.len() == 200_004 && written.ends_with(b"end\n"),
            "{} bytes",
            written.len()
        );
        Ok(())
    })
}

/// As a service manager starts things: no terminal, hardly an environment.
#[test]
fn an_empty_environment() -> Result<()> {
    on_stage(|stage| {
        let mut command = stage.puppet(["say=here"]);
        command.env_clear().env("GUARD_AGENT_IDLE_MS", "20");
        let done = stage.finish(&mut command, b"")?;
        ended(&done, 0)?;
        ensure!(done.text() == "here\n", "{:?}", done.text());
        Ok(())
    })
}

fn through_shell(
    stage: &guard_tests::life::stage::Stage,
    script: &str,
    words: &[&str],
) -> std::process::Command {
    let inner = stage.puppet(words);
    let mut command = std::process::Command::new("/bin/sh");
    command
        .args(["-c", script, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args());
    command
        .env("GUARD_AGENT_IDLE_MS", "20")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn a_closed_output() -> Result<()> {
    on_stage(|stage| {
        let mark = format!("mark={}", stage.work("mark").display());
        let done = stage.finish(
            &mut through_shell(stage, "exec \"$@\" >&-", &["say=lost", &mark]),
            b"",
        )?;
        ended(&done, 0)?;
        ensure!(
            stage.work("mark").exists(),
            "the server did not run:\n{}",
            done.stderr
        );
        Ok(())
    })
}

#[test]
fn a_closed_input() -> Result<()> {
    on_stage(|stage| {
        let done = stage.finish(
            &mut through_shell(stage, "exec \"$@\" <&-", &["echo", "say=end"]),
            b"",
        )?;
        ended(&done, 0)?;
        ensure!(done.text() == "end\n", "{:?}", done.text());
        Ok(())
    })
}

/// The client stops listening: the server is ended, and soon.
#[test]
fn an_output_that_goes_away() -> Result<()> {
    on_stage(|stage| {
        let mut session = stage.start(&mut stage.puppet(["say=ready", "stubborn", "flood=400000000"]))?;
        ensure!(session.line()? == "ready");
        drop(session.stdout.take());
        let start = std::time::Instant::now();
        let done = session.wait()?;
        ended(&done, 0)?;
        ensure!(
            start.elapsed() < guard_tests::life::limit(Duration::from_secs(2)),
            "{:?}",
            start.elapsed()
        );
        Ok(())
    })
}

/// The warden serves others after its starter: a descriptor that the starter inherited must not live on in it.
#[test]
fn the_warden_keeps_nothing_of_its_starter() -> Result<()> {
    on_stage(|stage| {
        stage.idle = 3000;
        let fifo = stage.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
        let mut command = through_shell(stage, "exec 7>\"$FIFO\"; exec \"$@\"", &["say=ready"]);
        command.env("FIFO", &fifo).env("GUARD_AGENT_IDLE_MS", "3000");
        let session = stage.start(&mut command)?;
        let mut reader = File::open(&fifo)?;
        ended(&session.finish()?, 0)?;
        let warden = stage
            .left()
            .pids(Role::Warden)
            .first()
            .copied()
            .context("the warden left already")?;
        // Ends only when no process has the other end.
        let start = std::time::Instant::now();
        reader.read_to_end(&mut Vec::new())?;
        ensure!(
            std::path::Path::new(&format!("/proc/{warden}")).exists(),
            "it ended because the warden did"
        );
        ensure!(
            start.elapsed() < Duration::from_millis(1500),
            "{:?}",
            start.elapsed()
        );
        Ok(())
    })
}
