//! What the operator says, on top of the tool.

use serde_json::json;

use super::*;

const MAIL: &str =
    r#"{"type":"object","properties":{"to":{},"n":{},"opts":{"type":"object"},"list":{"type":"array"}}}"#;

fn of(overlay: &Overlay) -> Form {
    Form::of(MAIL.as_bytes(), overlay).unwrap()
}

fn param(pointer: &str, param: Param) -> Form {
    of(&with(pointer, param))
}

#[test]
fn with_params_only_those_exist_and_below_them_only_what_is_named() {
    let overlay = Overlay {
        params: ["/to", "/opts/retry", "/list/*/name"]
            .map(|pointer| (pointer.to_owned(), Param::default()))
            .into(),
        ..Overlay::default()
    };
    let form = of(&overlay);
    passes(
        &form,
        r#"{"to":{"free":1},"opts":{"retry":1},"list":[{"name":1},{}]}"#,
    );
    let why = refused(&form, r#"{"n":1}"#, "/n", "unknown-parameter");
    assert_eq!(why, "there is no such parameter; valid are: to, opts, list");
    refused(
        &form,
        r#"{"opts":{"retry":1,"force":true}}"#,
        "/opts/force",
        "unknown-parameter",
    );
    refused(
        &form,
        r#"{"list":[{"name":1},{"mode":7}]}"#,
        "/list/1/mode",
        "unknown-parameter",
    );
    refused(&form, r#"{"list":["plain"]}"#, "/list/0", "type");
    // A parameter that the tool does not declare, but the operator does.
    passes(&param("/hidden", Param::default()), r#"{"hidden":1}"#);
    let open = Overlay {
        declared_only: false,
        ..Overlay::default()
    };
    passes(&of(&open), r#"{"other":1}"#);
}

#[test]
fn each_bound_holds_and_means_its_type() {
    let text = Param {
        min_len: Some(2),
        max_len: Some(3),
        ..Param::default()
    };
    let form = param("/to", text);
    for sound in [r#"{"to":"ab"}"#, r#"{"to":"äöü"}"#, r#"{"to":null}"#, "{}"] {
        passes(&form, sound);
    }
    refused(&form, r#"{"to":"a"}"#, "/to", "length");
    assert_eq!(
        refused(&form, r#"{"to":"abcd"}"#, "/to", "length"),
        "must have 2 to 3 characters, not 4"
    );
    refused(&form, r#"{"to":["ab"]}"#, "/to", "type");

    let number = Param {
        min: Some(1.into()),
        max: serde_json::Number::from_f64(2.5),
        ..Param::default()
    };
    let form = param("/n", number);
    for sound in ["1", "1.0", "2.5"] {
        passes(&form, &format!(r#"{{"n":{sound}}}"#));
    }
    for wrong in ["0", "0.999", "2.51", "-1", "18446744073709551615"] {
        assert_eq!(
            refused(&form, &format!(r#"{{"n":{wrong}}}"#), "/n", "range"),
            "must be 1 to 2.5"
        );
    }
    refused(&form, r#"{"n":"2"}"#, "/n", "type");
    let least = Param {
        min: Some(1.into()),
        ..Param::default()
    };
    refused(&param("/n", least), r#"{"n":9007199254740993}"#, "/n", "number");

    let some = Param {
        one_of: vec![json!("a"), json!(1)],
        ..Param::default()
    };
    let form = param("/n", some);
    passes(&form, r#"{"n":1.0}"#);
    passes(&form, r#"{"n":"a"}"#);
    assert_eq!(
        refused(&form, r#"{"n":"1"}"#, "/n", "enum"),
        r#"must be one of "a", 1"#
    );

    let few = Param {
        max_items: Some(1),
        ..Param::default()
    };
    let form = param("/list", few);
    passes(&form, r#"{"list":[1]}"#);
    refused(&form, r#"{"list":[1,2]}"#, "/list", "length");
    refused(&form, r#"{"list":{}}"#, "/list", "type");
}

#[test]
fn a_pattern_is_for_the_whole_value_and_stays_the_operators() {
    let form = param(
        "/to",
        Param {
            pattern: Some("ab|SECRET[0-9]+".to_owned()),
            ..Param::default()
        },
    );
    passes(&form, r#"{"to":"ab"}"#);
    for wrong in ["xab", "abx", "ab\\n", "SECRET1x", ""] {
        let why = refused(&form, &format!(r#"{{"to":"{wrong}"}}"#), "/to", "pattern");
        assert!(!why.contains("SECRET"), "{why}");
    }
}

#[test]
fn a_star_is_every_element_and_member() {
    let form = param("/list/*", of_kind(ParamKind::Identifier));
    passes(&form, r#"{"list":["a","b"]}"#);
    refused(&form, r#"{"list":["a","b c"]}"#, "/list/1", "identifier");
    let form = param("/opts/*", of_kind(ParamKind::Identifier));
    refused(&form, r#"{"opts":{"x/y":"a","z":"-"}}"#, "/opts/z", "identifier");
    // A kind on a list is for each of its elements, and for nothing that is no text.
    let form = param("/list", of_kind(ParamKind::Identifier));
    refused(&form, r#"{"list":["a","b c"]}"#, "/list/1", "identifier");
    refused(&form, r#"{"list":["a",["b c"]]}"#, "/list/1", "type");
    refused(
        &param("/to", of_kind(ParamKind::Identifier)),
        r#"{"to":{"a":"b"}}"#,
        "/to",
        "type",
    );
}

#[test]
fn what_the_operator_says_wrongly_is_no_form() {
    let wrong = |overlay: &Overlay| Form::of(MAIL.as_bytes(), overlay).unwrap_err();
    for pointer in ["to", "", "/a~2", "/a~"] {
        assert_eq!(
            wrong(&with(pointer, Param::default())),
            NoForm::Pointer(pointer.to_owned())
        );
    }
    let cases = [
        Param {
            pattern: Some("(".to_owned()),
            ..Param::default()
        },
        Param {
            pattern: Some("(?=a)".to_owned()),
            ..Param::default()
        },
        Param {
            pattern: Some("a{1000}{1000}".to_owned()),
            ..Param::default()
        },
        Param {
            min_len: Some(2),
            max_len: Some(1),
            ..Param::default()
        },
        Param {
            min: Some(2.into()),
            max: Some(1.into()),
            ..Param::default()
        },
    ];
    for param in cases {
        assert!(matches!(wrong(&with("/to", param)), NoForm::Param(_, _)));
    }
    for root in ["srv", "/srv/../etc", "/srv//a", ""] {
        let roots = vec![Root {
            path: root.to_owned(),
            write: false,
        }];
        assert_eq!(
            wrong(&Overlay {
                roots,
                ..Overlay::default()
            }),
            NoForm::Root(root.to_owned())
        );
    }
}
