//! What holds for every input.

use proptest::{collection::vec, prelude::*};
use serde_json::Value;

use super::*;

/// Pieces that rules begin, match or end at, so that their combinations do.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec![
            "alice@example.org", "4111 1111 1111 1111", "378282246310005", "DE89370400440532013000",
            "+49 151 23456789", "078-05-1120", "12345678Z", "password", "token", "secret", "=", ": ", "\"", "'",
            "--", "://", "u:p4ss@", "@", "%40", "\\u0040", "\\", "%", "Bearer ", "Basic dXNlcjpodW50ZXIy", "eyJ", ".",
            " ", "\n", "[redacted:email]", "[redacted:", "]", "[redacted:card:0123456789ab]", "+", "-", "_",
            "d3JpdGUgdG8gYWxpY2VAZXhhbXBsZS5vcmcgdG9kYXk", "AKIA", "K7QX2MK7QX2MK7QX", "4", "ä", "cpf 52998224725",
            concat!("-----BEGIN PRIVATE", " KEY-----"), concat!("-----END PRIVATE", " KEY-----"),
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,12}",
        1 => any::<String>(),
    ]
}

fn text() -> impl Strategy<Value = String> {
    vec(piece(), 0..10).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::from(4_111_111_111_111_111_u64)),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
    ];
    let key = prop_oneof![
        text(),
        prop::sample::select(vec!["password", "content", "text", "name", "value"]).prop_map(str::to_owned)
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((key.clone(), inner), 0..5).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            vec(text(), 1..4).prop_map(|texts| {
                let blocks: Vec<Value> = texts
                    .iter()
                    .map(|text| serde_json::json!({"text": text}))
                    .collect();
                serde_json::json!({"content": blocks})
            }),
        ]
    })
}

/// What is the same in a value before and after: all but texts, and numbers that became texts.
fn same_shape(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|(before, after)| same_shape(before, after))
        }
        // Masked keys can be equal, so there is no telling which is which.
        (Value::Object(before), Value::Object(after)) => before.len() >= after.len(),
        (Value::String(_) | Value::Number(_), Value::String(_)) => true,
        (before, after) => before == after,
    }
}

fn rules() -> Rules {
    Rules::with(
        &[(RuleId::Email, Mode::Hash), (RuleId::NamedSecret, Mode::Hash)],
        Key::new([1; 32]),
    )
}

proptest! {
    #[test]
    fn matches_are_ordered_apart_and_whole_characters(text in text()) {
        let found = rules().find(&text);
        prop_assert_eq!(&found, &rules().find(&text));
        let mut last = 0;
        for Match { range, .. } in found {
            prop_assert!(range.start >= last && range.start < range.end);
            prop_assert!(text.get(range.clone()).is_some());
            last = range.end;
        }
    }

    #[test]
    fn what_is_outside_matches_stays(text in text()) {
        let out = String::from_utf8(rules().text(&text).bytes).unwrap();
        // What stands between the masks stands in the text, in that order, from its start to its end.
        let masks = mask::find(&out);
        let starts = std::iter::once(0).chain(masks.iter().map(|mask| mask.end));
        let ends = masks.iter().map(|mask| mask.start).chain([out.len()]);
        let kept: Vec<&str> = starts.zip(ends).map(|(start, end)| &out[start..end]).collect();
        let mut rest = text.strip_prefix(kept[0]).unwrap();
        for part in &kept[1..] {
            rest = &rest[rest.find(part).unwrap() + part.len()..];
        }
        prop_assert!(text.ends_with(kept[kept.len() - 1]));
        if masks.is_empty() {
            prop_assert_eq!(out, text);
        }
    }

    #[test]
    fn redacting_a_text_again_changes_nothing(text in text()) {
        let once = rules().text(&text).bytes;
        let once = String::from_utf8(once).unwrap();
        let again = String::from_utf8(rules().text(&once).bytes).unwrap();
        prop_assert_eq!(again, once);
    }

    #[test]
    fn a_value_keeps_its_shape_and_changes_once(value in value()) {
        let before = value.to_string();
        let once = rules().json(before.as_bytes()).unwrap();
        let after: Value = serde_json::from_slice(&once.bytes).unwrap();
        prop_assert!(same_shape(&value, &after), "{before}\n{after}");
        if once.matches.is_empty() {
            prop_assert_eq!(&once.bytes, before.as_bytes());
        }
        let again = rules().json(&once.bytes).unwrap();
        prop_assert_eq!(String::from_utf8(again.bytes), String::from_utf8(once.bytes));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200), text in any::<String>()) {
        let valid = serde_json::from_slice::<Value>(&bytes).is_ok();
        if valid {
            prop_assert!(Rules::default().json(&bytes).is_ok());
        }
        if let Ok(redacted) = Rules::default().json(&bytes) {
            prop_assert!(std::str::from_utf8(&redacted.bytes).is_ok());
        }
        Rules::default().find(&text);
    }

    #[test]
    fn a_damaged_value_gives_no_output(value in value(), cut in any::<prop::sample::Index>()) {
        let text = format!("[{value}]");
        let cut = cut.index(text.len());
        prop_assert!(rules().json(&text.as_bytes()[..cut]).is_err());
    }
}

/// An eighth of a megabyte takes less than a tenth of what is allowed, whatever it is made of and however busy the
/// machine is. A search that went back to the start for each match would take several times that.
#[test]
fn the_work_is_linear() {
    let begin = concat!("-----BEGIN PRIVATE", " KEY-----");
    for unit in [
        "a",
        "@a",
        "a@a.",
        "=",
        "pwd=",
        "pwd=\"",
        "cookie:",
        "--",
        "://",
        "-eyJ",
        "eyJ.eyJ",
        "sk-",
        "ya29.",
        "4 ",
        "4111 ",
        "+1 ",
        "DE89 ",
        "%41",
        "\\\\",
        "\\u0041",
        begin,
        "Bearer a",
        "[redacted:email] a@b.cc ",
        "[redacted:",
        "token ",
        "YWFh",
    ] {
        let text = unit.repeat(128 * 1024 / unit.len());
        let start = std::time::Instant::now();
        Rules::default().find(&text);
        let took = start.elapsed();
        assert!(took.as_secs() < 3, "{unit:?}: {took:?}");
    }
}
