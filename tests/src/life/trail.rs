//! What a trail must tell, whoever died.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::records::Record;

fn of<'a>(record: &'a Record, name: &str) -> &'a str {
    record
        .field(name)
        .and_then(|value| value.as_str())
        .unwrap_or_default()
}

/// Records of one kind.
#[must_use]
pub fn kind<'a>(records: &'a [Record], kind: &str) -> Vec<&'a Record> {
    records.iter().filter(|record| record.kind == kind).collect()
}

/// Every launch has an exit after it; where each call has a sandbox, each has its own. A session that ends twice, or without a launch, has a gap that says why: a
/// record that could not be confirmed may stand all the same.
///
/// # Errors
/// When a session is told wrongly.
pub fn complete(records: &[Record]) -> Result<()> {
    fn which(record: &Record) -> (&str, &str) {
        (of(record, "session"), of(record, "call"))
    }
    let mut open: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let gaps: Vec<_> = kind(records, "gap").into_iter().map(which).collect();
    for record in records {
        let session = which(record);
        match record.kind.as_str() {
            "launch" => {
                ensure!(
                    open.insert(session, record.seq).is_none(),
                    "{session:?} is launched twice"
                );
            }
            "exit" => {
                let launched = open.remove(&session).is_some();
                ensure!(
                    launched || gaps.contains(&session),
                    "record {}: {session:?} ends without a launch before it, or twice, and no gap says why",
                    record.seq
                );
            }
            _ => {}
        }
    }
    ensure!(
        open.is_empty(),
        "launched and never ended (session, record): {open:?}"
    );
    Ok(())
}

/// A field of a record as text.
#[must_use]
pub fn text<'a>(record: &'a Record, name: &str) -> &'a str {
    of(record, name)
}
