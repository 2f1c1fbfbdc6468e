//! What is sound passes, what readers differ in does not.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn flaw(text: impl AsRef<[u8]>) -> Option<Flaw> {
    scan(text.as_ref()).flaw
}

fn twice(text: &str) -> bool {
    let found = scan(text.as_bytes());
    assert_eq!(found.flaw, None, "{text}");
    found.duplicate.is_some()
}

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

#[test]
fn what_is_not_json_is_told_with_its_place() {
    let cases: [(&[u8], Flaw); 21] = [
        (b"{\"a\":\r{}}", Flaw::Grammar(5)),
        (b"\r{}", Flaw::Grammar(0)),
        (b"[1\r]", Flaw::Grammar(2)),
        (b"", Flaw::Grammar(0)),
        (b"\xef\xbb\xbf{}", Flaw::Grammar(0)),
        (b"{\"a\":NaN}", Flaw::Grammar(5)),
        (b"[1,]", Flaw::Grammar(3)),
        (b"{\"a\":1,}", Flaw::Grammar(7)),
        (b"[01]", Flaw::Grammar(2)),
        (b"[1.]", Flaw::Grammar(3)),
        (b"[-]", Flaw::Grammar(2)),
        (b"[1e]", Flaw::Grammar(3)),
        (b"[+1]", Flaw::Grammar(1)),
        (b"{} {}", Flaw::Grammar(3)),
        (b"[\"\n\"]", Flaw::Grammar(2)),
        (b"[\"\\x\"]", Flaw::Grammar(3)),
        (b"[\"\\u12g4\"]", Flaw::Grammar(6)),
        (b"[\"a", Flaw::Grammar(3)),
        (b"[\"\xff\"]", Flaw::Utf8(2)),
        (b"[\"\\ud800\"]", Flaw::Surrogate(2)),
        (b"[\"\\udc00\\ud800\"]", Flaw::Surrogate(2)),
    ];
    for (text, expected) in cases {
        assert_eq!(flaw(text), Some(expected), "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(flaw("[\"\\ud83d\\ude00\",1e999,-0,0.10E+2,\"\u{2028}\"]"), None);
}

#[test]
fn half_a_pair_becomes_the_sign_for_it() {
    let text = br#"{"a":"x\ud83d","b":"\ude00\ud83d\ude00\\ud83d\n","c":"\uD800\ud800\udc00"}"#;
    let mended = mended(text);
    assert_eq!(
        String::from_utf8(mended.clone()).unwrap(),
        r#"{"a":"x\ufffd","b":"\ufffd\ud83d\ude00\\ud83d\n","c":"\ufffd\ud800\udc00"}"#
    );
    assert!(flaw(text).is_some() && flaw(&mended).is_none());
}

#[test]
fn a_hundred_and_twenty_eight_levels_and_no_more() {
    assert_eq!(flaw(nested(128)), None);
    assert_eq!(flaw(nested(129)), Some(Flaw::Depth(128)));
    assert_eq!(flaw("[".repeat(100_000)), Some(Flaw::Depth(128)));
}

#[test]
fn a_key_that_stands_twice_is_found_at_every_depth_and_however_written() {
    assert!(twice(r#"{"a":1,"a":1}"#));
    assert!(twice(r#"{"a":1,"\u0061":1}"#));
    assert!(twice(r#"{"x":[{"y":{"k":1,"l":2,"k":3}}]}"#));
    assert!(!twice(r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}],"A":0}"#));
    let many = |last: &str| {
        let keys: Vec<String> = (0..1000).map(|key| format!("\"k{key}\":0")).collect();
        format!("{{{},{last}}}", keys.join(","))
    };
    assert!(twice(&many(r#""k\u0035":1"#)));
    assert!(!twice(&many(r#""k1000":1"#)));
}

#[test]
fn members_are_found_up_to_the_flaw() {
    let text = br#" {"id" : 7 , "p":{"x":[1,{"y":"}"}]},"m": "\"", "cut": [1, "#;
    let found = scan(text);
    assert!(found.flaw.is_some());
    let seen: Vec<(&[u8], &[u8])> = found
        .members
        .iter()
        .map(|member| (&text[member.key.clone()], &text[member.value.clone()]))
        .collect();
    let expected: [(&[u8], &[u8]); 3] = [
        (b"id", b"7"),
        (b"p", br#"{"x":[1,{"y":"}"}]}"#),
        (b"m", br#""\"""#),
    ];
    assert_eq!(seen, expected);
}

/// A value as its reader sees it, its keys in order.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_sound_passes_and_its_parts_are_found(value in value(), pretty: bool) {
        let text = if pretty { serde_json::to_vec_pretty(&value).map(|text| text.into_iter().map(|byte| if byte == b'\n' { b'\t' } else { byte }).collect()) } else { serde_json::to_vec(&value) }.unwrap();
        let found = scan(&text);
        prop_assert_eq!((found.flaw, found.duplicate), (None, None));
        prop_assert_eq!(&found.members, &members(&text, 0..text.len()));
        if let Value::Object(map) = &value {
            prop_assert_eq!(found.members.len(), map.len());
            for member in &found.members {
                let key = unescape(&text[member.key.clone()]).unwrap();
                let part: Value = serde_json::from_slice(&text[member.value.clone()]).unwrap();
                prop_assert_eq!(&part, &map[key.as_ref()]);
            }
        }
        if let Value::Array(list) = &value {
            let parts: Vec<Value> = elements(&text).into_iter()
                .map(|part| serde_json::from_slice(&text[part]).unwrap()).collect();
            prop_assert_eq!(&parts, list);
        }
    }

    /// Nothing passes that another reader refuses, but for numbers no double holds and for its own depth.
    #[test]
    fn nothing_passes_that_another_reader_refuses(text in prop::collection::vec(
        prop::sample::select(&b"{}[]:,\"\\u0d8 1e-.tfn\n\xc3\xa9a"[..]), 0..24)) {
        let ours = scan(&text).flaw.is_none();
        let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert!(!ours || theirs);
    }

    #[test]
    fn keys_are_told_apart_as_their_reader_does(keys in prop::collection::vec("[ab\\\\\u{e9}]{0,2}", 0..24)) {
        let members: Vec<String> = keys.iter().map(|key| format!("{}:0", serde_json::to_string(key).unwrap())).collect();
        let distinct = keys.iter().collect::<HashSet<_>>().len() == keys.len();
        prop_assert_eq!(twice(&format!("{{{}}}", members.join(","))), !distinct);
    }

    #[test]
    fn no_bytes_are_too_much_for_it(text: Vec<u8>) {
        let found = scan(&text);
        members(&text, 0..text.len());
        elements(&text);
        prop_assert!(found.flaw.is_some() || !text.is_empty());
    }
}
