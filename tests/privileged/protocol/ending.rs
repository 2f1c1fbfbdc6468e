//! The end of either side: every request in flight is answered exactly once.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::life::limit;

use crate::{
    duo::Duo,
    expect::{self, answer},
    greeted,
    greeting::Greeting,
    on_stage,
};

/// A greeted session that does not end in order.
pub(crate) fn doomed(test: impl FnOnce(&mut Duo) -> Result<()>) -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        duo.greet(&Greeting::default())?;
        test(&mut duo)?;
        duo.ends().map(drop)
    })
}

/// All kinds of ids.
fn ids(count: usize) -> Vec<String> {
    (0..count)
        .map(|at| match at % 4 {
            0 => at.to_string(),
            1 => format!("\"{}\"", at - 1),
            2 => format!("\"\\u0061{at}\""),
            _ => format!("{}", 9_007_199_254_740_993_u64 + at as u64),
        })
        .collect()
}

/// Each of these is told how the server ended, once, and there is no other line.
fn all_told(duo: &mut Duo, ids: &[String], how: &str) -> Result<()> {
    let lines = duo.rest()?;
    let mut open: BTreeSet<&String> = ids.iter().collect();
    for line in &lines {
        let told = ids
            .iter()
            .find(|id| line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)))
            .with_context(|| format!("nobody's: {}", expect::clipped(line)))?;
        expect::server_ended(line, told, how)?;
        ensure!(open.remove(told), "{told} is answered twice");
    }
    ensure!(open.is_empty(), "not answered: {open:?}");
    Ok(())
}

#[test]
fn a_crash_with_64_in_flight() -> Result<()> {
    doomed(|duo| {
        let ids = ids(64);
        for id in &ids {
            duo.call(id)?;
        }
        duo.deed("crash", b"")?;
        all_told(duo, &ids, r#""reason":"signaled","signal":9"#)
    })
}

#[test]
fn an_exit_after_some_answers() -> Result<()> {
    doomed(|duo| {
        let ids = ids(64);
        let numbers = ids.iter().map(|id| duo.call(id)).collect::<Result<Vec<_>>>()?;
        let said: String = numbers[..10]
            .iter()
            .map(|number| answer(&number.to_string()) + "\n")
            .collect();
        duo.server_raw(said)?;
        // Half an answer is none.
        duo.server_raw(&answer(&numbers[10].to_string())[..40])?;
        duo.deed("exit 3", b"")?;
        for id in &ids[..10] {
            duo.client_gets(&answer(id))?;
        }
        all_told(duo, &ids[10..], r#""reason":"exited","code":3"#)
    })
}

#[test]
fn an_exit_that_means_well() -> Result<()> {
    doomed(|duo| {
        let ids = ids(1);
        duo.call(&ids[0])?;
        duo.deed("exit 0", b"")?;
        all_told(duo, &ids, r#""reason":"exited","code":0"#)?;
        ensure!(duo.ends()?.code() == Some(1), "somebody waited for it");
        let said = duo.stderr();
        let told = "error: `puppet` ended before it answered a request of its client\n  why: it ended by itself, with status 0\n";
        ensure!(said.contains(told), "{said}");
        Ok(())
    })
}

#[test]
fn a_closed_stdout_and_then_an_exit() -> Result<()> {
    doomed(|duo| {
        let ids = ids(3);
        for id in &ids {
            duo.call(id)?;
        }
        duo.deed("close-out", b"")?;
        duo.deed("pause 200", b"")?;
        duo.deed("exit 4", b"")?;
        all_told(duo, &ids, r#""reason":"exited","code":4"#)
    })
}

/// What was said before the end is heard before it.
#[test]
fn the_last_words_come_first() -> Result<()> {
    doomed(|duo| {
        let ids = ids(2);
        for id in &ids {
            duo.call(id)?;
        }
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        duo.server(changed)?;
        duo.deed("crash", b"")?;
        duo.client_gets(changed)?;
        all_told(duo, &ids, r#""reason":"signaled","signal":9"#)
    })
}

#[test]
fn nothing_in_flight_is_nothing_to_tell() -> Result<()> {
    doomed(|duo| {
        let number = duo.call("1")?;
        duo.answered(number, "1")?;
        let number = duo.call("2")?;
        duo.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#)?;
        duo.server_gets(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{number}}}}}"#
        ))?;
        duo.deed("crash", b"")?;
        all_told(duo, &[], "")
    })
}

#[test]
fn a_crash_before_the_greeting_is_answered() -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        duo.forwarded("\"hello\"", |id| Greeting::default().question(id))?;
        duo.deed("crash", b"")?;
        all_told(
            &mut duo,
            &["\"hello\"".to_owned()],
            r#""reason":"signaled","signal":9"#,
        )?;
        duo.ends().map(drop)
    })
}

/// The client has said its last word and still gets what it is owed.
#[test]
fn an_answer_after_the_clients_end() -> Result<()> {
    greeted(|duo| {
        let (one, two) = (duo.call("1")?, duo.call("\"2\"")?);
        duo.client_closes();
        let early = duo.server_hears_within(Duration::from_millis(250));
        ensure!(
            early.is_none(),
            "with calls in flight the server's input brought {early:?}"
        );
        duo.answered(two, "\"2\"")?;
        duo.answered(one, "1")
        // `leave` sees the rest: the server's input ends, nothing else comes, the agent ends well.
    })
}

#[test]
fn the_clients_end_with_nothing_in_flight() -> Result<()> {
    doomed(|duo| {
        let number = duo.call("1")?;
        duo.answered(number, "1")?;
        let start = Instant::now();
        duo.client_closes();
        duo.server_sees_end()?;
        let took = start.elapsed();
        ensure!(
            took < limit(Duration::from_millis(600)),
            "the server heard of it after {took:?}"
        );
        duo.deed("exit 0", b"")?;
        ensure!(duo.rest()?.is_empty(), "nothing was owed");
        ensure!(duo.ends()?.success(), "the agent ended badly");
        Ok(())
    })
}

/// Nobody waits for ever.
#[test]
fn an_answer_that_does_not_come() -> Result<()> {
    doomed(|duo| {
        duo.call("\"never\"")?;
        let start = Instant::now();
        duo.client_closes();
        duo.server_sees_end()?;
        let took = start.elapsed();
        ensure!(
            took >= Duration::from_millis(900),
            "its time was {took:?}, less than the second"
        );
        ensure!(
            took < limit(Duration::from_millis(1800)),
            "it was waited for {took:?}"
        );
        duo.deed("exit 0", b"")?;
        all_told(duo, &["\"never\"".to_owned()], r#""reason":"exited","code":0"#)
    })
}
