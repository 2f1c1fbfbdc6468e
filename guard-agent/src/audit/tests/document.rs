//! `docs/audit.md` lists the fields there are, no more and no less.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/audit.md");

/// Members whose names are data.
const MAPS: [&str; 5] = [
    "enforcement",
    "detail",
    "resources.memory_events",
    "resources.pids_events",
    "resources.cpu_stat",
];

fn collect(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if members.contains_key("b64") => {}
        Value::Object(members) => {
            for (name, value) in members {
                let name = if MAPS.contains(&path) { "*" } else { name.as_str() };
                let path = if path.is_empty() {
                    name.to_owned()
                } else {
                    format!("{path}.{name}")
                };
                names.insert(path.clone());
                collect(value, &path, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, path, names)),
        _ => {}
    }
}

/// First column of the tables under a heading.
fn documented(heading: &str) -> BTreeSet<String> {
    let start = DOCUMENT
        .find(&format!("\n### {heading}\n"))
        .unwrap_or_else(|| panic!("no section `{heading}`"));
    let section = &DOCUMENT[start + 5..];
    let section = &section[..section.find("\n##").unwrap_or(section.len())];
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_document_lists_every_field_of_every_kind() {
    let envelope = documented("Envelope");
    let place = place();
    let mut trail = Trail::open(&place.dir, Options::default()).unwrap();
    for body in full() {
        trail.append(&body, Origin::Warden, Durability::Soon).unwrap();
    }
    trail.rotate_key().unwrap();
    trail.close().unwrap();
    let mut seen = BTreeSet::new();
    for record in records(&place.dir) {
        let kind = record.body.kind().name();
        if !seen.insert(kind) {
            continue;
        }
        let mut names = BTreeSet::new();
        collect(&serde_json::to_value(&record).unwrap(), "", &mut names);
        let own: BTreeSet<String> = names.difference(&envelope).cloned().collect();
        assert_eq!(envelope.difference(&names).count(), 0, "the envelope of `{kind}`");
        assert_eq!(own, documented(kind), "fields of `{kind}`");
    }
    assert_eq!(seen.len(), 5);
}

#[test]
fn the_document_lists_every_reason_and_gap() {
    for kind in [
        GapKind::TornTail,
        GapKind::UncleanClose,
        GapKind::RingFull,
        GapKind::OverBudget,
        GapKind::AllowedLost,
        GapKind::Unread,
        GapKind::WardenDied,
        GapKind::GatewayDied,
        GapKind::WriteFailed,
        GapKind::ProgramsSkipped,
        GapKind::HooksSkipped,
    ] {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        assert!(
            DOCUMENT.contains(&format!("`{}`", kind.name())),
            "{}",
            kind.name()
        );
    }
    let reasons = documented("Reasons");
    for reason in [
        Reason::MissingSegment,
        Reason::BadJson,
        Reason::DuplicateKey,
        Reason::UnknownVersion,
        Reason::BadEnvelope,
        Reason::WrongHash,
        Reason::NotCanonical,
        Reason::TooLong,
        Reason::TornLine,
        Reason::WrongSeq,
        Reason::WrongPrev,
        Reason::WrongCheckpoint,
        Reason::UnknownKey,
        Reason::UnannouncedKey,
        Reason::BadSignature,
    ] {
        let name = serde_json::to_value(reason).unwrap();
        assert!(reasons.contains(name.as_str().unwrap()), "{name}");
    }
    assert_eq!(reasons.len(), 15);
}
