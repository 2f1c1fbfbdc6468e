//! Rules for tools that are refused.

use super::{all_refused, refused};

/// A rule for one tool, with what it says.
fn tool(body: &str) -> String {
    format!("[server.files.tool.pay]\n{body}\n")
}

/// A tool in the quota quadrant with one more key.
fn quota(body: &str) -> String {
    tool(&format!("impact = \"low\"\nreversible = false\n{body}"))
}

/// A parameter of a tool.
#[track_caller]
fn param_refused(param: &str, why: &str, fix: &str) {
    refused(&tool(&format!("params = {{ \"/a\" = {param} }}")), 2, why, fix);
}

#[test]
fn keys_and_values_that_do_not_exist() {
    refused(
        &tool("reversable = true"),
        2,
        "unknown key `reversable`, expected one of `impact`, `reversible`, `quota`, `params`, `rights`, `sensitive`, `untrusted`",
        "did you mean `reversible`? `docs/rules.md` explains each",
    );
    refused(
        &tool("colour = 1"),
        2,
        "unknown key `colour`, expected one of `impact`, `reversible`, `quota`, `params`, `rights`, `sensitive`, `untrusted`",
        "remove or correct it; `docs/rules.md` explains each",
    );
    refused(
        &tool("impact = \"hihg\""),
        2,
        "key `impact`: unknown value `hihg`, expected `low` or `high`",
        "did you mean `high`? `docs/rules.md` explains each",
    );
    refused(
        &tool("reversible = \"yes\""),
        2,
        "key `reversible`: invalid type: string \"yes\", expected a boolean",
        "correct that line; `docs/rules.md` has an example",
    );
    refused(
        &tool("rights = \"w\""),
        2,
        "key `rights`: `w` is not one of `r`, `rw`, `rx`, `rwx`",
        "correct that line; `docs/rules.md` has an example",
    );
    param_refused(
        "{ kind = \"paht\" }",
        "key `kind`: unknown value `paht`, expected one of `path`, `shell-word`, `host`, `url`, `email-domain`, `identifier`",
        "did you mean `path`? `docs/rules.md` explains each",
    );
    param_refused(
        "{ max_len = -1 }",
        "key `max_len`: invalid value: integer `-1`, expected a whole number",
        "correct that line; `docs/rules.md` has an example",
    );
}

#[test]
fn patterns_that_never_match() {
    let rule = |pattern: &str| format!("[server.files.tool.\"{pattern}\"]\n");
    let charset = "use ASCII letters, digits, `_`, `-`, `.` and `/`; `*` stands for any of them but `/`";
    refused(
        &rule("read?"),
        1,
        "tool `read?`: a name has no `?`, so it never matches",
        charset,
    );
    refused(
        &rule("read file"),
        1,
        "tool `read file`: a name has no ` `, so it never matches",
        charset,
    );
    refused(
        &rule("r\u{435}ad"),
        1,
        "tool `r\u{435}ad`: a name has no `\u{435}` (U+0435, not ASCII), so it never matches",
        charset,
    );
    refused(
        &rule("read\\u200b"),
        1,
        "tool `read\\u{200b}`: a name has no `\\u{200b}` (U+200B, not ASCII), so it never matches",
        charset,
    );
    refused(
        &rule(""),
        1,
        "tool ``: it is empty, and no name is",
        "write a name, or `*`",
    );
    refused(
        &rule("a/**"),
        1,
        "tool `a/**`: `**` is `*` twice, and neither passes a `/`",
        "write `*` once for each part between `/`",
    );
    for long in ["a".repeat(129), format!("{}*", "a".repeat(128))] {
        refused(
            &rule(&long),
            1,
            &format!("tool `{long}`: no name has more than 128 characters, so it never matches"),
            "shorten it",
        );
    }
}

#[test]
fn ties() {
    refused(
        "[server.files.tool.\"read_*_all\"]\n",
        1,
        "tools `read_*` and `read_*_all` tie: both match `read__all`, and the same stands before their first `*`",
        "make one longer before its `*`, or name the tool itself: an exact name wins",
    );
    // The later line is the one that is told.
    refused(
        "[server.files.tool.\"*_b\"]\n[server.files.tool.\"*a*\"]\n",
        2,
        "tools `*_b` and `*a*` tie: both match `a_b`, and the same stands before their first `*`",
        "make one longer before its `*`, or name the tool itself: an exact name wins",
    );
}

#[test]
fn quadrants_that_contradict_a_quota() {
    let fix = "remove `quota`, or say `impact = \"low\"` and `reversible = false`, which means `quota`";
    let with = |rest: &str| tool(&format!("quota = {{ calls = \"20/day\" }}\n{rest}"));
    for (rest, why) in [
        (
            "impact = \"high\"\nreversible = false",
            "high impact and not reversible means `approve`",
        ),
        (
            "",
            "high impact (nothing says otherwise) and not reversible (nothing says otherwise) means `approve`",
        ),
        (
            "reversible = true",
            "high impact (nothing says otherwise) and reversible means `notify`",
        ),
        (
            "impact = \"low\"\nreversible = true",
            "low impact and reversible means `run`",
        ),
    ] {
        refused(
            &with(rest),
            2,
            &format!("tool `pay`: {why}, which no quota changes"),
            fix,
        );
    }
    refused(
        &quota(""),
        1,
        "tool `pay`: low impact and not reversible runs within a quota, and it has none",
        "add `quota = { calls = \"20/day\" }`, or correct `impact` or `reversible`",
    );
}

#[test]
fn quotas() {
    refused(
        &quota("quota = {}"),
        4,
        "tool `pay`: its quota limits nothing",
        "add `calls = \"20/day\"`, or `sum = { \"/amount\" = \"1000/day\" }`",
    );
    let example = "correct that line; `docs/rules.md` has an example";
    for (amount, why) in [
        ("0/day", "allows nothing"),
        ("20/hour", "is not an amount a day such as \"20/day\""),
        ("1.5/day", "is not an amount a day such as \"20/day\""),
    ] {
        let text = quota(&format!("quota = {{ calls = \"{amount}\" }}"));
        refused(&text, 4, &format!("key `calls`: `{amount}` {why}"), example);
    }
    refused(
        &quota("quota = { sum = { \"amount\" = \"9/day\" } }"),
        4,
        "parameter `amount`: a JSON Pointer begins with `/`",
        "write it as `/name`, `/outer/inner`, or `/list/*` for each item",
    );
    refused(
        &quota("quota = { sum = { \"/amount\" = \"9/day\" } }\nparams = { \"/amuont\" = {} }"),
        4,
        "tool `pay`: `sum` counts `/amount`, and `params` does not have it",
        "add it to `params`, or correct the pointer",
    );
    for shape in ["{ max_len = 5 }", "{ max_items = 5 }"] {
        refused(
            &quota(&format!(
                "quota = {{ sum = {{ \"/amount\" = \"9/day\" }} }}\nparams = {{ \"/amount\" = {shape} }}"
            )),
            4,
            "tool `pay`: `sum` counts `/amount`, and by `params` it is no number",
            "count a number, or correct `params`",
        );
    }
}

#[test]
fn rights_that_no_root_has() {
    refused(
        "[server.mail]\n[server.mail.tool.send]\nrights = \"rw\"\n",
        3,
        "tool `send`: rights `rw` are wider than the roots of server `mail`, which have `r`",
        "narrow the rights, or give a root more",
    );
    refused(
        "[server.mail]\nidle_rights = \"rx\"\n",
        2,
        "`idle_rights` `rx` are wider than the roots of server `mail`, which have `r`",
        "narrow them, or give a root more",
    );
    // Each of two roots has one of them, and a path lies in one root.
    param_refused(
        "{ kind = \"path\", roots = \"rwx\" }",
        "parameter `/a`: no root has the rights `rwx`, so no path is allowed",
        "narrow `roots`, or give a root more",
    );
    refused(
        &tool("rights = \"r\"\nparams = { \"/a\" = { kind = \"path\", roots = \"rw\" } }"),
        3,
        "parameter `/a`: it wants a root with `rw`, and tool `pay` has rights `r`",
        "make the two agree",
    );
}

#[test]
fn parameters_that_nothing_can_be() {
    let one_class =
        "keep one: texts have lengths, numbers `min` and `max`, lists `max_items` (their items are `…/*`)";
    param_refused(
        "{ max_len = 5, min = 1 }",
        "parameter `/a`: `max_len` and `min` are never true of one value",
        one_class,
    );
    param_refused(
        "{ pattern = \"a\", max_items = 1 }",
        "parameter `/a`: `pattern` and `max_items` are never true of one value",
        one_class,
    );
    param_refused(
        "{ max_items = 1, one_of = [1] }",
        "parameter `/a`: `max_items` and `one_of` are never true of one value",
        "say what the items may be at `…/*`",
    );
    param_refused(
        "{ roots = \"r\" }",
        "parameter `/a`: `roots` is for paths",
        "add `kind = \"path\"`, or remove `roots`",
    );
    param_refused(
        "{ kind = \"path\", domains = [\"a.org\"] }",
        "parameter `/a`: `domains` is for names of hosts",
        "add `kind = \"email-domain\"`, `\"host\"` or `\"url\"`, or remove `domains`",
    );
    param_refused(
        "{ kind = \"email-domain\" }",
        "parameter `/a`: kind `email-domain` without `domains` allows no address",
        "add `domains = [\"example.org\"]`",
    );
    param_refused(
        "{ min_len = 3, max_len = 2 }",
        "parameter `/a`: no text has at least 3 and at most 2 characters",
        "correct `min_len` or `max_len`",
    );
    param_refused(
        "{ min = 9007199254740993, max = 9007199254740992.0 }",
        "parameter `/a`: no number is at least 9007199254740993 and at most 9007199254740992",
        "correct `min` or `max`",
    );
    param_refused(
        "{ min = inf }",
        "key `min`: `inf` is no number of JSON's",
        "correct that line; `docs/rules.md` has an example",
    );
    param_refused(
        "{ pattern = \"a)|(b\" }",
        "parameter `/a`: `pattern` is no regular expression: unopened group",
        "correct it; the whole value must match, and there are no look-arounds and no back-references",
    );
    for (names, why) in [
        ("[]", "an empty `domains` allows nothing"),
        (
            "[\"Example.org\"]",
            "`Example.org` is no domain in lower-case ASCII",
        ),
        ("[\"a.*.org\"]", "`a.*.org` is no domain in lower-case ASCII"),
        ("[\"-a.org\"]", "`-a.org` is no domain in lower-case ASCII"),
        ("[\"a..org\"]", "`a..org` is no domain in lower-case ASCII"),
    ] {
        let fix = if names == "[]" {
            "name a domain, or remove `domains`"
        } else {
            "write it as `example.org`, or `*.example.org` for every name beneath it; others as `xn--…`"
        };
        param_refused(
            &format!("{{ kind = \"host\", domains = {names} }}"),
            &format!("parameter `/a`: {why}"),
            fix,
        );
    }
}

#[test]
fn choices_that_nothing_can_be() {
    param_refused(
        "{ one_of = [] }",
        "parameter `/a`: an empty `one_of` allows nothing",
        "name a value, or remove `one_of`",
    );
    param_refused(
        "{ one_of = [1, 1.0] }",
        "parameter `/a`: `one_of` has 1 twice",
        "remove one of the two",
    );
    let fix = "remove the value, or correct that key";
    for (shape, value) in [
        ("one_of = [\"abc\", \"abcd\"], max_len = 3", "`abcd`"),
        ("one_of = [\"a\"], min_len = 2", "`a`"),
        ("one_of = [\"ab\"], pattern = \"a\"", "`ab`"),
        ("one_of = [1], pattern = \"1\"", "1"),
        ("one_of = [\"1\"], min = 1", "`1`"),
        ("one_of = [0.5], min = 1", "0.5"),
        ("one_of = [7], max = 6", "7"),
        ("one_of = [true], max = 6", "true"),
        ("one_of = [true], max_len = 6", "true"),
    ] {
        param_refused(
            &format!("{{ {shape} }}"),
            &format!("parameter `/a`: {value} of `one_of` can never be, by another key of this parameter"),
            fix,
        );
    }
}

#[test]
fn pointers() {
    for text in ["", "a"] {
        refused(
            &tool(&format!("params = {{ \"{text}\" = {{}} }}")),
            2,
            &format!("parameter `{text}`: a JSON Pointer begins with `/`"),
            "write it as `/name`, `/outer/inner`, or `/list/*` for each item",
        );
    }
    refused(
        &tool("params = { \"/a~2\" = {} }"),
        2,
        "parameter `/a~2`: in a JSON Pointer `~` stands only as `~0` (a `~`) or `~1` (a `/`), and no part is empty",
        "write it as `/name`, `/outer/inner`, or `/list/*` for each item",
    );
    refused(
        &tool("[server.files.tool.pay.params]\n\"/a/b\" = {}\n\"/a\" = { max_len = 3 }"),
        3,
        "parameter `/a/b` lies in `/a`, whose `max_len` is for a single value",
        "remove one of the two",
    );
}

#[test]
fn servers_and_their_limits() {
    refused(
        "[server.\"a b\"]\n",
        1,
        "server `a b`: a name has no ` `",
        "use ASCII letters, digits, `_`, `-` and `.`",
    );
    refused(
        &format!("[server.{}]\n", "a".repeat(65)),
        1,
        &format!("server `{}`: a name has 1 to 64 characters", "a".repeat(65)),
        "choose another name",
    );
    let limits = |key: &str| format!("[server.b]\nlimits = {{ {key} }}\n");
    let shorter = "give a shorter time";
    refused(
        &limits("call_timeout = \"25h\""),
        2,
        "`call_timeout` is longer than a day",
        shorter,
    );
    refused(
        &limits("start_timeout = \"61m\""),
        2,
        "`start_timeout` is longer than an hour",
        shorter,
    );
    for size in ["1K", "2G"] {
        refused(
            &limits(&format!("output = \"{size}\"")),
            2,
            "`output` is not between \"4K\" and \"1G\"",
            "give another size",
        );
    }
    refused(
        &limits("call_timeout = \"30\""),
        2,
        "key `call_timeout`: `30` is not a time such as \"30s\", \"15m\", \"1h\" or \"1d\"",
        "correct that line; `docs/rules.md` has an example",
    );
}

#[test]
fn what_the_file_cannot_be() {
    all_refused(
        "[server.a\n",
        1,
        "unclosed table, expected `]`",
        "correct that line; `docs/rules.md` has an example",
    );
    all_refused(
        "[sevrer.a]\n",
        1,
        "unknown key `sevrer`, expected one of `server`, `role`, `identity`, `approval`",
        "did you mean `server`? `docs/rules.md` explains each",
    );
}
