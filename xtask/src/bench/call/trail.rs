//! What the agent left behind: a fast call that is on no record is none of ours.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::bench::Place;

#[derive(Deserialize)]
struct Record {
    kind: String,
    call: Option<String>,
    phase: Option<String>,
    status: Option<String>,
}

/// Begins and ends of one call.
#[derive(Default, PartialEq, Eq, Clone, Copy)]
struct Seen {
    begins: u32,
    ends: u32,
}

/// The chain is whole, and each of so many calls began once and ended once, well.
pub(super) fn check(place: &Place, audit: &Path, calls: u64) -> Result<()> {
    let verified = Command::new(&place.agent)
        .args(["audit", "verify", "--audit"])
        .arg(audit)
        .stdin(Stdio::null())
        .output()
        .context("start `audit verify`")?;
    ensure!(
        verified.status.success(),
        "`audit verify`: {}{}",
        String::from_utf8_lossy(&verified.stdout),
        String::from_utf8_lossy(&verified.stderr)
    );
    let mut seen: HashMap<String, Seen> = HashMap::new();
    for entry in fs::read_dir(audit).with_context(|| format!("list `{}`", audit.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|kind| kind != "jsonl") {
            continue;
        }
        let file = File::open(&path).with_context(|| format!("open `{}`", path.display()))?;
        for line in BufReader::new(file).lines() {
            count(&line?, &mut seen).with_context(|| format!("read `{}`", path.display()))?;
        }
    }
    each_once(&seen, calls)
}

fn count(line: &str, seen: &mut HashMap<String, Seen>) -> Result<()> {
    let record: Record = serde_json::from_str(line)?;
    if record.kind != "call" {
        return Ok(());
    }
    let call = record.call.context("a record of a call that names none")?;
    let seen = seen.entry(call).or_default();
    match record.phase.as_deref() {
        Some("begin") => seen.begins += 1,
        Some("end") => {
            ensure!(
                record.status.as_deref() == Some("ok"),
                "a call ended with {:?}",
                record.status
            );
            seen.ends += 1;
        }
        other => anyhow::bail!("a call's record has the phase {other:?}"),
    }
    Ok(())
}

fn each_once(seen: &HashMap<String, Seen>, calls: u64) -> Result<()> {
    let once = Seen { begins: 1, ends: 1 };
    let wrong: Vec<_> = seen.iter().filter(|(_, seen)| **seen != once).collect();
    if let Some((call, seen)) = wrong.first() {
        anyhow::bail!(
            "call {call} has {} begins and {} ends on record",
            seen.begins,
            seen.ends
        );
    }
    ensure!(
        seen.len() as u64 == calls,
        "{calls} calls were made, {} are on record",
        seen.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_its_end_or_twice_on_record_is_found() {
        let begin = r#"{"kind":"call","call":"c1","phase":"begin","v":1}"#;
        let end = r#"{"kind":"call","call":"c1","phase":"end","status":"ok"}"#;
        let of = |lines: &[&str]| {
            let mut seen = HashMap::new();
            lines.iter().try_for_each(|line| count(line, &mut seen))?;
            each_once(&seen, 1)
        };
        of(&[begin, end, r#"{"kind":"exit"}"#]).unwrap();
        for wrong in [&[begin][..], &[begin, end, end], &[begin, begin, end], &[]] {
            of(wrong).unwrap_err();
        }
        of(&[
            begin,
            r#"{"kind":"call","call":"c1","phase":"end","status":"error"}"#,
        ])
        .unwrap_err();
    }
}
