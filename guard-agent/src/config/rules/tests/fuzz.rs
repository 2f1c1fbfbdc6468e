//! Whatever a policy says: an answer, and never a panic.

use proptest::{collection::vec, prelude::*};
use toml::{Table, Value};

use super::{BASE, read};

const WORDS: &[&str] = &[
    "server",
    "role",
    "identity",
    "approval",
    "tool",
    "impact",
    "reversible",
    "quota",
    "calls",
    "sum",
    "params",
    "kind",
    "pattern",
    "one_of",
    "min_len",
    "max_len",
    "min",
    "max",
    "max_items",
    "domains",
    "roots",
    "rights",
    "idle_rights",
    "limits",
    "call_timeout",
    "output",
    "allow",
    "budget",
    "window",
    "output_tokens",
    "rate",
    "per_tool",
    "per_user",
    "peer",
    "uid",
    "user",
    "tenant",
    "roles",
    "tenant_param",
    "operators",
    "name",
    "key",
    "servers",
    "tenants",
    "pending_ttl",
    "files",
    "clerk",
    "1000",
    "/a",
    "/a/*",
    "read_*",
    "*",
    "**",
    "path",
    "low",
    "high",
    "rw",
    "20/day",
    "10/1m",
    "1h",
    "files/*",
    "resource:files/**",
    "prompt:files/a",
    "ed25519:AAAA",
    "(",
    "[a-z]+",
    "\u{202e}",
    "",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(WORDS).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => word().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::Integer),
        1 => any::<f64>().prop_map(Value::Float),
        1 => any::<bool>().prop_map(Value::Boolean),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..4).prop_map(Value::Array),
            3 => vec((word(), inner), 0..4).prop_map(|pairs| Value::Table(pairs.into_iter().collect())),
        ]
    })
}

/// Where in a policy that stands something else is put.
fn place() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::select(vec![
        vec!["server", "files"],
        vec!["server", "files", "tool"],
        vec!["server", "files", "tool", "read_*"],
        vec!["role"],
        vec!["role", "clerk"],
        vec!["identity"],
        vec!["identity", "peer", "uid"],
        vec!["identity", "peer", "uid", "1000"],
        vec![],
    ])
}

fn put(table: &mut Table, place: &[&str], key: String, value: Value) {
    match place {
        [] => {
            table.insert(key, value);
        }
        [first, rest @ ..] => {
            if let Some(Value::Table(inner)) = table.get_mut(*first) {
                put(inner, rest, key, value);
            }
        }
    }
}

fn three_lines(text: &str) {
    if let Err(refusal) = read(text) {
        for line in [&refusal.what, &refusal.why, &refusal.hint] {
            assert!(!line.is_empty(), "{refusal:?}");
            assert!(!line.chars().any(char::is_control), "{refusal:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        three_lines(&text);
    }

    #[test]
    fn any_toml(value in vec((word(), value()), 0..5)) {
        let table: Table = value.into_iter().collect();
        three_lines(&toml::to_string(&table).unwrap());
    }

    /// One thing changed in a policy that stands: deeper than chance alone comes.
    #[test]
    fn nearly_right(changes in vec((place(), word(), value()), 1..3)) {
        let mut table: Table = toml::from_str(BASE).unwrap();
        for (place, key, value) in changes {
            put(&mut table, &place, key, value);
        }
        three_lines(&toml::to_string(&table).unwrap());
    }

    #[test]
    fn bytes_changed(at in 0..BASE.len(), with in any::<char>()) {
        let mut text: Vec<char> = BASE.chars().collect();
        text[at] = with;
        three_lines(&text.into_iter().collect::<String>());
    }
}

/// Depth is bounded too, however it is written.
#[test]
fn deep() {
    for deep in [
        format!("{}a = 1", "a.".repeat(100_000)),
        format!("[{}a]", "a.".repeat(100_000)),
        format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("a = {}1{}", "{a=".repeat(100_000), "}".repeat(100_000)),
    ] {
        three_lines(&deep);
    }
}
