//! The tool's own schema, rule by rule.

use super::*;

#[test]
fn each_keyword_has_its_rule_and_place() {
    let form = form(
        r#"{"type":"object","required":["a"],"properties":{"a":{"type":"string","maxLength":3},"n":{"type":"integer",
"minimum":1,"exclusiveMaximum":10,"multipleOf":2},"e":{"enum":["x","y"]},"p":{"pattern":"^k"},"l":{"maxItems":1,"items":{"type":"boolean"}},
"u":{"anyOf":[{"type":"string"},{"type":"null"}]},"o":{"oneOf":[{"type":"string"},{"type":"object","required":["k"],"properties":{"k":{"const":1}}}]}}}"#
            .replace('\n', "")
            .as_str(),
    );
    passes(
        &form,
        r#"{"a":"b","n":4,"e":"x","p":"kk","l":[true],"u":null,"o":{"k":1.0}}"#,
    );
    let cases = [
        (
            r#"{}"#,
            "/a",
            "required",
            "is missing; the tool needs this parameter",
        ),
        (r#"{"a":1}"#, "/a", "type", "must be a string"),
        (
            r#"{"a":"four"}"#,
            "/a",
            "length",
            "must have at most 3 characters",
        ),
        (r#"{"a":"b","n":0}"#, "/n", "range", "must be at least 1"),
        (r#"{"a":"b","n":10}"#, "/n", "range", "must be less than 10"),
        (r#"{"a":"b","n":3}"#, "/n", "range", "must be a multiple of 2"),
        (r#"{"a":"b","n":2.5}"#, "/n", "type", "must be a whole number"),
        (r#"{"a":"b","e":"z"}"#, "/e", "enum", r#"must be one of "x", "y""#),
        (
            r#"{"a":"b","p":"x"}"#,
            "/p",
            "pattern",
            "must match the tool's pattern ^k",
        ),
        (
            r#"{"a":"b","l":[true,false]}"#,
            "/l",
            "length",
            "must have at most 1 elements",
        ),
        (r#"{"a":"b","l":["t"]}"#, "/l/0", "type", "must be true or false"),
        (r#"{"a":"b","u":1}"#, "/u", "schema", "must be a string or null"),
        (
            r#"{"a":"b","o":{"k":2}}"#,
            "/o/k",
            "enum",
            "must be 1; the tool's schema has other forms too, which fit less",
        ),
    ];
    for (arguments, at, rule, why) in cases {
        let told = form.check(Some(arguments.as_bytes())).expect_err(arguments);
        assert_eq!(
            (told[0].at.as_str(), told[0].rule, told[0].why.as_str()),
            (at, rule, why),
            "{arguments}"
        );
    }
}

#[test]
fn no_arguments_are_the_empty_object_and_nothing_else_is_one() {
    let needs = form(r#"{"type":"object","properties":{"a":{}},"required":["a"]}"#);
    assert_eq!(needs.check(None).unwrap_err()[0].rule, "required");
    let free = form(r#"{"type":"object","properties":{}}"#);
    assert_eq!(free.check(None), Ok(()));
    for other in ["null", "[]", "1", "\"{}\"", "true"] {
        refused(&free, other, "", "type");
    }
    assert_eq!(no_form(r#"{"type":"array"}"#), NoForm::NotAnObject);
    assert_eq!(no_form(r#"{"type":["string","null"]}"#), NoForm::NotAnObject);
}

#[test]
fn the_schema_says_which_draft_it_is() {
    // Draft 7 has a list in `items` and nothing beside a reference; 2020-12 has `prefixItems` and heeds both.
    let list = r#""type":"object","properties":{"l":{"items":[{"type":"string"}],"additionalItems":false}}}"#;
    let seven = form(&format!(
        r#"{{"$schema":"http://json-schema.org/draft-07/schema#",{list}"#
    ));
    refused(&seven, r#"{"l":[1]}"#, "/l/0", "type");
    let body = r##""type":"object","$defs":{"d":{"type":"string"}},"definitions":{"d":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/d","maxLength":1}}}"##;
    let seven = form(&format!(
        r#"{{"$schema":"http://json-schema.org/draft-07/schema#",{body}"#
    ));
    passes(&seven, r#"{"a":"long"}"#);
    for named in ["", r#""$schema":"https://json-schema.org/draft/2020-12/schema","#] {
        let newest = form(&format!("{{{named}{body}"));
        refused(&newest, r#"{"a":"long"}"#, "/a", "length");
    }
    assert!(matches!(
        no_form(r#"{"$schema":"https://example.org/mine","type":"object"}"#),
        NoForm::Dialect(_)
    ));
    assert_eq!(no_form(r#"{"$schema":7,"type":"object"}"#), NoForm::NotASchema);
}

#[test]
fn what_is_not_declared_does_not_exist_even_in_an_open_schema() {
    for open in [
        "",
        r#","additionalProperties":true"#,
        r#","additionalProperties":{"type":"string"}"#,
    ] {
        let form = form(&format!(
            r#"{{"type":"object","properties":{{"to":{{}},"text":{{}}}}{open}}}"#
        ));
        passes(&form, r#"{"to":"a","text":"b"}"#);
        let why = refused(
            &form,
            r#"{"to":"a","bcc":"evil@example.net"}"#,
            "/bcc",
            "unknown-parameter",
        );
        assert_eq!(why, "there is no such parameter; valid are: text, to");
    }
    // A tool that names none takes none; one that is a map takes what the map does.
    refused(
        &form(r#"{"type":"object"}"#),
        r#"{"x":1}"#,
        "/x",
        "unknown-parameter",
    );
    let map = form(r#"{"type":"object","additionalProperties":{"type":"string"}}"#);
    passes(&map, r#"{"x":"1"}"#);
    refused(&map, r#"{"x":1}"#, "/x", "type");
    let patterns = form(r#"{"type":"object","patternProperties":{"^x-":{"type":"string"}}}"#);
    passes(&patterns, r#"{"x-a":"1"}"#);
    refused(&patterns, r#"{"y":"1"}"#, "/y", "unknown-parameter");
}

#[test]
fn below_the_outermost_object_a_declared_one_is_closed_and_a_map_is_not() {
    let form = form(
        r#"{"type":"object","properties":{"o":{"type":"object","properties":{"k":{}}},"map":{"type":"object"},"open":{"properties":{"k":{}},"additionalProperties":{}}}}"#,
    );
    passes(&form, r#"{"o":{"k":1},"map":{"any":1},"open":{"any":1}}"#);
    refused(&form, r#"{"o":{"k":1,"z":{}}}"#, "/o/z", "unknown-parameter");
}

#[test]
fn declared_through_references_and_alternatives() {
    let form = form(
        r##"{"type":"object","$defs":{"base":{"properties":{"a":{"type":"string"}}}},"allOf":[{"$ref":"#/$defs/base"}],"anyOf":[{"properties":{"b":{}}},{"properties":{"c":{}}}]}"##,
    );
    passes(&form, r#"{"a":"x","b":1,"c":2}"#);
    refused(&form, r#"{"d":1}"#, "/d", "unknown-parameter");
}

#[test]
fn anchors_and_coded_references_are_followed() {
    let form = form(
        r##"{"type":"object","$defs":{"a b":{"$anchor":"here","type":"string"}},"properties":{"x":{"$ref":"#here"},"y":{"$ref":"#/$defs/a%20b"}}}"##,
    );
    refused(&form, r#"{"x":1}"#, "/x", "type");
    refused(&form, r#"{"y":1}"#, "/y", "type");
}

#[test]
fn numbers_that_programs_read_differently_are_refused() {
    let free = form(r#"{"type":"object","properties":{"n":{"type":"number"},"l":{"type":"array"}}}"#);
    for sound in [
        "0",
        "-0",
        "-0.0",
        "0e5",
        "1",
        "1.0",
        "1e2",
        "0.1",
        "1.5e-7",
        "3.141592653589793",
        "9007199254740993",
        "18446744073709551615",
        "-9223372036854775808",
        "1e300",
        "100000000000000000000",
        "5e-324",
    ] {
        passes(&free, &format!(r#"{{"n":{sound}}}"#));
    }
    for wild in [
        "1e400",
        "-1e400",
        "1e-400",
        "9007199254740993.0",
        "9007199254740993e0",
        "0.10000000000000000001",
        "18446744073709551617",
        "123456789012345678901234567890",
        "1e99999999999999999999",
    ] {
        let why = refused(&free, &format!(r#"{{"n":{wild}}}"#), "/n", "number");
        assert!(why.starts_with("the number "), "{why}");
    }
    refused(
        &free,
        r#"{"l":["1e400", "\"", {"a/b":[0, 1e400]}]}"#,
        "/l/2/a~1b/1",
        "number",
    );
}

#[test]
fn a_number_that_is_compared_is_one_that_doubles_hold() {
    let form = form(
        r#"{"type":"object","properties":{"max":{"maximum":9007199254740992},"min":{"exclusiveMinimum":9007199254740992},"one":{"enum":[9007199254740992,"x"]},"free":{"type":"integer"}}}"#,
    );
    passes(&form, r#"{"max":9007199254740992,"free":9007199254740993}"#);
    passes(&form, r#"{"min":9007199254740994}"#);
    for (arguments, at) in [
        (r#"{"min":9007199254740993}"#, "/min"),
        (r#"{"max":-9007199254740993}"#, "/max"),
        (r#"{"one":9007199254740993}"#, "/one"),
    ] {
        assert_eq!(
            flaws(&form, arguments)[0],
            (at.to_owned(), "number"),
            "{arguments}"
        );
    }
    // The neighbour is another number.
    assert_eq!(
        flaws(&form, r#"{"one":9007199254740994}"#),
        [("/one".to_owned(), "enum")]
    );
    assert!(matches!(
        no_form(r#"{"type":"object","properties":{"a":{"maximum":1e400}}}"#),
        NoForm::NotJson(_)
    ));
}

#[test]
fn what_readers_of_json_disagree_about_is_refused() {
    let form = form(r#"{"type":"object","properties":{"a":{},"b":{}}}"#);
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(128), "]".repeat(128));
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":NaN}"#,
        "{",
        "",
        &deep,
    ] {
        refused(&form, text, "", "json");
    }
    let big = format!(r#"{{"a":"{}"}}"#, "x".repeat(read::BYTES));
    refused(&form, &big, "", "size");
}

#[test]
fn a_flaw_is_short_printable_and_one_of_sixteen() {
    let form = form(r#"{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"}}}}"#);
    let many = format!(r#"{{"l":[{}1]}}"#, "1,".repeat(100));
    assert_eq!(form.check(Some(many.as_bytes())).unwrap_err().len(), 16);
    let key = format!("{}\u{202e}\\n<b>é", "k".repeat(500));
    let told = form
        .check(Some(format!(r#"{{"{key}":1}}"#).as_bytes()))
        .unwrap_err();
    let flaw = &told[0];
    assert!(flaw.at.len() + flaw.why.len() <= 300, "{flaw}");
    assert!(!flaw.to_string().contains(['\u{202e}', '\n']), "{flaw}");
    let kinds = Form::of(
        br#"{"type":"object","properties":{"w":{}}}"#,
        &with("/w", of_kind(ParamKind::ShellWord)),
    )
    .unwrap();
    let secret = format!(r#"{{"w":"{}; rm"}}"#, "s".repeat(200));
    let why = refused(&kinds, &secret, "/w", "shell-word");
    assert!(why.matches('s').count() < 80, "{why}");
}

#[test]
fn results_keep_the_promise_of_their_schema() {
    let form = OutputForm::of(br#"{"type":"object","properties":{"t":{"type":"number"}},"required":["t"]}"#)
        .unwrap();
    assert_eq!(form.check(Some(br#"{"t":1.5,"more":[]}"#), false), Ok(()));
    let told = |content: Option<&[u8]>| form.check(content, false).unwrap_err()[0].clone();
    assert_eq!(
        (
            told(Some(br#"{"t":"1"}"#)).at.as_str(),
            told(Some(br#"{"t":"1"}"#)).rule
        ),
        ("/t", "type")
    );
    assert_eq!(told(None).rule, "required");
    assert_eq!(told(Some(b"{")).rule, "json");
    // Nobody compares it again.
    let id = OutputForm::of(br#"{"type":"object","properties":{"id":{"minimum":1}}}"#).unwrap();
    assert_eq!(id.check(Some(br#"{"id":9007199254740993}"#), false), Ok(()));
    // A failed call owes nothing.
    assert_eq!(form.check(None, true), Ok(()));
    assert_eq!(form.check(Some(br#"{"t":"1"}"#), true), Ok(()));
}
