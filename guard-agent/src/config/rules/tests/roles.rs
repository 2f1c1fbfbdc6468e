//! Roles that are refused.

use super::{all_refused, refused};

fn role(allow: &str) -> String {
    format!("[role.other]\nallow = [{allow}]\n")
}

#[test]
fn roles_that_allow_nothing() {
    let fix = "add `allow = [\"SERVER/TOOL\"]`, or remove the role";
    refused("[role.other]\n", 1, "role `other` allows nothing", fix);
    refused(&role(""), 1, "role `other` allows nothing", fix);
}

#[test]
fn servers_and_selectors() {
    refused(
        &role("\"fiels/a\""),
        2,
        "role `other`: there is no `[server.fiels]`",
        "name a server of this file; did you mean `files`?",
    );
    refused(
        &role("\"Files/a\""),
        2,
        "role `other`: there is no `[server.Files]`",
        "name a server of this file; did you mean `files`?",
    );
    refused(
        &role("\"mail/a\""),
        2,
        "role `other`: there is no `[server.mail]`",
        "name a server of this file",
    );
    refused(
        &role("\"*/a\""),
        2,
        "role `other`: `*/a`: `*` does not stand for servers",
        "name a server of this file",
    );
    refused(
        &role("\"read_file\""),
        2,
        "role `other`: `read_file` does not say of which server",
        "write `SERVER/read_file`",
    );
    refused(
        &role("\"promt:files/a\""),
        2,
        "role `other`: `promt:` is not one of `tool:`, `resource:`, `prompt:`",
        "correct the word, or leave it out for a tool; did you mean `prompt`?",
    );
}

#[test]
fn patterns() {
    refused(
        &role("\"files/a b\""),
        2,
        "role `other`: `files/a b`: a name has no ` `, so it never matches",
        "use ASCII letters, digits, `_`, `-`, `.` and `/`; `*` stands for any of them but `/`",
    );
    refused(
        &role("\"resource:files/file:///a b\""),
        2,
        "role `other`: `resource:files/file:///a b`: an address has no ` `, so it never matches",
        "write it with `%` and two digits, as addresses do",
    );
    refused(
        &role("\"resource:files/**/a\""),
        2,
        "role `other`: `resource:files/**/a`: `**` stands only for a whole last part",
        "end it with `/**`, or write `*` once for each part between `/`",
    );
    for dots in ["file:///a/../b", "file:///a/%2E%2e/b", "file:///./a"] {
        refused(
            &role(&format!("\"resource:files/{dots}\"")),
            2,
            &format!(
                "role `other`: `resource:files/{dots}`: an address with `.` or `..` as a part, or with `%2e`, `%2f` or `%5c`, is allowed to nobody"
            ),
            "write the address without them",
        );
    }
    let long = "a".repeat(513);
    refused(
        &role(&format!("\"resource:files/{long}\"")),
        2,
        &format!("role `other`: `resource:files/{long}`: it is longer than 512 characters"),
        "shorten it with `*`",
    );
}

#[test]
fn entries_that_add_nothing() {
    let fix = "remove one of the two";
    for (allow, dead, wide) in [
        (
            "\"files/read_*\", \"files/read_a\"",
            "files/read_a",
            "files/read_*",
        ),
        (
            "\"files/read_a\", \"files/read_*\"",
            "files/read_a",
            "files/read_*",
        ),
        ("\"files/a\", \"tool:files/a\"", "tool:files/a", "files/a"),
        ("\"files/a*c\", \"files/a*\"", "files/a*c", "files/a*"),
        (
            "\"resource:files/file:///a/*\", \"resource:files/**\"",
            "resource:files/file:///a/*",
            "resource:files/**",
        ),
    ] {
        refused(
            &role(allow),
            2,
            &format!("role `other`: `{dead}` adds nothing, `{wide}` allows it already"),
            fix,
        );
    }
    // `*` stops at `/`, and a prompt is no tool.
    super::added(&role("\"files/*\", \"files/*/a\", \"prompt:files/a\""));
}

#[test]
fn budgets_and_rates() {
    let with = |key: &str| format!("{}{key}\n", role("\"files/a\""));
    refused(
        &with("budget = { window = \"1h\" }"),
        3,
        "role `other`: its budget limits nothing",
        "add `calls` or `output_tokens`, or remove `budget`",
    );
    for key in ["calls", "output_tokens"] {
        refused(
            &with(&format!("budget = {{ {key} = 0, window = \"1h\" }}")),
            3,
            &format!("role `other`: a budget of 0 `{key}` allows nothing"),
            "give a larger number, or remove the key",
        );
    }
    let example = "correct that line; `docs/rules.md` has an example";
    refused(
        &with("budget = { calls = 1 }"),
        3,
        "key `budget`: missing key `window`",
        example,
    );
    for (window, why) in [
        ("0s", "is no time at all"),
        ("40d", "is longer than 31 days"),
        ("1w", "is not a time such as \"30s\", \"15m\", \"1h\" or \"1d\""),
    ] {
        refused(
            &with(&format!("budget = {{ calls = 1, window = \"{window}\" }}")),
            3,
            &format!("key `window`: `{window}` {why}"),
            example,
        );
    }
    refused(
        &with("rate = {}"),
        3,
        "role `other`: its rate limits nothing",
        "add `per_tool` or `per_user`, or remove `rate`",
    );
    refused(
        &with("rate = { per_tool = \"10/day\" }"),
        3,
        "key `per_tool`: `10/day` is not a rate such as \"10/1m\"",
        example,
    );
}

#[test]
fn names() {
    refused(
        "[role.\"\u{441}lerk\"]\nallow = [\"files/a\"]\n",
        1,
        "role `\u{441}lerk`: a name has no `\u{441}` (U+0441, not ASCII)",
        "use ASCII letters, digits, `_`, `-` and `.`",
    );
}

#[test]
fn nobody_could_do_anything() {
    let nobody =
        "it locks out everybody: each tool that a role allows needs an approval, and no operator can give it";
    let fix = "say of a tool that its `impact` is low or that it is `reversible`, or add to `operators` of `[approval]`";
    let text = |allow: &str, tool: &str| {
        format!(
            "[server.files]\n{tool}\n[role.a]\nallow = [{allow}]\n[role.unused]\nallow = [\"prompt:files/a\"]\n[identity]\npeer.uid.1 = {{ user = \"u\", roles = [\"a\"] }}\n"
        )
    };
    all_refused(&text("\"files/*\"", ""), 0, nobody, fix);
    all_refused(
        &text(
            "\"files/a\"",
            "tool.a.impact = \"high\"\ntool.b.reversible = true",
        ),
        0,
        nobody,
        fix,
    );
    assert!(super::read(&text("\"files/a\"", "tool.a.reversible = true")).is_ok());
    assert!(super::read(&text("\"prompt:files/a\"", "")).is_ok());
}

/// An operator helps only callers of a tenant of theirs.
#[test]
fn approvals_that_are_never_for_the_caller() {
    let text = |tenant: &str| {
        format!(
            r#"[server.files]
[server.empty]
[role.a]
allow = ["files/*"]
[role.none]
allow = ["empty/*"]
[identity]
peer.uid.1 = {{ user = "u", tenant = "{tenant}", roles = ["a"] }}
peer.uid.2 = {{ user = "v", tenant = "t", roles = ["none"] }}
[approval]
operators = [{{ name = "o", key = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", servers = ["files"], tenants = ["t"] }}]
"#
        )
    };
    assert!(super::read(&text("t")).is_ok());
    all_refused(
        &text("other"),
        0,
        "it locks out everybody: each tool that a role allows needs an approval, and no operator can give it",
        "say of a tool that its `impact` is low or that it is `reversible`, or add to `operators` of `[approval]`",
    );
}
