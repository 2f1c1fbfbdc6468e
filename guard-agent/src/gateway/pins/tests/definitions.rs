//! What a pin covers and what it does not, and what is refused.

use super::*;

fn pin(definition: &str) -> String {
    let read = Definition::read(definition.as_bytes(), &[], &Limits::default());
    read.unwrap().pin().to_string()
}

/// With a schema around it.
fn schema(inner: &str) -> String {
    pin(&format!(r#"{{"name":"t","inputSchema":{inner}}}"#))
}

#[test]
fn the_canonical_form_is_a_contract() {
    // What is hashed, so that a pin of an earlier release stays one.
    let form = "guard-agent tool definition 1\n\
        {\"a\":[2,1.0,\"\\u0001é\"],\"inputSchema\":{\"required\":[\"a\",\"b\"],\"type\":\"object\"},\"name\":\"t\"}";
    let written = r#" {"name" : "\u0074","inputSchema":{"type":"object","required":["b","a"]},"a":[ 2,	1.0,"\u0001\u00e9"] } "#;
    assert_eq!(
        pin(written.trim()),
        crate::audit::Digest::of(&[form.as_bytes()]).to_string()
    );
}

const WHOLE: &str = r#"{"name":"t","title":"T","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","default":1}}},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[{"src":"https://example.org/i.png"}],"_meta":{"x/v":"1"},"execution":{"taskSupport":"forbidden"},"vendor":[null]}"#;

#[test]
fn a_change_of_any_member_moves_the_pin() {
    let changes = [
        (r#""name":"t""#, r#""name":"u""#),
        (r#""title":"T""#, r#""title":"t""#),
        (r#""description":"d""#, r#""description":"d ""#),
        (r#""default":1"#, r#""default":2"#),
        (r#""default":1"#, r#""default":1.0"#),
        (r#""default":1"#, r#""default":"1""#),
        (r#""outputSchema":{"type":"object"}"#, r#""outputSchema":{}"#),
        (r#""readOnlyHint":true"#, r#""readOnlyHint":false"#),
        ("i.png", "j.png"),
        (r#""x/v":"1""#, r#""x/v":"2""#),
        (r#""taskSupport":"forbidden""#, r#""taskSupport":"optional""#),
        ("[null]", "[]"),
        ("[null]", "[null,null]"),
        (r#","vendor":[null]"#, ""),
        (r#""vendor":"#, r#""Vendor":"#),
    ];
    let before = pin(WHOLE);
    for (from, to) in changes {
        let changed = WHOLE.replacen(from, to, 1);
        assert_ne!(changed, WHOLE, "{from}");
        assert_ne!(pin(&changed), before, "{to}");
    }
}

#[test]
fn sets_of_a_schema_have_no_order_and_nothing_else_is_a_set() {
    let same = [
        (r#"{"required":["a","b"]}"#, r#"{"required":["b","a"]}"#),
        (r#"{"type":["string","null"]}"#, r#"{"type":["null","string"]}"#),
        (
            r#"{"enum":[1,"1",{"a":1,"b":2}]}"#,
            r#"{"enum":[{"b":2,"a":1},"1",1]}"#,
        ),
        (
            r#"{"properties":{"required":{"type":["a","b"]}}}"#,
            r#"{"properties":{"required":{"type":["b","a"]}}}"#,
        ),
        (
            r#"{"items":{"anyOf":[{"required":["a","b"]}]}}"#,
            r#"{"items":{"anyOf":[{"required":["b","a"]}]}}"#,
        ),
        (
            r#"{"$defs":{"x":{"enum":[1,2]}}}"#,
            r#"{"$defs":{"x":{"enum":[2,1]}}}"#,
        ),
    ];
    for (one, other) in same {
        assert_eq!(schema(one), schema(other), "{other}");
    }
    let differ = [
        (
            r#"{"anyOf":[{"type":"a"},{"type":"b"}]}"#,
            r#"{"anyOf":[{"type":"b"},{"type":"a"}]}"#,
        ),
        (r#"{"examples":["a","b"]}"#, r#"{"examples":["b","a"]}"#),
        (
            r#"{"default":{"required":["a","b"]}}"#,
            r#"{"default":{"required":["b","a"]}}"#,
        ),
        (
            r#"{"const":{"enum":["a","b"]}}"#,
            r#"{"const":{"enum":["b","a"]}}"#,
        ),
        (
            r#"{"enum":[{"required":["a","b"]}]}"#,
            r#"{"enum":[{"required":["b","a"]}]}"#,
        ),
        (r#"{"enum":[[1,2]]}"#, r#"{"enum":[[2,1]]}"#),
        (
            r#"{"properties":{"enum":["a","b"]}}"#,
            r#"{"properties":{"enum":["b","a"]}}"#,
        ),
        // What stands twice is no set.
        (r#"{"required":["a","b","a"]}"#, r#"{"required":["a","a","b"]}"#),
        (r#"{"required":["a","b","b"]}"#, r#"{"required":["a","b"]}"#),
        // Not names: no `required` that JSON Schema knows.
        (r#"{"required":[1,2]}"#, r#"{"required":[2,1]}"#),
        (r#"{"enum":[1]}"#, r#"{"enum":[1.0]}"#),
    ];
    for (one, other) in differ {
        assert_ne!(schema(one), schema(other), "{other}");
    }
    assert_ne!(
        pin(r#"{"name":"t","inputSchema":{},"_meta":{"required":["a","b"]}}"#),
        pin(r#"{"name":"t","inputSchema":{},"_meta":{"required":["b","a"]}}"#)
    );
}

#[test]
fn numbers_are_what_is_written() {
    let numbers = [
        "1",
        "1.0",
        "1e0",
        "10e-1",
        "9007199254740992",
        "9007199254740993",
        "-0",
        "0",
    ];
    let pins: std::collections::HashSet<String> = numbers
        .iter()
        .map(|number| schema(&format!(r#"{{"minimum":{number}}}"#)))
        .collect();
    assert_eq!(pins.len(), numbers.len());
}

#[test]
fn letters_are_what_they_stand_for_and_no_more() {
    assert_eq!(
        schema(r#"{"title":"\u0041\/é"}"#),
        schema(r#"{"title":"A/\u00e9"}"#)
    );
    // Composed and decomposed look the same and are not.
    assert_ne!(schema(r#"{"title":"\u00e9"}"#), schema(r#"{"title":"e\u0301"}"#));
    assert_ne!(schema(r#"{"title":"null"}"#), schema(r#"{"title":null}"#));
}

#[test]
fn what_is_volatile_moves_no_pin_and_the_rest_does() {
    let pin = |volatile: &[&str], definition: &str| {
        let volatile: Vec<Pointer> = volatile.iter().map(|text| text.parse().unwrap()).collect();
        Definition::read(definition.as_bytes(), &volatile, &Limits::default())
            .unwrap()
            .pin()
    };
    let of = |version: &str, source: &str, other: &str| {
        format!(
            r#"{{"name":"t","_meta":{{"a/b":{{"version":{version},"x":{other}}}}},"icons":[{{"src":"a"}},{{"src":"{source}"}},{{"src":"c"}}]}}"#
        )
    };
    let volatile = &["/_meta/a~1b/version", "/icons/1/src", "/icons/0", "/nothing/here"];
    let before = pin(volatile, &of("1", "b", "0"));
    assert_eq!(pin(volatile, &of("{\"y\":[2]}", "z", "0")), before);
    assert_ne!(pin(volatile, &of("1", "b", "1")), before);
    assert_ne!(pin(&[], &of("1", "b", "0")), before);
    let without = of("1", "b", "0").replace(r#""version":1,"#, "");
    assert_eq!(pin(volatile, &without), before);
    let other_end = of("1", "b", "0").replace(r#""src":"c""#, r#""src":"d""#);
    assert_ne!(pin(volatile, &other_end), before);
}

#[test]
fn definitions_keep_their_bytes_over_all_pages() {
    let one = br#"{ "tools" : [ {"name":"a","x":1.50} ,{"name" : "b"}], "nextCursor":"" }"#;
    let two = br#"{"tools":[{"name":"c"}]}"#;
    let list = Definitions::default().page(one).unwrap().page(two).unwrap();
    let seen: Vec<(&str, &str)> = list
        .tools()
        .iter()
        .map(|tool| (tool.name(), std::str::from_utf8(tool.raw()).unwrap()))
        .collect();
    let expected = [
        ("a", r#"{"name":"a","x":1.50}"#),
        ("b", r#"{"name" : "b"}"#),
        ("c", r#"{"name":"c"}"#),
    ];
    assert_eq!(seen, expected);
    assert!(list.has("c") && !list.has("d"));
}

#[test]
fn what_two_readers_could_take_for_different_lists_is_refused() {
    let refused = |pages: &[&str]| {
        pages
            .iter()
            .try_fold(Definitions::default(), |list, page| list.page(page.as_bytes()))
            .unwrap_err()
    };
    let tool = r#"{"name":"a"}"#;
    let twice = Refused::Twice("a".to_owned());
    assert_eq!(refused(&[r#"{"tools":[{"name":"a"},{"name":"\u0061"}]}"#]), twice);
    assert_eq!(
        refused(&[
            &format!(r#"{{"tools":[{tool}]}}"#),
            &format!(r#"{{"tools":[{tool}]}}"#)
        ]),
        twice
    );
    let ambiguous = [
        r#"{"tools":[{"name":"a","name":"b"}]}"#,
        r#"{"tools":[{"name":"a","Name":"b"}]}"#,
        r#"{"tools":[{"name":"a","de\u017fcription":"b"}]}"#,
        r#"{"tools":[],"Tools":[]}"#,
        r#"{"tools":[],"tools":[]}"#,
        r#"{"tools":[{"name":"a","inputSchema":{"properties":{"p":1,"p":2}}}]}"#,
    ];
    for page in ambiguous {
        assert!(matches!(refused(&[page]), Refused::Ambiguous(_)), "{page}");
    }
    for page in [r#"{"tools":{}}"#, "{}", "[]", r#"{"tools":null}"#, "7"] {
        assert_eq!(refused(&[page]), Refused::NoTools, "{page}");
    }
    for page in [
        r#"{"tools":[7]}"#,
        r#"{"tools":[{}]}"#,
        r#"{"tools":[{"name":""}]}"#,
        r#"{"tools":[{"name":7}]}"#,
    ] {
        assert_eq!(refused(&[page]), Refused::NoName(0), "{page}");
    }
    for page in ["", "{\"tools\":[}", "{\"tools\":[{\"name\":\"\\ud800\"}]}"] {
        assert!(matches!(refused(&[page]), Refused::Json(_)), "{page}");
    }
}

#[test]
fn what_is_too_much_is_refused_whole() {
    let limits = Limits {
        tools: 2,
        bytes: 120,
        definition: 40,
        depth: 3,
    };
    let page = |page: &str| Definitions::new(limits, Vec::new()).page(page.as_bytes());
    let two = r#"{"tools":[{"name":"a","x":[[1]]},{"name":"b"}]}"#;
    assert_eq!(page(two).unwrap().tools().len(), 2);
    let third = page(two).unwrap().page(br#"{"tools":[{"name":"c"}]}"#);
    assert_eq!(third.unwrap_err(), Refused::TooMany(2));
    let more = page(two)
        .unwrap()
        .page(format!("{:<74}", r#"{"tools":[]}"#).as_bytes());
    assert_eq!(more.unwrap_err(), Refused::TooLong(120));
    assert!(
        page(two)
            .unwrap()
            .page(format!("{:<73}", r#"{"tools":[]}"#).as_bytes())
            .is_ok()
    );
    assert_eq!(
        page(r#"{"tools":[{"name":"a","x":[[[1]]]}]}"#).unwrap_err(),
        Refused::Depth("a".to_owned(), 3)
    );
    let long = format!(r#"{{"tools":[{{"name":"a","x":"{}"}}]}}"#, "x".repeat(24));
    assert_eq!(page(&long).unwrap_err(), Refused::Long("a".to_owned(), 40));
    let nested = format!(
        r#"{{"tools":[{{"name":"a","x":{}0{}}}]}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    assert!(matches!(
        Definitions::default().page(nested.as_bytes()),
        Err(Refused::Json(_))
    ));
}

#[test]
fn a_refusal_shows_no_hidden_character() {
    let page = "{\"tools\":[{\"name\":\"a\u{1b}\u{202e}\"},{\"name\":\"a\u{1b}\u{202e}\"}]}"
        .replace('\u{1b}', "\\u001b");
    let text = Definitions::default()
        .page(page.as_bytes())
        .unwrap_err()
        .to_string();
    assert_eq!(
        text,
        "cannot pin tool `a\\u{1b}\\u{202e}`: the list has two of this name; the server has to tell them apart"
    );
}
