//! However often something is tried: first record and repeats are as many as the attempts.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use guard_tests::acting::{Stage, VIEWS, act};

/// A number that is another one each time.
fn random(below: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes) % below + 1)
}

#[test]
fn repeats_add_up_to_the_attempts() -> Result<()> {
    for view in VIEWS {
        let mut stage = Stage::started(view)?;
        let counted = stage.at("outside/counted");
        let acts: [(&str, Value); 5] = [
            ("open", act("open", &counted)),
            ("truncate", act("truncate", &counted)),
            ("connect", json!({"act": "connect", "number": 9})),
            ("ptrace", json!({"act": "ptrace", "number": 1})),
            ("exec", act("exec", stage.at("rw/program"))),
        ];
        let mut sums = [0; 5];
        for round in 0..4 {
            for ((op, act), sum) in acts.iter().zip(&mut sums) {
                let most = if *op == "exec" { 20 } else { 400 };
                let times = random(most)?;
                let mut act = act.clone();
                act["times"] = times.into();
                act["who"] = if round == 1 { "thread" } else { "server" }.into();
                ensure!(stage.act(&act)? != "ok", "{view}: {op} was not refused");
                *sum += times;
            }
            // Some of it is told while the session lives, the rest at its end.
            if round < 3 {
                std::thread::sleep(Duration::from_millis(700));
            }
        }
        let told = stage.told()?;
        for ((op, _), sum) in acts.iter().zip(sums) {
            let of = |record: &Value| record["op"] == *op && record["decision"] == "deny";
            let count = told.count(of);
            ensure!(
                count == sum,
                "{view}: `{op}` was tried {sum} times, the records say {count}"
            );
            let first = told
                .kernel
                .iter()
                .filter(|record| of(record) && record["repeat"].is_null());
            ensure!(
                first.count() == 1,
                "{view}: `{op}` has more than one first record"
            );
        }
        ensure!(told.gaps.is_empty(), "{view}: {:?}", told.gaps);
    }
    Ok(())
}

/// A server that ends with its last attempts, while another fills the ring: what is still on its way is waited for.
#[test]
fn what_is_done_last_is_counted() -> Result<()> {
    let mut stage = Stage::new("private")?;
    let mut noisy = stage.agent().option("--name", "noisy").spawn()?;
    let noise = json!({"act": "flood", "path": stage.at("outside/noise"), "times": 100_000_000, "number": 2});
    noisy.send(&noise.to_string())?;
    // What the other sessions are told apart by is the last launch: this one is before them.
    stage.bench.wait_record(Duration::from_secs(20), |record| {
        record.kind == "launch" && record.body["server"] == "noisy"
    })?;
    for _ in 0..10 {
        let agent = stage.agent();
        stage.start(&agent)?;
        let times = 1000 + random(1000)?;
        let mut act = act("open", stage.at("outside/counted"));
        act["times"] = times.into();
        act["leave"] = true.into();
        stage.tell(&act)?;
        let told = stage.told()?;
        let count = told.count(|record| record["op"] == "open" && record["decision"] == "deny");
        let lost = told.gaps.iter().filter(|gap| gap["gap"]["kind"] == "ring-full");
        let lost: u64 = lost.filter_map(|gap| gap["gap"]["lost"].as_u64()).sum();
        ensure!(
            count + lost == times,
            "{times} times, told {count} and lost {lost}: {:?}",
            told.gaps
        );
    }
    Ok(())
}

#[test]
fn opened_files_of_roots_are_told_once_with_a_count() -> Result<()> {
    for view in VIEWS {
        let mut stage = Stage::started(view)?;
        let (reads, writes) = (random(50)?, random(50)?);
        for (name, times) in [("open", reads), ("open-write", writes)] {
            let mut act = act(name, stage.at("rw/twice"));
            act["times"] = times.into();
            ensure!(stage.act(&act)? == "ok");
        }
        // Of the sandbox's own and of the runtime: not worth a record.
        ensure!(stage.act(&act("open", "/proc/self/status"))? == "ok");
        let told = stage.told()?;
        let path = stage.text("rw/twice");
        for (rights, times) in [("r", reads), ("rw", writes)] {
            let of = |record: &Value| {
                record["path"] == path && record["rights"] == rights && record["op"] == "open"
            };
            ensure!(
                told.count(of) == times,
                "{view}: {rights}: {times} times: {:?}",
                told.kernel
            );
            ensure!(
                told.kernel
                    .iter()
                    .filter(|record| of(record))
                    .all(|record| record["decision"] == "allow")
            );
        }
        ensure!(told.about("open", "/proc/self/status").is_empty());
    }
    Ok(())
}
