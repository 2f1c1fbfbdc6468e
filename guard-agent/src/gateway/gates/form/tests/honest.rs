//! The tools of real servers, as they list them (`lists/`), with ordinary arguments.

use serde_json::Value;

use super::*;

const LISTS: [(&str, &str); 7] = [
    ("everything", include_str!("lists/everything.json")),
    ("fetch", include_str!("lists/fetch.json")),
    ("filesystem", include_str!("lists/filesystem.json")),
    ("git", include_str!("lists/git.json")),
    ("memory", include_str!("lists/memory.json")),
    ("sqlite", include_str!("lists/sqlite.json")),
    ("time", include_str!("lists/time.json")),
];

pub(super) fn list(server: &str) -> Vec<Value> {
    let (_, text) = LISTS.iter().find(|(name, _)| *name == server).unwrap();
    serde_json::from_str(text).unwrap()
}

/// Ordinary arguments for a schema, with or without what may be left out.
fn ordinary(schema: &Value, whole: bool) -> Value {
    if let Some(first) = schema
        .get("enum")
        .or(schema.get("anyOf"))
        .and_then(|list| list.get(0))
    {
        return if schema.get("enum").is_some() {
            first.clone()
        } else {
            ordinary(first, whole)
        };
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => {
            let required = |name: &str| {
                schema["required"]
                    .as_array()
                    .is_some_and(|names| names.iter().any(|one| one == name))
            };
            let members = schema["properties"].as_object().into_iter().flatten();
            members
                .filter(|(name, _)| whole || required(name))
                .map(|(name, schema)| (name.clone(), ordinary(schema, whole)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        "array" => vec![ordinary(&schema["items"], whole); 3].into(),
        "boolean" => true.into(),
        "integer" | "number" => schema.get("default").cloned().unwrap_or(3.into()),
        "string" => "Zürich, 12:30 – SELECT * FROM \"t\" WHERE a > 1; /srv/docs/a b.txt\n\u{1f600}".into(),
        other => panic!("{other:?} in {schema}"),
    }
}

#[test]
fn every_tool_of_every_list_passes_with_ordinary_arguments() {
    let mut tools = 0;
    for (server, _) in LISTS {
        for tool in list(server) {
            let schema = &tool["inputSchema"];
            let form = Form::of(schema.to_string().as_bytes(), &Overlay::default());
            let form = form.unwrap_or_else(|error| panic!("{server}/{}: {error}", tool["name"]));
            for whole in [true, false] {
                let arguments = ordinary(schema, whole).to_string();
                assert_eq!(
                    form.check(Some(arguments.as_bytes())),
                    Ok(()),
                    "{server}/{} {arguments}",
                    tool["name"]
                );
            }
            if let Some(output) = tool.get("outputSchema") {
                let form = OutputForm::of(output.to_string().as_bytes());
                form.unwrap_or_else(|error| panic!("{server}/{}: {error}", tool["name"]));
            }
            tools += 1;
        }
    }
    assert_eq!(tools, 60);
}

#[test]
fn patterns_that_look_around_are_usable() {
    let form = form(
        r#"{"type":"object","properties":{"mail":{"type":"string","format":"email","pattern":"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"},"body":{"type":"string"}}}"#,
    );
    passes(
        &form,
        &format!(
            r#"{{"mail":"jane.doe@example.org","body":"{}"}}"#,
            "x".repeat(100_000)
        ),
    );
    refused(&form, r#"{"mail":"jane..doe@example.org"}"#, "/mail", "pattern");
    let long = format!(r#"{{"mail":"{}@example.org"}}"#, "x".repeat(2000));
    refused(&form, &long, "/mail", "length");
}
