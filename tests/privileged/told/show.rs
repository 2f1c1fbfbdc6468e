//! `guard-agent audit show` and what `audit query` finds of calls.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{programs, tier::Tier};

use crate::{duo::Duo, expect::answer, greet, on_stage};

fn audit(directory: &Path, words: &[&str]) -> Result<(Option<i32>, String, String)> {
    let out = Command::new(programs::agent()?)
        .arg("audit")
        .args(words)
        .arg("--audit")
        .arg(directory)
        .output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((out.status.code(), text(&out.stdout), text(&out.stderr)))
}

#[test]
fn a_call_with_what_happened_in_it() -> Result<()> {
    on_stage(|stage| {
        let mut sessions = Vec::new();
        for round in 1..=2 {
            let mut duo = Duo::start(stage)?;
            greet(&mut duo)?;
            let first = duo.call("1")?;
            let path = format!("/nowhere/first-{round}");
            duo.deed(&format!("open {}", path.len()), path.as_bytes())?;
            duo.answered(first, "1")?;
            // Two at once: whose it is nobody knows.
            let (second, third) = (duo.call("2")?, duo.call("3")?);
            let path = format!("/nowhere/both-{round}");
            duo.deed(&format!("open {}", path.len()), path.as_bytes())?;
            duo.server(answer(&second.to_string()))?;
            duo.client_gets(&answer("2"))?;
            duo.answered(third, "3")?;
            duo.refused("[]", "null", -32600, "batch")?;
            duo.leave()?;
            stage.nothing_left()?;
            let launch = stage
                .records()?
                .into_iter()
                .rfind(|record| record.kind == "launch");
            let session = launch.context("no launch")?.body["session"].clone();
            sessions.push(session.as_str().context("no session")?.to_owned());
        }
        let directory = stage.audit();
        let (code, text, _) = audit(&directory, &["show", &format!("{}.1", sessions[0])])?;
        ensure!(code == Some(0), "{code:?}: {text}");
        let begins = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        ensure!(
            text.starts_with(&format!("call 1 of session {}, server puppet\n", sessions[0])),
            "{text}"
        );
        ensure!(
            text.contains("\nwhat    tools/call do\n        {}\ngate    form: allow\n"),
            "{text}"
        );
        ensure!(begins("asked   20") == 1 && begins("end     20") == 1, "{text}");
        ensure!(text.contains(" ok after ") && text.contains("\"done\""), "{text}");
        if Tier::current()?.is_root() {
            ensure!(
                text.contains("deny open /nowhere/first-1 ") && !text.contains("both"),
                "{text}"
            );
            let (_, text, _) = audit(&directory, &["show", "--session", &sessions[1], "2"])?;
            let doubtful = text.lines().find(|line| line.contains("/nowhere/both-2"));
            ensure!(doubtful.is_some_and(|line| line.starts_with("  ? ")), "{text}");
        }
        // The last session's, when none is named.
        let (_, text, _) = audit(&directory, &["show", "3"])?;
        ensure!(
            text.starts_with(&format!("call 3 of session {}", sessions[1])),
            "{text}"
        );
        // The records are what `query` finds, too.
        let (_, shown, _) = audit(&directory, &["show", "--json", &format!("{}.1", sessions[0])])?;
        let found = audit(
            &directory,
            &["query", "--json", "--session", &sessions[0], "--call", "1"],
        )?
        .1;
        ensure!(
            !shown.is_empty() && shown == found,
            "{shown}\ninstead of\n{found}"
        );
        for (filter, count) in [
            (["--tool", "do"], 16),
            (["--tool", "undo"], 0),
            (["--status", "denied"], 2),
            (["--status", "ok"], 8),
        ] {
            let (code, found, _) = audit(&directory, &["query", filter[0], filter[1]])?;
            ensure!(
                code == Some(0) && found.lines().count() == count,
                "{filter:?}: {found}"
            );
        }
        Ok(())
    })
}

#[test]
fn what_is_not_on_record_is_said() -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        greet(&mut duo)?;
        duo.works()?;
        duo.leave()?;
        stage.nothing_left()?;
        let directory = stage.audit();
        for (words, code, what, fix) in [
            (
                &["show", "99"][..],
                1,
                "error: there is no call 99 on record",
                "audit query --kind call",
            ),
            (
                &["show", "s-0.1"],
                1,
                "error: there is no call 1 of session `s-0` on record",
                "audit query --kind call",
            ),
            (
                &["show", "one"],
                2,
                "error: cannot show call `one`",
                "s-0123456789ab.7",
            ),
            (
                &["show", "s-0."],
                2,
                "error: cannot show call `s-0.`",
                "s-0123456789ab.7",
            ),
            (
                &["query", "--tool", "x", "--kind", "kernel"],
                2,
                "error: cannot search for that",
                "leave one of the filters out",
            ),
        ] {
            let (got, text, said) = audit(&directory, words)?;
            ensure!(got == Some(code) && text.is_empty(), "{words:?}: {got:?}, {text}");
            ensure!(said.starts_with(what) && said.contains(fix), "{words:?}: {said}");
        }
        Ok(())
    })
}
