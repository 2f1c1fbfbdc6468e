//! Records, lines, hashes.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::audit::chain::{LineError, strict};

#[test]
fn every_kind_comes_back_as_it_was() {
    let place = place();
    let mut trail = Trail::open(&place.dir, Options::default()).unwrap();
    for body in full() {
        trail.append(&body, Origin::Gateway, Durability::Soon).unwrap();
    }
    trail.close().unwrap();
    let records = records(&place.dir);
    let bodies: Vec<Body> = records.iter().map(|record| record.body.clone()).collect();
    assert_eq!(bodies[..4], full());
    assert!(matches!(bodies[4], Body::Checkpoint(_)));
    assert_eq!(
        records.iter().map(|record| record.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(records[0].origin, Origin::Gateway);
    assert_eq!(good(&place.dir).records, 5);
}

/// What the contract promises to a reader who has never seen our code: parse, take `hash` out, write canonically.
#[test]
fn the_hash_is_that_of_the_canonical_record_without_it() {
    let place = place();
    closed(&place.dir, Options::default(), 3);
    let text = fs::read_to_string(&segments(&place.dir)[0]).unwrap();
    let mut prev = None;
    for line in text.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        let hash = value.as_object_mut().unwrap().remove("hash").unwrap();
        let canonical = serde_json_canonicalizer::to_vec(&value).unwrap();
        let digest = Sha256::digest(&canonical)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        assert_eq!(hash, format!("sha256:{digest}"));
        if let Some(prev) = prev {
            assert_eq!(value["prev"], prev);
        }
        prev = Some(hash);
    }
}

/// The canonical form of the RFC's own rules, written out by hand.
#[test]
fn a_line_is_byte_for_byte_what_the_document_says() {
    let body = Body::Gap(Gap::unknown(Some("s\u{e9}\n".into()), GapKind::WardenDied));
    let unhashed = crate::audit::chain::Unhashed {
        v: VERSION,
        seq: 7,
        time: Stamp::from_micros(0),
        origin: Origin::Warden,
        prev: Digest([0xab; 32]),
        body: &body,
    };
    let (line, hash) = unhashed.encode().unwrap();
    let expected = format!(
        concat!(
            r#"{{"gap":{{"kind":"warden-died","lost":null}},"kind":"gap","origin":"warden","prev":"sha256:{}","#,
            r#""seq":7,"session":"sé\n","time":"1970-01-01T00:00:00.000000Z","v":1,"hash":"{}"}}"#,
            "\n"
        ),
        "ab".repeat(32),
        hash
    );
    assert_eq!(String::from_utf8(line).unwrap(), expected);
}

fn hashed(body: &str) -> Vec<u8> {
    let hash = Digest::of(&[body.as_bytes()]);
    format!("{},\"hash\":\"{hash}\"}}", body.strip_suffix('}').unwrap()).into_bytes()
}

#[test]
fn lines_with_a_right_hash_are_still_checked() {
    let zero = Digest([0; 32]);
    let envelope =
        format!(r#""origin":"warden","prev":"{zero}","seq":1,"time":"2026-01-01T00:00:00.000000Z","v":1}}"#);
    assert!(
        strict(&hashed(&format!(r#"{{"kind":"later",{envelope}"#))).is_ok(),
        "unknown kinds are records too"
    );
    let twice = strict(&hashed(&format!(r#"{{"a":1,"a":1,"kind":"x",{envelope}"#))).unwrap_err();
    assert!(matches!(twice, LineError::DuplicateKey(_)), "{twice:?}");
    let deep = strict(&hashed(&format!(
        r#"{{"a":{{"b":1,"b":2}},"kind":"x",{envelope}"#
    )))
    .unwrap_err();
    assert!(matches!(deep, LineError::DuplicateKey(_)), "{deep:?}");
    let spaced = strict(&hashed(&format!(r#"{{"kind": "x",{envelope}"#))).unwrap_err();
    assert_eq!(spaced, LineError::NotCanonical);
    let unordered = strict(&hashed(&format!(r#"{{"zzz":1,"kind":"x",{envelope}"#))).unwrap_err();
    assert_eq!(unordered, LineError::NotCanonical);
    let merged = strict(&hashed(&format!(
        r#"{{"a":9007199254740993,"kind":"x",{envelope}"#
    )))
    .unwrap_err();
    assert_eq!(merged, LineError::NotCanonical);
    let version = strict(&hashed(&format!(
        r#"{{"kind":"x",{}"#,
        envelope.replace("\"v\":1", "\"v\":2")
    )))
    .unwrap_err();
    assert!(matches!(version, LineError::Version(_)), "{version:?}");
    let bare = strict(&hashed(r#"{"v":1}"#)).unwrap_err();
    assert!(matches!(bare, LineError::Envelope(_)), "{bare:?}");
    assert!(matches!(strict(b"{").unwrap_err(), LineError::Json(_)));
}

#[test]
fn an_oversized_record_is_refused_and_the_next_one_goes_on() {
    let place = place();
    let mut trail = Trail::open(&place.dir, Options::default()).unwrap();
    fill(&mut trail, 1);
    let big = Body::Exit(Box::new(Exit {
        session: String::new(),
        call: None,
        server: String::new(),
        reason: "x".repeat(MAX_RECORD),
        code: None,
        signal: None,
        duration_us: Number(0),
        resources: None,
        stderr_tail: None,
        cause: None,
        degraded: None,
    }));
    let error = trail.append(&big, Origin::Warden, Durability::Soon).unwrap_err();
    assert!(matches!(error, AuditError::TooLarge { .. }), "{error}");
    assert_eq!(
        trail.append(&allow(1), Origin::Warden, Durability::Soon).unwrap(),
        2
    );
    trail.close().unwrap();
    good(&place.dir);
}
