//! The client goes: stdin closed, SIGTERM, the end, in this order and in time.

use std::{io::Write as _, time::Duration};

use anyhow::{Context as _, Result, ensure};
use guard_tests::life::{limit, stage::Stage};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{ended, exit_record, on_stage};

/// Clients lose patience after two seconds.
const PATIENT: Duration = Duration::from_secs(2);

/// Tells the server's words, closes its input, and how long the end took.
fn close(stage: &Stage, words: &[String]) -> Result<(guard_tests::life::stage::Done, Duration)> {
    let mut all = words.to_vec();
    all.insert(0, "say=ready".into());
    let mut session = stage.start(&mut stage.puppet(all))?;
    ensure!(session.line()? == "ready");
    let start = std::time::Instant::now();
    let done = session.finish()?;
    Ok((done, start.elapsed()))
}

fn told(stage: &Stage, name: &str) -> String {
    format!(
        "{name}={}",
        stage.work(name.trim_start_matches("tell-")).display()
    )
}

#[test]
fn a_server_that_ends_with_its_input() -> Result<()> {
    on_stage(|stage| {
        let words = [
            told(stage, "tell-term"),
            "until-eof".into(),
            told(stage, "told-eof"),
        ];
        let (done, took) = close(stage, &words)?;
        ended(&done, 0)?;
        ensure!(
            stage.work("told-eof").exists(),
            "the server did not see the end of its input"
        );
        ensure!(!stage.work("term").exists(), "it was told to end although it did");
        ensure!(took < limit(Duration::from_secs(1)), "it took {took:?}");
        let exit = exit_record(stage)?;
        ensure!(
            exit.field("reason").context("reason")? == "exited" && exit.field("code").context("code")? == 0,
            "{exit:?}"
        );
        Ok(())
    })
}

#[test]
fn a_server_that_ignores_the_end_of_its_input() -> Result<()> {
    on_stage(|stage| {
        // Sees the end, then stays until a SIGTERM that it does not handle.
        let words = ["until-eof".into(), told(stage, "told-eof"), "forever".into()];
        let (done, took) = close(stage, &words)?;
        ended(&done, 0)?;
        ensure!(
            stage.work("told-eof").exists(),
            "its input was not closed before the SIGTERM"
        );
        let exit = exit_record(stage)?;
        ensure!(
            exit.field("signal").context("signal")? == 15,
            "not ended by SIGTERM: {exit:?}"
        );
        ensure!(
            took >= Duration::from_millis(1000),
            "the SIGTERM came after {took:?}, before its time"
        );
        ensure!(took < limit(PATIENT), "it took {took:?}");
        Ok(())
    })
}

#[test]
fn a_server_that_ignores_everything() -> Result<()> {
    on_stage(|stage| {
        let words = [
            told(stage, "tell-term"),
            "until-eof".into(),
            told(stage, "told-eof"),
            "daemons=2".into(),
            "forever".into(),
        ];
        let (done, took) = close(stage, &words)?;
        ended(&done, 0)?;
        ensure!(stage.work("told-eof").exists(), "its input was not closed first");
        ensure!(
            stage.work("term").exists(),
            "it was killed without a SIGTERM before"
        );
        let exit = exit_record(stage)?;
        ensure!(
            exit.field("signal").context("signal")? == 9,
            "not killed: {exit:?}"
        );
        ensure!(
            took >= Duration::from_millis(1500),
            "killed after {took:?}, before its time"
        );
        ensure!(took < limit(PATIENT), "it took {took:?}");
        Ok(())
    })
}

#[test]
fn an_answer_owed_at_the_end_is_delivered() -> Result<()> {
    on_stage(|stage| {
        let done = stage.finish(&mut stage.puppet(["answer-after=500"]), b"question\n")?;
        ended(&done, 0)?;
        ensure!(done.text() == "answer question\n", "it said {:?}", done.text());
        Ok(())
    })
}

/// A server that drops its work at the end of its input gets that end only after its answer.
#[test]
fn an_answer_owed_keeps_the_input_open() -> Result<()> {
    on_stage(|stage| {
        let words = ["answer-or-leave=600"];
        let mut session = stage.start(&mut stage.puppet(words))?;
        session
            .stdin
            .as_mut()
            .context("no input")?
            .write_all(b"question\n")?;
        let done = session.finish()?;
        ended(&done, 0)?;
        ensure!(done.text() == "answer question\n", "it said {:?}", done.text());
        Ok(())
    })
}

fn signalled(signal: Signal) -> Result<()> {
    on_stage(|stage| {
        let words = [
            told(stage, "tell-term"),
            "daemons=2".into(),
            "say=ready".into(),
            "forever".into(),
        ];
        let mut session = stage.start(&mut stage.puppet(words))?;
        ensure!(session.line()? == "ready");
        let start = std::time::Instant::now();
        kill(Pid::from_raw(session.pid()), signal)?;
        // The input stays open: the signal alone ends it.
        let done = session.wait()?;
        let took = start.elapsed();
        ended(&done, 0)?;
        ensure!(took < limit(PATIENT), "it took {took:?}");
        eprintln!("{signal}: {took:?}");
        ensure!(stage.work("term").exists(), "the server was not told");
        let exit = exit_record(stage)?;
        ensure!(
            exit.field("signal").context("signal")? == 9,
            "it ignores SIGTERM and was not killed: {exit:?}"
        );
        Ok(())
    })
}

#[test]
fn sigterm_ends_it() -> Result<()> {
    signalled(Signal::SIGTERM)
}

#[test]
fn sigint_ends_it() -> Result<()> {
    signalled(Signal::SIGINT)
}

#[test]
fn sighup_ends_it() -> Result<()> {
    signalled(Signal::SIGHUP)
}

/// A server that has attempts refused without a pause does not keep the warden from ending it.
#[test]
fn a_server_that_floods_the_warden() -> Result<()> {
    on_stage(|stage| {
        let socket = stage.work("socket");
        let outside = std::os::unix::net::UnixListener::bind(&socket)?;
        let attempt = format!("connect={}", socket.display());
        let mut words = vec!["stubborn".to_owned(), "connect=127.0.0.1:9".into()];
        words.extend(std::iter::repeat_n(attempt, 4));
        words.extend([
            "say=ready".into(),
            "sleep=300".into(),
            "say=busy".into(),
            "forever".into(),
        ]);
        let mut session = stage.start(&mut stage.puppet(words))?;
        ensure!(session.line()? == "ready" && session.line()? == "busy");
        let (done, took) = {
            let start = std::time::Instant::now();
            (session.finish()?, start.elapsed())
        };
        drop(outside);
        ended(&done, 0)?;
        ensure!(took < limit(PATIENT), "it took {took:?}");
        let exit = exit_record(stage)?;
        ensure!(
            exit.field("cause").context("cause")? == "gateway: it asked to",
            "{exit:?}"
        );
        let denied = stage
            .records()?
            .iter()
            .filter(|record| record.kind == "kernel")
            .count();
        ensure!(denied > 0, "it was refused nothing: no flood");
        Ok(())
    })
}

/// Closes its stdin and goes on: no reason to end it, and its words arrive.
#[test]
fn a_server_that_closes_its_input() -> Result<()> {
    on_stage(|stage| {
        let mut session =
            stage.start(&mut stage.puppet(["close-stdin", "say=closed", "sleep=2500", "say=late"]))?;
        ensure!(session.line()? == "closed");
        let mut stdin = session.stdin.take().context("no input")?;
        stdin.write_all(b"nobody reads this\n")?;
        ensure!(
            session.line()? == "late",
            "it was ended because it closed its input"
        );
        let done = session.wait()?;
        drop(stdin);
        ended(&done, 0)
    })
}

/// The client reads nothing of ours at all and closes its end: still over in time.
#[test]
fn a_client_that_does_not_read_our_errors() -> Result<()> {
    on_stage(|stage| {
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        let mut command = stage.puppet(["say=ready", "stubborn", "complain-bytes=400000", "forever"]);
        command.stderr(writer);
        let mut session = stage.start(&mut command)?;
        drop(command);
        ensure!(session.line()? == "ready");
        std::thread::sleep(Duration::from_millis(300));
        let start = std::time::Instant::now();
        let done = session.finish()?;
        let took = start.elapsed();
        drop(reader);
        ensure!(done.code() == Some(0), "ended with {}", done.status);
        ensure!(
            took < limit(PATIENT + Duration::from_millis(500)),
            "it took {took:?}"
        );
        Ok(())
    })
}
