//! Ends that do not read: the other end waits, the gateway's memory does not grow, and the session can be ended.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use guard_tests::life::{limit, stage::Stage};

use crate::{duo::Duo, expect, greeted, greeting::Greeting, on_stage};

/// What the gateway may need more, KiB.
const ROOM: u64 = 16 << 10;

fn grew(duo: &Duo, before: u64) -> Result<()> {
    let after = duo.peak()?;
    eprintln!("most memory of the gateway, KiB: {before} -> {after}");
    ensure!(after < before + ROOM, "memory grew from {before} to {after} KiB");
    Ok(())
}

const HELLO: &str = "\"hello\"";

/// A greeted session whose client reads nothing; the answer to its greeting is on the way.
fn unread(stage: &Stage) -> Result<Duo> {
    let mut duo = Duo::start_unread(stage)?;
    let greeting = Greeting::default();
    let number = duo.forwarded(HELLO, |id| greeting.question(id))?;
    duo.server(greeting.answer(&number.to_string()))?;
    Ok(duo)
}

/// The client reads nothing while the server says 48 MiB; then it gets all, in order.
#[test]
fn a_client_that_does_not_read() -> Result<()> {
    on_stage(|stage| {
        let mut duo = unread(stage)?;
        let said = |id: &str, at: usize| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"at":{at},"v":"{}"}}}}"#,
                "s".repeat(48 << 10)
            )
        };
        let mut numbers = Vec::new();
        for at in 0..1000 {
            numbers.push(duo.call(&at.to_string())?);
        }
        let before = duo.peak()?;
        for (at, number) in numbers.iter().enumerate() {
            duo.server(said(&number.to_string(), at))?;
        }
        thread::sleep(Duration::from_millis(1500));
        // The other direction does not wait for it.
        let told = r#"{"jsonrpc":"2.0","method":"vendor/told"}"#;
        duo.client(told)?;
        duo.server_gets(told)?;
        grew(&duo, before)?;
        duo.read();
        duo.client_gets(&Greeting::default().answer(HELLO))?;
        for at in 0..1000 {
            duo.client_gets(&said(&at.to_string(), at))?;
        }
        duo.works()?;
        duo.leave()
    })
}

/// Each bad line has an answer, and nobody takes them.
#[test]
fn a_client_that_errs_and_does_not_read() -> Result<()> {
    on_stage(|stage| {
        let mut duo = unread(stage)?;
        let before = duo.peak()?;
        duo.client_raw("nonsense\n".repeat(200_000))?;
        thread::sleep(Duration::from_millis(1500));
        grew(&duo, before)?;
        duo.read();
        let (mut errors, greeting) = (0, Greeting::default().answer(HELLO));
        let mut greetings = 0;
        while errors + greetings < 200_001 {
            let line = duo.at_client()?;
            if line == greeting {
                greetings += 1;
            } else {
                expect::error(&line, "null", -32700, "form", "json")?;
                errors += 1;
            }
        }
        ensure!(greetings == 1, "{greetings} answers to one greeting");
        duo.works()?;
        duo.leave()
    })
}

#[test]
fn a_server_that_does_not_read() -> Result<()> {
    greeted(|duo| {
        let told = format!(
            r#"{{"jsonrpc":"2.0","method":"vendor/told","params":{{"v":"{}"}}}}"#,
            "t".repeat(16 << 10)
        );
        duo.deed("hold", b"")?;
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        duo.server(note)?;
        duo.client_gets(note)?;
        let before = duo.peak()?;
        for _ in 0..3000 {
            duo.client(&told)?;
        }
        thread::sleep(Duration::from_millis(1500));
        // The other direction does not wait for it.
        duo.server(note)?;
        duo.client_gets(note)?;
        grew(duo, before)?;
        duo.deed("go", b"")?;
        for _ in 0..3000 {
            duo.server_gets(&told)?;
        }
        duo.works()
    })
}

/// It asks what nobody answers, and does not hear that. It harms itself alone: its client can leave.
#[test]
fn a_server_that_asks_and_does_not_read() -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        duo.greet(&Greeting::default())?;
        duo.deed("hold", b"")?;
        let before = duo.peak()?;
        let asks = r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}"#;
        duo.server_raw(format!("{asks}\n").repeat(200_000))?;
        thread::sleep(Duration::from_millis(1500));
        grew(&duo, before)?;
        let start = Instant::now();
        duo.client_closes();
        ensure!(duo.rest()?.is_empty(), "the client got something");
        duo.ends()?;
        let took = start.elapsed();
        ensure!(took < limit(Duration::from_secs(2)), "the end took {took:?}");
        Ok(())
    })
}

/// How long the end of a session may take whose server reads nothing: a second until that counts, the ladder, and room.
const OVER: Duration = Duration::from_secs(8);

fn is_over(duo: &mut Duo) -> Result<()> {
    let left = Instant::now();
    duo.ends()?;
    ensure!(left.elapsed() < OVER, "over after {:?}", left.elapsed());
    Ok(())
}

/// What its client wrote fills the pipe, so that nobody reads the client's end any more.
#[test]
fn a_client_leaves_a_server_that_does_not_read() -> Result<()> {
    on_stage(|stage| {
        let mut duo = unread(stage)?;
        duo.read();
        duo.client_gets(&Greeting::default().answer(HELLO))?;
        duo.deed("hold", b"")?;
        let told = format!(
            r#"{{"jsonrpc":"2.0","method":"vendor/told","params":{{"v":"{}"}}}}"#,
            "t".repeat(16 << 10)
        );
        // More than the server's pipe has room for, less than what is between it and the client.
        for _ in 0..9 {
            duo.client(&told)?;
        }
        thread::sleep(Duration::from_millis(500));
        duo.client_closes();
        is_over(&mut duo)
    })
}

/// Our own answers to its requests do.
#[test]
fn a_client_leaves_a_server_that_asks_and_does_not_read() -> Result<()> {
    on_stage(|stage| {
        let mut duo = unread(stage)?;
        duo.read();
        duo.client_gets(&Greeting::default().answer(HELLO))?;
        duo.deed("hold", b"")?;
        for id in 0..4000 {
            duo.server(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"vendor/ask"}}"#))?;
        }
        thread::sleep(Duration::from_millis(500));
        duo.client(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#)?;
        thread::sleep(Duration::from_millis(500));
        duo.client_closes();
        is_over(&mut duo)
    })
}
