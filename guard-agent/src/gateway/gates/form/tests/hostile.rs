//! Schemas that a server could send to get round the check or to keep us busy.

use std::fmt::Write;

use super::*;

fn nested(levels: usize, key: &str, end: &str) -> String {
    format!(
        "{}{end}{}",
        format!("{{\"{key}\":").repeat(levels),
        "}".repeat(levels)
    )
}

/// Definitions d0 to dN, each made from the number of the next one; the last is `end`.
fn chain(length: usize, each: impl Fn(usize) -> String, end: &str) -> String {
    let mut out = String::new();
    for index in 0..length {
        let _ = write!(out, "\"d{index}\":{},", each(index + 1));
    }
    format!("{out}\"d{length}\":{end}")
}

#[test]
fn nothing_outside_of_the_schema_is_referred_to() {
    for reference in [
        "https://example.org/s.json",
        "file:///etc/passwd",
        "other.json",
        "#/$defs/none",
        "#none",
        "//x/y",
        "urn:x",
        "#/%ff",
        "http://json-schema.org/draft-07/schema#",
    ] {
        let schema = format!(r#"{{"type":"object","properties":{{"a":{{"$ref":"{reference}"}}}}}}"#);
        assert!(matches!(no_form(&schema), NoForm::Reference(_)), "{reference}");
    }
}

#[test]
fn what_makes_a_schema_mean_something_else_is_refused() {
    for (keyword, value) in [
        ("$id", "\"https://example.org/x\""),
        ("$schema", "\"http://json-schema.org/draft-07/schema#\""),
        ("$dynamicRef", "\"#x\""),
        ("$recursiveRef", "\"#\""),
        ("$dynamicAnchor", "\"x\""),
    ] {
        let schema = format!(r#"{{"type":"object","properties":{{"a":{{"{keyword}":{value}}}}}}}"#);
        assert_eq!(no_form(&schema), NoForm::Keyword(keyword), "{schema}");
        // A parameter may be called so.
        let schema = format!(r#"{{"type":"object","properties":{{"{keyword}":{{"type":"string"}}}}}}"#);
        passes(&form(&schema), &format!(r#"{{"{keyword}":"x"}}"#));
    }
}

#[test]
fn schemas_that_are_none() {
    for schema in ["true", "[]", "\"x\"", "1", "null"] {
        assert_eq!(no_form(schema), NoForm::NotASchema, "{schema}");
    }
    assert_eq!(
        no_form(r#"{"type":"object","properties":{"a":1}}"#),
        NoForm::NotASchema
    );
    let twice = r##"{"properties":{"a":{"$anchor":"x"},"b":{"$anchor":"x"},"c":{"$ref":"#x"}}}"##;
    assert_eq!(no_form(twice), NoForm::Reference("\"x\"".to_owned()));
    for schema in ["", "{", r#"{"type":"object","type":"object"}"#] {
        assert!(matches!(no_form(schema), NoForm::NotJson(_)), "{schema}");
    }
    for schema in [
        r#"{"type":"objekt"}"#.replace("objekt", "object\",\"required\":\"a"),
        r#"{"type":"object","properties":{"a":{"type":"strin"}}}"#.to_owned(),
        r#"{"type":"object","properties":{"a":{"pattern":"("}}}"#.to_owned(),
        r#"{"type":"object","properties":{"a":{"minLength":-1}}}"#.to_owned(),
    ] {
        assert!(matches!(no_form(&schema), NoForm::Invalid(_)), "{schema}");
    }
    let big = format!(r#"{{"type":"object","description":"{}"}}"#, "x".repeat(300_000));
    assert_eq!(no_form(&big), NoForm::TooBig(262_144));
}

#[test]
fn schemas_without_an_end_or_too_big_are_refused() {
    for schema in [
        r##"{"$ref":"#"}"##,
        r##"{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}"##,
        r##"{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
    ] {
        assert_eq!(no_form(schema), NoForm::Endless, "{schema}");
    }
    let deep = format!(r#"{{"properties":{{"x":{}}}}}"#, nested(100, "not", "true"));
    assert_eq!(no_form(&deep), NoForm::TooDeep(32));
    let wide: Vec<String> = (0..2100).map(|index| format!("\"p{index}\":{{}}")).collect();
    assert_eq!(
        no_form(&format!(r#"{{"properties":{{{}}}}}"#, wide.join(","))),
        NoForm::TooManySubschemas(2048)
    );
}

#[test]
fn work_that_doubles_at_each_level_is_counted_before_it_is_done() {
    let branch =
        |needs: &str| format!(r##"{{"properties":{{"x":{{"$ref":"#/$defs/a"}}}},"required":["{needs}"]}}"##);
    let schema = format!(
        r##"{{"type":"object","$defs":{{"a":{{"anyOf":[{},{}]}}}},"$ref":"#/$defs/a"}}"##,
        branch("y"),
        branch("z")
    );
    let recursive = form(&schema);
    let told = flaws(&recursive, &nested(100, "x", "1"));
    assert_eq!(told.last().unwrap().1, "work");
    // A few levels are no harm.
    assert!(
        flaws(&recursive, &nested(4, "x", "1"))
            .iter()
            .all(|(_, rule)| *rule != "work")
    );

    let laughs = |length| {
        let all = |next: usize| {
            format!(r##"{{"allOf":[{{"$ref":"#/$defs/d{next}"}},{{"$ref":"#/$defs/d{next}"}}]}}"##)
        };
        form(&format!(
            r##"{{"$defs":{{{}}},"properties":{{"a":{{"items":{{"$ref":"#/$defs/d0"}}}}}}}}"##,
            chain(length, all, "{}")
        ))
    };
    passes(&laughs(8), r#"{"a":[1,1,1,1]}"#);
    passes(&laughs(15), r#"{"a":[1]}"#);
    assert_eq!(
        flaws(&laughs(15), r#"{"a":[1,1,1,1]}"#),
        [("/a/1".to_owned(), "work")]
    );
    let own = form(
        r##"{"$id":"https://example.org/me","type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}"##,
    );
    refused(&own, r#"{"a":1}"#, "/a", "type");
    let many = form(r#"{"type":"object","properties":{"a":{"type":"array"}}}"#);
    let items = |count: usize| format!(r#"{{"a":[{}1]}}"#, "1,".repeat(count));
    passes(&many, &items(200_000));
    assert_eq!(flaws(&many, &items(300_000))[0].1, "work");
    let options: Vec<String> = (0..20_000).map(|index| format!("\"{index}x\"")).collect();
    let options = form(&format!(
        r#"{{"properties":{{"a":{{"items":{{"enum":[{}]}}}}}}}}"#,
        options.join(",")
    ));
    assert_eq!(
        flaws(&options, &format!(r#"{{"a":[{}"1x"]}}"#, r#""1x","#.repeat(500)))[0].1,
        "work"
    );
    let slow = form(
        r#"{"properties":{"a":{"items":{"allOf":[{"pattern":"[ab]*a[ab]{300}c"},{"pattern":"c[ab]{300}"}]}}}}"#,
    );
    let texts = |count: usize| {
        format!(
            r#"{{"a":[{}1]}}"#,
            format!("\"{}\",", "ab".repeat(100_000)).repeat(count)
        )
    };
    assert_eq!(flaws(&slow, &texts(12)), [("/a/10".to_owned(), "work")]);
    assert_eq!(flaws(&slow, &texts(1))[0].1, "pattern");
}

/// Tests run on the small stack of a thread, as smaller as any that the gateway has.
#[test]
fn the_deepest_schema_and_value_fit_on_the_stack() {
    let step = |next: usize| format!(r##"{{"allOf":[{{"$ref":"#/$defs/d{next}"}}]}}"##);
    let loops = format!(
        r##"{{"$defs":{{{}}},"$ref":"#/$defs/d0"}}"##,
        chain(15, step, r##"{"additionalProperties":{"$ref":"#/$defs/d0"}}"##)
    );
    let overlay = Overlay {
        declared_only: false,
        ..Overlay::default()
    };
    let form = Form::of(loops.as_bytes(), &overlay).unwrap();
    passes(&form, &nested(127, "x", "1"));
    let down = |next: usize| format!(r##"{{"properties":{{"x":{{"$ref":"#/$defs/d{next}"}}}}}}"##);
    let long = format!(
        r##"{{"$defs":{{{}}},"$ref":"#/$defs/d0"}}"##,
        chain(1022, down, "{}")
    );
    let form = Form::of(long.as_bytes(), &overlay).unwrap();
    passes(&form, &nested(127, "x", "1"));
}

#[test]
fn a_pattern_that_steps_back_is_no_way_round_it() {
    // Where it gives up, the value is refused, under `not` too.
    for schema in [
        r#"{"pattern":"^(?=a)(a*)*\\1b$"}"#,
        r#"{"not":{"pattern":"^(?=a)(a*)*\\1b$"}}"#,
    ] {
        let form = form(&format!(r#"{{"type":"object","properties":{{"a":{schema}}}}}"#));
        let told = flaws(&form, &format!(r#"{{"a":"{}"}}"#, "a".repeat(1000)));
        assert_eq!(told.len(), 1, "{schema}");
    }
}
