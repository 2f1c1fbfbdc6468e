//! What a trail must tell, whoever died.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::records::Record;

fn of<'a>(record: &'a Record, name: &str) -> &'a str {
    record.field(name).and_then(|value| value.as_str()).unwrap_or_default()
}

/// Records of one kind.
#[must_use]
pub fn kind<'a>(records: &'a [Record], kind: &str) -> Vec<&'a Record> {
    records.iter().filter(|record| record.kind == kind).collect()
}

/// Every launch has exactly one exit, after it; an exit without a launch stands behind a gap that says why.
///
/// # Errors
/// When a session is told wrongly.
pub fn complete(records: &[Record]) -> Result<()> {
    let mut open: BTreeMap<String, u64> = BTreeMap::new();
    let mut gaps: Vec<String> = Vec::new();
    for record in records {
        let session = of(record, "session").to_owned();
        match record.kind.as_str() {
            "launch" => {
                ensure!(open.insert(session.clone(), record.seq).is_none(), "`{session}` is launched twice");
            }
            "gap" => gaps.push(session),
            "exit" => {
                let launched = open.remove(&session).is_some();
                ensure!(
                    launched || gaps.contains(&session),
                    "record {}: `{session}` ends without a launch and without a gap",
                    record.seq
                );
            }
            _ => {}
        }
    }
    ensure!(open.is_empty(), "launched and never ended (session, record): {open:?}");
    Ok(())
}

/// A field of a record as text.
#[must_use]
pub fn text<'a>(record: &'a Record, name: &str) -> &'a str {
    of(record, name)
}
