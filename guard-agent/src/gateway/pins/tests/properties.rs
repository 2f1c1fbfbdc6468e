//! What holds for every list.

use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;

/// A value; keys of schemas among its keys, so that sets and schemas come up.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ab]".prop_map(Value::from),
    ];
    let key = prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "required",
            "enum",
            "type",
            "properties",
            "items",
            "anyOf",
            "default",
            "$defs"
        ])
        .prop_map(str::to_owned)
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((key.clone(), inner), 0..6).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn definition() -> impl Strategy<Value = Value> {
    (value(), value(), any::<String>()).prop_map(|(schema, meta, description)| {
        json!({"name": "t", "description": description, "inputSchema": schema, "_meta": {"x": meta}})
    })
}

/// Writes a value in another way: other blanks, other escapes, keys in another order.
fn otherwise(value: &Value, seed: &mut u64, out: &mut String) {
    let mut next = |most: u64| {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % most
    };
    out.push_str(["", " ", "\t", "  "][next(4) as usize]);
    match value {
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            if !members.is_empty() {
                let turn = next(members.len() as u64) as usize;
                members.rotate_left(turn);
            }
            if next(2) == 1 {
                members.reverse();
            }
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if index > 0 { " ," } else { "" });
                text(key, seed, out);
                out.push_str(" :");
                otherwise(value, seed, out);
            }
            out.push('}');
        }
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { "\t," } else { "" });
                otherwise(element, seed, out);
            }
            out.push(']');
        }
        Value::String(string) => text(string, seed, out),
        other => out.push_str(&other.to_string()),
    }
    out.push(' ');
}

fn text(text: &str, seed: &mut u64, out: &mut String) {
    *seed = seed.wrapping_add(1);
    if seed.is_multiple_of(2) {
        out.push_str(&serde_json::to_string(text).unwrap());
        return;
    }
    out.push('"');
    for unit in text.encode_utf16() {
        out.push_str(&format!("\\u{unit:04x}"));
    }
    out.push('"');
}

/// Another value in the place of the leaf that `which` chooses. It is a new one, so no set has it already.
fn change(value: &mut Value, which: &Index) {
    fn leaves(value: &Value) -> usize {
        match value {
            Value::Object(map) if !map.is_empty() => map.values().map(leaves).sum(),
            Value::Array(elements) if !elements.is_empty() => elements.iter().map(leaves).sum(),
            _ => 1,
        }
    }
    fn set(value: &mut Value, at: &mut usize) {
        match value {
            Value::Object(map) if !map.is_empty() => map.values_mut().for_each(|value| set(value, at)),
            Value::Array(elements) if !elements.is_empty() => {
                elements.iter_mut().for_each(|value| set(value, at));
            }
            _ => {
                if *at == 0 {
                    *value = json!("another leaf altogether");
                }
                *at = at.wrapping_sub(1);
            }
        }
    }
    let mut at = which.index(leaves(value));
    set(value, &mut at);
}

fn pin(text: &str) -> crate::audit::Digest {
    Definition::read(text.as_bytes(), &[], &Limits::default())
        .unwrap()
        .pin()
}

/// Selectors and joiners aside, which some text has a reason for.
fn hidden() -> impl Strategy<Value = char> {
    prop::char::ranges(std::borrow::Cow::Borrowed(&[
        '\0'..='\u{8}',
        '\u{7f}'..='\u{9f}',
        '\u{ad}'..='\u{ad}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{206f}',
        '\u{fe00}'..='\u{fe0d}',
        '\u{e0000}'..='\u{e0fff}',
    ]))
}

proptest! {
    #[test]
    fn however_it_is_written_the_pin_is_the_same(definition in definition(), seed: u64) {
        let (mut other, mut seed) = (String::new(), seed);
        otherwise(&definition, &mut seed, &mut other);
        prop_assert_eq!(pin(other.trim()), pin(&definition.to_string()));
        prop_assert_eq!(&Diff::of(&read(&definition).unwrap(), &Definition::read(other.trim().as_bytes(), &[], &Limits::default()).unwrap(), &[]).changes, &[]);
    }

    #[test]
    fn a_change_of_any_leaf_moves_the_pin_and_is_shown(definition in definition(), which: Index) {
        let mut changed = definition.clone();
        changed.as_object_mut().unwrap().remove("name");
        change(&mut changed, &which);
        changed["name"] = json!("t");
        prop_assert_ne!(pin(&changed.to_string()), pin(&definition.to_string()));
        let diff = Diff::of(&read(&definition).unwrap(), &read(&changed).unwrap(), &[]);
        prop_assert!(!diff.changes.is_empty());
        prop_assert!(diff.to_string().chars().all(|one| one == '\n' || !looks::hidden(one)));
    }

    #[test]
    fn a_canonical_form_says_the_same_and_is_its_own(definition in definition()) {
        let text = definition.to_string();
        let canonical = tree::Node::read(text.as_bytes(), 64).unwrap().settled(&[]).canonical();
        let again = tree::Node::read(&canonical, 64).unwrap().settled(&[]).canonical();
        prop_assert_eq!(&again, &canonical);
        // Key order and order within sets apart it is the same value: its leaves are.
        let count = |value: &[u8]| { let mut bytes: Vec<u8> = value.to_vec(); bytes.sort_unstable(); bytes };
        prop_assert_eq!(count(&canonical), count(&serde_json::to_vec(&definition).unwrap()));
    }

    #[test]
    fn pages_and_order_move_no_pin(names in prop::collection::btree_set("[a-z]{1,6}", 1..20), cut: Index, turn: Index) {
        let tools: Vec<Value> = names.iter().map(|name| tool(name, name)).collect();
        let pins = |list: &Definitions| {
            list.tools().iter().map(|tool| (tool.name().to_owned(), tool.pin())).collect::<BTreeMap<_, _>>()
        };
        let mut turned = tools.clone();
        turned.rotate_left(turn.index(tools.len()));
        let (one, two) = turned.split_at(cut.index(tools.len()));
        let paged = Definitions::default().page(&page(one)).unwrap().page(&page(two)).unwrap();
        prop_assert_eq!(pins(&paged), pins(&list(&tools)));
    }

    #[test]
    fn what_is_left_is_what_was_kept(names in vec("[a-d]", 0..8), dropped in "[a-d]{0,3}", seed: u64) {
        let tools: Vec<Value> = names.iter().map(|name| tool(name, "x")).collect();
        let whole = json!({"tools": tools, "ttlMs": 5, "cacheScope": "public", "_meta": {"tools": [1]}});
        let (mut text, mut seed) = (String::new(), seed);
        otherwise(&whole, &mut seed, &mut text);
        let left = Filter::Tools.apply(text.as_bytes(), |name| !dropped.contains(name)).unwrap();
        let mut expected = whole.clone();
        let kept: Vec<Value> = tools.iter().filter(|tool| !dropped.contains(tool["name"].as_str().unwrap())).cloned().collect();
        if kept.len() == tools.len() {
            prop_assert_eq!(left.as_ref(), text.as_bytes());
        } else {
            expected["tools"] = json!(kept);
            expected["ttlMs"] = json!(0);
            expected["cacheScope"] = json!("private");
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&left).unwrap(), expected);
        // Each kept tool is there byte for byte.
        let raw = Filter::Tools.apply(text.as_bytes(), |_| true).unwrap();
        prop_assert_eq!(raw.as_ref(), text.as_bytes());
    }

    /// Whatever a server sends, nothing panics.
    #[test]
    fn no_text_is_too_much(text: String, bytes: Vec<u8>) {
        let _ = rules_in_text(&text);
        let _ = Names::new([text.as_str()], [text.as_str()]);
        let _ = Definitions::default().page(&bytes);
        let _ = Filter::Tools.apply(&bytes, |_| false);
        let _ = text.parse::<Pointer>();
    }

    /// No hidden character by itself passes, whatever stands around it, but for the two excuses.
    #[test]
    fn what_is_hidden_in_plain_text_is_found(before in "[ -~]{0,20}", one in hidden(), after in "[ -~]{0,20}") {
        let text = format!("{before}{one}{after}");
        prop_assert!(!rules_in_text(&text).is_empty());
    }
}

proptest! {
    /// As long as nothing is cut: what stayed and went is the old text, what stayed and came the new one.
    #[test]
    fn the_parts_of_a_text_are_all_of_it(old in "([a-d]{1,3}[ .]{1,2}){25,30}", new in "([a-d]{1,3}[ .]{1,2}){25,30}") {
        let of = |text: &str| read(&tool("t", text)).unwrap();
        let diff = Diff::of(&of(&old), &of(&new), &[]);
        let (mut was, mut is) = (String::new(), String::new());
        for span in diff.changes.iter().flat_map(|change| &change.spans) {
            match span {
                Span::Same(text) => { was += text; is += text; }
                Span::Removed(text) => was += text,
                Span::Added(text) => is += text,
            }
        }
        let cut = diff.to_string().contains('…');
        let short = old.len().max(new.len()) <= 60;
        prop_assert!(cut || short || old == new || (was == old && is == new), "{:?}", diff);
    }
}
