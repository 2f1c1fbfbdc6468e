//! Lists without some of their items.

use super::*;

fn apply(filter: Filter, text: &str, drop: &[&str]) -> String {
    let kept = filter
        .apply(text.as_bytes(), |name| !drop.contains(&name))
        .unwrap();
    String::from_utf8(kept.into_owned()).unwrap()
}

#[test]
fn what_stays_is_the_same_bytes() {
    let text = r#"{ "_meta":{"a":1.50}, "tools" : [ {"name":"a"} , {"name" : "\u0062","x":"]"}	,{"name":"c"} ] ,"nextCursor":"" }"#;
    let tools = |tools: &str| format!(r#"{{ "_meta":{{"a":1.50}}, "tools" : {tools} ,"nextCursor":"" }}"#);
    assert_eq!(apply(Filter::Tools, text, &[]), text);
    assert_eq!(
        apply(Filter::Tools, text, &["a"]),
        tools("[ {\"name\" : \"\\u0062\",\"x\":\"]\"}	,{\"name\":\"c\"} ]")
    );
    assert_eq!(
        apply(Filter::Tools, text, &["b"]),
        tools("[ {\"name\":\"a\"}	,{\"name\":\"c\"} ]")
    );
    assert_eq!(
        apply(Filter::Tools, text, &["c"]),
        tools("[ {\"name\":\"a\"} , {\"name\" : \"\\u0062\",\"x\":\"]\"} ]")
    );
    assert_eq!(apply(Filter::Tools, text, &["a", "b", "c"]), tools("[]"));
    assert_eq!(
        apply(Filter::Tools, text, &["a", "b"]),
        tools("[ {\"name\":\"c\"} ]")
    );
}

#[test]
fn what_was_filtered_is_not_cached_and_not_shared() {
    let modern = |scope: &str, ttl: &str, tools: &str| {
        format!(r#"{{"cacheScope":{scope},"resultType":"complete","tools":[{tools}],"ttlMs": {ttl}}}"#)
    };
    let text = modern("\"public\"", "60000", r#"{"name":"a"},{"name":"b"}"#);
    assert_eq!(apply(Filter::Tools, &text, &["x"]), text);
    assert_eq!(
        apply(Filter::Tools, &text, &["a"]),
        modern("\"private\"", "0", r#"{"name":"b"}"#)
    );
    // An older revision has neither, and is given none.
    assert_eq!(
        apply(Filter::Tools, r#"{"tools":[{"name":"a"}]}"#, &["a"]),
        r#"{"tools":[]}"#
    );
}

#[test]
fn each_list_has_its_key_and_its_id() {
    let cases = [
        (Filter::Prompts, "prompts", "name"),
        (Filter::Resources, "resources", "uri"),
        (Filter::Templates, "resourceTemplates", "uriTemplate"),
    ];
    for (filter, list, id) in cases {
        let text = format!(r#"{{"{list}":[{{"{id}":"x","name":"n"}},{{"{id}":"y","name":"m"}}]}}"#);
        let text = if id == "name" {
            text.replace(r#","name":"n""#, "").replace(r#","name":"m""#, "")
        } else {
            text
        };
        let left = apply(filter, &text, &["x"]);
        let parsed: Value = serde_json::from_str(&left).unwrap();
        assert_eq!(parsed[list].as_array().unwrap().len(), 1);
        assert_eq!(parsed[list][0][id], "y");
    }
}

#[test]
fn a_list_that_cannot_be_read_is_not_passed_on() {
    let refused = |filter: Filter, text: &str| filter.apply(text.as_bytes(), |_| true).unwrap_err();
    let list = "tools";
    for text in ["{}", r#"{"tools":{}}"#, r#"{"prompts":[]}"#, "[]"] {
        assert_eq!(
            refused(Filter::Tools, text),
            NotFiltered::Missing { list },
            "{text}"
        );
    }
    for item in [
        "{}",
        r#"{"name":7}"#,
        "7",
        r#"[{"name":"a"}]"#,
        r#"{"x":{"name":"a"}}"#,
    ] {
        let text = format!(r#"{{"tools":[{{"name":"a"}},{item}]}}"#);
        let unnamed = NotFiltered::Unnamed {
            list,
            index: 1,
            id: "name",
        };
        assert_eq!(refused(Filter::Tools, &text), unnamed, "{text}");
    }
    let unsound = [
        r#"{"tools":[{"name":"a"}"#,
        r#"{"tools":[],"Tools":[]}"#,
        r#"{"tools":[{"name":"a","NAME":"b"}]}"#,
        r#"{"tools":[{"name":"a","name":"b"}]}"#,
    ];
    for text in unsound {
        assert!(
            matches!(refused(Filter::Tools, text), NotFiltered::Unsound { .. }),
            "{text}"
        );
    }
    let twice = r#"{"tools":[{"name":"a"}],"ttlMs":1,"TTLMS":5}"#;
    let dropped = Filter::Tools.apply(twice.as_bytes(), |_| false);
    assert!(matches!(dropped, Err(NotFiltered::Unsound { .. })));
}
