//! The attacks that threads about other gateways tell of, against the lists of real servers.

use super::{honest::list, *};

fn tool(server: &str, name: &str, overlay: &Overlay) -> Form {
    let tools = list(server);
    let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
    Form::of(tool["inputSchema"].to_string().as_bytes(), overlay).unwrap()
}

fn files(pointer: &str, rights: Rights) -> Overlay {
    let root = |path: &str, write| Root {
        path: path.to_owned(),
        write,
    };
    Overlay {
        roots: vec![root("/data", true), root("/ref", false)],
        ..with(pointer, of_kind(ParamKind::Path { rights }))
    }
}

/// `/data` is a root; `/database` begins with the same letters.
#[test]
fn a_sibling_with_the_same_prefix_is_outside() {
    let form = tool("filesystem", "get_file_info", &files("/path", Rights::Read));
    passes(&form, r#"{"path":"/data/x"}"#);
    for outside in [
        "/database/x",
        "/data/../database/x",
        "/data\\u002f..\\u002fetc",
        "/dat",
        "/data%2f..%2fetc",
        "file:///data/x",
    ] {
        refused(&form, &format!(r#"{{"path":"{outside}"}}"#), "/path", "path");
    }
}

#[test]
fn each_of_many_paths_is_looked_at() {
    let form = tool(
        "filesystem",
        "read_multiple_files",
        &files("/paths/*", Rights::Read),
    );
    passes(&form, r#"{"paths":["/data/a","/ref/b"]}"#);
    refused(
        &form,
        r#"{"paths":["/data/a","/ref/b","/etc/shadow"]}"#,
        "/paths/2",
        "path",
    );
    // Not by another type either.
    assert!(!flaws(&form, r#"{"paths":"/etc/shadow"}"#).is_empty());
    assert!(!flaws(&form, r#"{"paths":[["/etc/shadow"]]}"#).is_empty());
}

#[test]
fn an_option_in_the_place_of_a_branch_is_refused() {
    let overlay = Overlay {
        params: vec![
            ("/repo_path".to_owned(), Param::default()),
            ("/target".to_owned(), of_kind(ParamKind::ShellWord)),
        ],
        ..Overlay::default()
    };
    let form = tool("git", "git_diff", &overlay);
    passes(&form, r#"{"repo_path":"/r","target":"origin/main"}"#);
    for injected in [
        "--output=/etc/cron.d/x",
        "-O/tmp/x",
        "main;id",
        "$(id)",
        "main\\nid",
        "main|sh",
    ] {
        refused(
            &form,
            &format!(r#"{{"repo_path":"/r","target":"{injected}"}}"#),
            "/target",
            "shell-word",
        );
    }
}

/// The parameter that nobody sees, beside those that somebody approved.
#[test]
fn a_smuggled_parameter_is_refused_in_every_spelling() {
    let form = tool("fetch", "fetch", &Overlay::default());
    passes(&form, r#"{"url":"https://example.org"}"#);
    for name in [
        "bcc",
        "_meta",
        "approval",
        "URL",
        "url ",
        "url\\u0000",
        "ur\\u217c",
        "__proto__",
        "constructor",
        "$schema",
        "",
    ] {
        let told = flaws(&form, &format!(r#"{{"url":"https://example.org","{name}":"x"}}"#));
        assert_eq!(told.len(), 1, "{name}");
        assert_eq!(told[0].1, "unknown-parameter", "{name}");
    }
    refused(
        &form,
        r#"{"url":"https://example.org","\u0075rl":"file:///etc/passwd"}"#,
        "",
        "json",
    );
}

#[test]
fn the_address_of_the_cloud_is_no_host() {
    let overlay = with(
        "/url",
        of_kind(ParamKind::Url {
            schemes: vec![],
            hosts: vec![],
        }),
    );
    let form = tool("fetch", "fetch", &overlay);
    passes(&form, r#"{"url":"https://example.org/a"}"#);
    for inner in [
        "169.254.169.254",
        "[fd00:ec2::254]",
        "0xa9fea9fe",
        "2852039166",
        "metadata",
        "[::ffff:a9fe:a9fe]",
        "169.254.43518",
    ] {
        refused(
            &form,
            &format!(r#"{{"url":"http://{inner}/latest"}}"#),
            "/url",
            "url",
        );
    }
}
