//! The page says what is there.

use super::read;

const PAGE: &str = include_str!("../../../../../docs/rules.md");

/// Every policy on the page stands.
#[test]
fn examples() {
    let examples: Vec<&str> = PAGE
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(!examples.is_empty());
    for text in examples {
        let policy = read(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        assert_eq!(policy.hints, Vec::<String>::new());
    }
}

/// Each key the parser knows is explained, by what it says when one is unknown.
#[test]
fn keys() {
    let mut count = 0;
    for table in [
        "server.a",
        "server.a.limits",
        "server.a.tool.b",
        "server.a.tool.b.quota",
        "server.a.tool.b.params.\"/c\"",
        "role.a",
        "role.a.budget",
        "role.a.rate",
        "identity",
        "identity.peer",
        "identity.peer.uid.1",
        "approval",
    ] {
        let text = format!("[{table}]\nnothing_like_it = 1\n");
        let why = read(&text).unwrap_err().why;
        let (_, known) = why
            .split_once("expected ")
            .unwrap_or_else(|| panic!("{table}: {why}"));
        for key in known.split('`').skip(1).step_by(2) {
            count += 1;
            let elsewhere = include_str!("../../../../../docs/policy.md");
            let told = |page: &str| {
                [format!("`{key}`"), format!(".{key}`"), format!("{key} = ")]
                    .iter()
                    .any(|form| page.contains(form))
            };
            assert!(
                told(PAGE) || (table.starts_with("server.a") && told(elsewhere)),
                "{table}: {key}"
            );
        }
    }
    assert!(count > 50, "{count}");
}
