//! Many at once: nothing hangs, nothing is mixed up, nothing grows.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::life::{chance::Chance, limit};
use serde_json::Value;

use crate::{
    duo::{Duo, End},
    expect::{self, answer},
    greeted,
    greeting::Greeting,
    on_stage,
    pipes::Heard,
};

const CALLS: usize = 10_000;
/// In flight at once, at most.
const WINDOW: usize = 200;
const OVER: &str = r#"{"jsonrpc":"2.0","method":"test/over"}"#;

/// The id of the call with this number: texts and numbers that look alike.
fn id(at: usize) -> String {
    match at % 3 {
        0 => at.to_string(),
        1 => format!("\"{}\"", at - 1),
        _ => format!("\"\\u0061-{at}\""),
    }
}

fn call(at: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"n","arguments":{{"at":{at}}}}}}}"#,
        id(at)
    )
}

/// A server that answers in any order, and half of what was taken back too. Returns how often that was.
fn serve(end: &mut End<'_, Heard>, chance: &mut Chance, stop: &AtomicBool) -> Result<u32> {
    let (mut pending, mut cancelled): (Vec<(u64, u64)>, u32) = (Vec::new(), 0);
    let say = |(number, at): (u64, u64)| {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{"at":{at}}}}}"#);
        let order = format!("out {}\n{line}\n", line.len() + 1);
        end.say.send(order.into_bytes()).context("no orders taken")
    };
    loop {
        let heard = end.get.recv_timeout(Duration::from_millis(3));
        let line = match heard {
            Ok(Heard::Line(line)) => line,
            Ok(Heard::End) => bail!("the server's input ended"),
            Err(_) => {
                ensure!(!stop.load(Ordering::Relaxed), "the client has given up");
                pending.drain(..).try_for_each(say)?;
                continue;
            }
        };
        let message: Value = serde_json::from_slice(&line)?;
        match message["method"].as_str() {
            Some("tools/call") => {
                let number = message["id"].as_u64().context("no number")?;
                let at = message["params"]["arguments"]["at"].as_u64().context("no `at`")?;
                pending.push((number, at));
            }
            Some("notifications/cancelled") => {
                cancelled += 1;
                let number = message["params"]["requestId"].as_u64().context("no number")?;
                if chance.below(2) == 0 {
                    pending.retain(|(one, _)| *one != number);
                }
            }
            Some("test/over") => {
                pending.drain(..).try_for_each(say)?;
                return Ok(cancelled);
            }
            other => bail!("the server got {other:?}"),
        }
        while pending.len() > 60 || (!pending.is_empty() && chance.below(3) == 0) {
            let which = usize::try_from(chance.below(pending.len() as u64))?;
            say(pending.swap_remove(which))?;
        }
    }
}

/// What the client waits for, and what it has taken back.
#[derive(Default)]
struct Books {
    open: BTreeMap<String, usize>,
    given_up: BTreeMap<String, usize>,
    answered: usize,
}

impl Books {
    fn take(&mut self, line: &[u8]) -> Result<()> {
        let line = std::str::from_utf8(line)?;
        let (id, at) = line
            .strip_prefix(r#"{"jsonrpc":"2.0","id":"#)
            .and_then(|rest| rest.strip_suffix("}}"))
            .and_then(|rest| rest.split_once(r#","result":{"at":"#))
            .with_context(|| format!("the client got {line}"))?;
        let at: usize = at.parse()?;
        // An answer may have been on its way when the request was taken back; a second one is of no time.
        let wanted = self.open.remove(id).or_else(|| self.given_up.remove(id));
        ensure!(
            wanted == Some(at),
            "{id} is {wanted:?} and got the answer of {at}"
        );
        self.answered += 1;
        Ok(())
    }
}

fn use_it(end: &End<'_, Vec<u8>>, chance: &mut Chance) -> Result<(usize, u32)> {
    let (mut books, mut cancelled) = (Books::default(), 0);
    let next = |books: &mut Books| {
        let line = end.get.recv_timeout(limit(Duration::from_secs(20)));
        books.take(&line.with_context(|| format!("nothing came; {} are open", books.open.len()))?)
    };
    for at in 0..CALLS {
        while books.open.len() >= WINDOW {
            next(&mut books)?;
        }
        books.open.insert(id(at), at);
        end.say.send(format!("{}\n", call(at)).into_bytes())?;
        while let Ok(line) = end.get.try_recv() {
            books.take(&line)?;
        }
        if chance.below(8) == 0 {
            let which = usize::try_from(chance.below(books.open.len().max(1) as u64))?;
            let Some((id, at)) = books.open.iter().nth(which).map(|(id, at)| (id.clone(), *at)) else {
                continue;
            };
            books.open.remove(&id);
            let line = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            );
            end.say.send(format!("{line}\n").into_bytes())?;
            books.given_up.insert(id, at);
            cancelled += 1;
        }
    }
    end.say.send(format!("{OVER}\n").into_bytes())?;
    while !books.open.is_empty() {
        next(&mut books)?;
    }
    Ok((books.answered, cancelled))
}

#[test]
fn ten_thousand_calls_some_taken_back() -> Result<()> {
    let mut chance = Chance::from_environment()?;
    eprintln!("seed {}", chance.seed);
    let mut other = Chance::new(chance.number());
    greeted(|duo| {
        let (client, mut server) = duo.apart()?;
        let (start, stop) = (Instant::now(), AtomicBool::new(false));
        let (used, served) = thread::scope(|scope| {
            let (server, other, stop) = (&mut server, &mut other, &stop);
            let served = scope.spawn(move || serve(server, other, stop));
            let used = use_it(&client, &mut chance);
            // One that failed does not say that it is over.
            stop.store(used.is_err(), Ordering::Relaxed);
            (used, served.join())
        });
        let (answered, cancelled) = used?;
        let forwarded = served.ok().context("the server panicked")??;
        eprintln!(
            "{answered} answered, {cancelled} taken back ({forwarded} heard of) in {:?}",
            start.elapsed()
        );
        ensure!(answered >= CALLS - cancelled as usize, "{answered} were answered");
        ensure!(
            cancelled > 500 && forwarded <= cancelled && forwarded > 0,
            "{cancelled}, {forwarded}"
        );
        // Nothing more is on its way to anybody.
        duo.works()
    })
}

#[test]
fn a_flood_on_stderr_beside_calls() -> Result<()> {
    greeted(|duo| {
        duo.deed(&format!("err-flood {}", 24 << 20), b"")?;
        let start = Instant::now();
        for at in 0..300 {
            let number = duo.call(&id(at))?;
            duo.answered(number, &id(at))?;
        }
        let took = start.elapsed();
        eprintln!("300 calls beside 24 MiB on stderr: {took:?}");
        duo.complains(&format!("[puppet] {}", "e".repeat(1023)))?;
        duo.works()
    })
}

/// Both talk at the same time, a mebibyte a message: neither waits for the other to stop.
#[test]
fn long_messages_both_ways_at_once() -> Result<()> {
    greeted(|duo| {
        let long = "l".repeat(1 << 20);
        let note =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{long}"}}}}"#);
        let told = format!(r#"{{"jsonrpc":"2.0","method":"vendor/told","params":{{"data":"{long}"}}}}"#);
        for _ in 0..24 {
            duo.client(&told)?;
            duo.server(&note)?;
        }
        for _ in 0..24 {
            duo.server_gets(&told)?;
            duo.client_gets(&note)?;
        }
        duo.works()
    })
}

/// A session that only just began and is over at once, again and again.
#[test]
fn short_sessions() -> Result<()> {
    on_stage(|stage| {
        for _ in 0..5 {
            let mut duo = Duo::start(stage)?;
            let number = duo.forwarded("1", |id| Greeting::default().question(id))?;
            duo.server(Greeting::default().answer(&number.to_string()))?;
            duo.client_gets(&Greeting::default().answer("1"))?;
            duo.leave()?;
        }
        let mut duo = Duo::start(stage)?;
        duo.client(expect::call("1"))?;
        let number = duo.takes(expect::call)?;
        duo.client_closes();
        duo.server(answer(&number.to_string()))?;
        duo.client_gets(&answer("1"))?;
        duo.leave()
    })
}
