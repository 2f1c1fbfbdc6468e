//! What holds for all schemas and arguments.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// A schema, a value that is valid by it, and one that is not.
fn typed() -> impl Strategy<Value = (Value, Value, Value)> {
    prop_oneof![
        (any::<i32>(), 0..1000_i32).prop_map(|(least, more)| {
            let (least, value) = (i64::from(least), i64::from(least) + i64::from(more));
            (
                json!({"type":"integer","minimum":least}),
                json!(value),
                json!(least - 1),
            )
        }),
        ("[a-z]{1,8}").prop_map(|text| (
            json!({"type":"string","pattern":"^[a-z]+$"}),
            json!(text),
            json!(format!("{text}!"))
        )),
        (any::<String>()).prop_map(|text| (json!({"type":"string"}), json!(text), json!([text]))),
        any::<bool>().prop_map(|flag| (json!({"type":"boolean"}), json!(flag), json!("true"))),
        prop::collection::vec("[a-z]{1,4}", 1..4).prop_map(|options| (
            json!({"enum":options}),
            json!(options[0]),
            json!("NONE")
        )),
    ]
}

/// A schema of an object with these parameters.
fn object(params: &[(String, (Value, Value, Value))]) -> (String, Map<String, Value>) {
    let properties: Map<String, Value> = params
        .iter()
        .map(|(name, (schema, _, _))| (name.clone(), schema.clone()))
        .collect();
    let arguments = params
        .iter()
        .map(|(name, (_, value, _))| (name.clone(), value.clone()))
        .collect();
    let names: Vec<&String> = properties.keys().collect();
    (
        json!({"type":"object","properties":properties,"required":names}).to_string(),
        arguments,
    )
}

fn params() -> impl Strategy<Value = Vec<(String, (Value, Value, Value))>> {
    prop::collection::btree_map("[a-z/~]{1,6}", typed(), 1..6).prop_map(|params| params.into_iter().collect())
}

proptest! {
    #[test]
    fn what_is_valid_passes_and_one_wrong_field_is_told_at_its_place(params in params(), pick: prop::sample::Index, text in any::<String>()) {
        let (schema, arguments) = object(&params);
        let form = form(&schema);
        prop_assert_eq!(form.check(Some(Value::from(arguments.clone()).to_string().as_bytes())), Ok(()));
        let (name, (_, _, wrong)) = &params[pick.index(params.len())];
        let at = format!("/{}", pointer::escape(name));
        let mut mutated = arguments.clone();
        mutated.insert(name.clone(), wrong.clone());
        let told = flaws(&form, &Value::from(mutated).to_string());
        prop_assert_eq!(told.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(), [at.as_str()]);
        let mut missing = arguments.clone();
        missing.remove(name);
        prop_assert_eq!(flaws(&form, &Value::from(missing).to_string()), [(at, "required")]);
        let mut more = arguments;
        if more.insert(format!("{text}+"), Value::Null).is_none() {
            let told = flaws(&form, &Value::from(more).to_string());
            prop_assert_eq!(told.len(), 1);
            prop_assert_eq!(told[0].1, "unknown-parameter");
        }
    }

    /// An overlay never lets pass what would not pass without it, if the tool declares what the operator names.
    #[test]
    fn an_overlay_only_tightens(params in params(), pick: prop::sample::Index, bound in 0..6_u64) {
        let (schema, mut arguments) = object(&params);
        let (name, (_, _, wrong)) = &params[pick.index(params.len())];
        arguments.insert(name.clone(), wrong.clone());
        let overlay = Overlay {
            params: params.iter().map(|(name, _)| (format!("/{}", pointer::escape(name)), Param { max_len: Some(bound), ..Param::default() })).collect(),
            ..Overlay::default()
        };
        let tight = Form::of(schema.as_bytes(), &overlay).unwrap();
        prop_assert!(tight.check(Some(Value::from(arguments).to_string().as_bytes())).is_err());
    }

    #[test]
    fn no_number_passes_that_a_double_and_a_text_disagree_about(digits in "[0-9]{1,25}", fraction in "(\\.[0-9]{1,25})?", exponent in "([eE][+-]?[0-9]{1,3})?") {
        let text = format!("{}{fraction}{exponent}", digits.trim_start_matches('0').to_owned() + if digits.trim_start_matches('0').is_empty() { "0" } else { "" });
        let bytes = format!("[{text}]");
        if read::wild_number(bytes.as_bytes()).is_none() && text.parse::<u64>().is_err() {
            // The shortest text of the double has the same value, digit by digit.
            let double: f64 = text.parse().unwrap();
            let plain = |text: &str| {
                let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
                let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                let all = format!("{whole}{fraction}");
                let power: i64 = exponent.parse::<i64>().unwrap() - i64::try_from(fraction.len()).unwrap();
                let kept = all.trim_end_matches('0');
                let power = power + i64::try_from(all.len() - kept.len()).unwrap();
                let kept = kept.trim_start_matches('0').to_owned();
                if kept.is_empty() { (kept, 0) } else { (kept, power) }
            };
            prop_assert_eq!(plain(&text), plain(&format!("{double:e}")));
        }
    }

    #[test]
    fn no_bytes_are_too_much(schema: Vec<u8>, arguments: Vec<u8>, text in "[{}\\[\\]\":,a$ref#/0-9]{0,64}") {
        for schema in [schema.as_slice(), text.as_bytes()] {
            if let Ok(form) = Form::of(schema, &Overlay::default()) {
                let _ = form.check(Some(&arguments));
            }
        }
        let form = form(r#"{"type":"object","properties":{"a":{}}}"#);
        prop_assert!(form.check(Some(&arguments)).is_err() || serde_json::from_slice::<Value>(&arguments).is_ok());
    }

    /// A path that passes leads, component by component, below the root: by another reader of paths.
    #[test]
    fn what_passes_as_a_path_is_below_a_root(path in "(/|)(srv|a|ab|\\.|\\.\\.|b)(/(srv|a|ab|\\.|\\.\\.|b|)){0,5}") {
        let roots = [Root { path: "/srv/a".to_owned(), write: true }];
        let kind = ParamKind::Path { rights: Rights::Write };
        if kind.check(&path, &roots, Some("/srv/a/b")).is_ok() {
            let whole = std::path::Path::new("/srv/a/b").join(&path);
            prop_assert!(whole.starts_with("/srv/a"), "{}", whole.display());
            prop_assert!(!whole.components().any(|part| part == std::path::Component::ParentDir));
        }
    }

    #[test]
    fn flaws_are_bounded_and_printable(name in any::<String>(), value in any::<String>()) {
        let form = Form::of(br#"{"type":"object","properties":{"w":{"maxLength":1}}}"#, &with("/w", of_kind(ParamKind::Identifier))).unwrap();
        let arguments = json!({"w": format!("{value}\u{1b}x"), (format!("{name}.")): 1}).to_string();
        let told = form.check(Some(arguments.as_bytes())).unwrap_err();
        prop_assert!(told.len() <= 16);
        for flaw in told {
            prop_assert!(flaw.at.len() + flaw.why.len() <= 300);
            prop_assert!(!flaw.to_string().chars().any(char::is_control), "{flaw}");
        }
    }
}
